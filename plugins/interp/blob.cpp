// The binary that compile makes and load reads: a fixed header, then the arrays as they are in memory. Only the
// library that wrote a binary reads it (compiler_id is part of the host's cache key), so structs are written whole.
#include <cstring>

#include "interp.h"

namespace tolk_interp {
namespace {

struct Header {
  char magic[8];
  uint64_t checksum; // of everything after this field
  uint32_t version;  // TOLK_KERNEL_IR_VERSION
  uint32_t name_size, op_count, source_count, attr_count, param_count;
};
constexpr char kMagic[8] = {'T', 'K', 'I', 'N', 'T', 'E', 'R', '1'};
constexpr size_t kSummed = offsetof(Header, version);

// FNV-1a.
uint64_t checksum(const std::byte* data, size_t size) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < size; i++) hash = (hash ^ static_cast<uint64_t>(data[i])) * 0x100000001b3;
  return hash;
}

template <class T> void append(std::string& out, const std::vector<T>& items) {
  if (!items.empty()) out.append(reinterpret_cast<const char*>(items.data()), items.size() * sizeof(T));
}

template <class T> void take(const std::byte*& from, std::vector<T>& items, uint32_t count) {
  items.resize(count);
  if (count) std::memcpy(items.data(), from, count * sizeof(T));
  from += count * sizeof(T);
}

template <class T> std::vector<T> copy(const T* items, uint32_t count) {
  return count ? std::vector<T>(items, items + count) : std::vector<T>();
}

[[noreturn]] void bad(const char* why) {
  throw Error{TOLK_E_BAD_BINARY, std::string("not a kernel of this interpreter: ") + why};
}

} // namespace

Kernel copy_kernel(const tolk_kernel_ir& ir) {
  if (ir.struct_size < sizeof ir || ir.version >> 16 != TOLK_KERNEL_IR_VERSION >> 16 ||
      ir.version > TOLK_KERNEL_IR_VERSION)
    throw Error{TOLK_E_VERSION, "the kernel is of a version that this interpreter does not know"};
  return {ir.name, copy(ir.ops, ir.op_count), copy(ir.sources, ir.source_count),
          copy(ir.attrs, ir.attr_count), copy(ir.params, ir.param_count)};
}

std::string pack(const Kernel& kernel) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = TOLK_KERNEL_IR_VERSION;
  header.name_size = static_cast<uint32_t>(kernel.name.size());
  header.op_count = static_cast<uint32_t>(kernel.ops.size());
  header.source_count = static_cast<uint32_t>(kernel.sources.size());
  header.attr_count = static_cast<uint32_t>(kernel.attrs.size());
  header.param_count = static_cast<uint32_t>(kernel.params.size());
  std::string out(reinterpret_cast<const char*>(&header), sizeof header);
  append(out, kernel.ops);
  append(out, kernel.attrs);
  append(out, kernel.params);
  append(out, kernel.sources);
  out += kernel.name;
  header.checksum = checksum(reinterpret_cast<const std::byte*>(out.data()) + kSummed, out.size() - kSummed);
  std::memcpy(out.data(), &header, sizeof header);
  return out;
}

Kernel unpack(std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() < sizeof header) bad("too short");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) bad("the mark is missing");
  if (header.version != TOLK_KERNEL_IR_VERSION) bad("another version");
  if (header.checksum != checksum(bytes.data() + kSummed, bytes.size() - kSummed)) bad("damaged");
  // Each product is below 2^38: the sum cannot wrap.
  uint64_t size = sizeof header + uint64_t{header.op_count} * sizeof(tolk_ir_op) +
                  uint64_t{header.attr_count} * 8 + uint64_t{header.param_count} * sizeof(tolk_param) +
                  uint64_t{header.source_count} * 4 + header.name_size;
  if (size != bytes.size()) bad("the counts do not fit the size");
  Kernel kernel;
  const std::byte* at = bytes.data() + sizeof header;
  take(at, kernel.ops, header.op_count);
  take(at, kernel.attrs, header.attr_count);
  take(at, kernel.params, header.param_count);
  take(at, kernel.sources, header.source_count);
  kernel.name.assign(reinterpret_cast<const char*>(at), header.name_size);
  return kernel;
}

} // namespace tolk_interp
