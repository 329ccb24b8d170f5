// Binary form: a header of fixed size, then name, parameters, operations, sources, attributes. Little-endian and
// written field by field, independent of struct padding and the machine's byte order.
#include <cstring>
#include <string>

#include <fmt/format.h>
#include <xxhash.h>

#include "tolk/base/check.h"
#include "tolk/base/error.h"
#include "tolk/kernel/ir_info.h"
#include "tolk/kernel/kernel_ir.h"

namespace tolk {
namespace {

constexpr std::string_view kMagic = "tolkKIR\n"; // the newline catches text-mode damage
constexpr size_t kHeaderSize = 8 + 8 + 4 + 4 * 5;
constexpr size_t kOpSize = 8, kParamSize = 40;

class Writer {
public:
  template <class T> void put(T value) {
    auto bits = static_cast<uint64_t>(value);
    for (size_t i = 0; i < sizeof(T); i++) bytes_.push_back(static_cast<char>(bits >> (8 * i)));
  }
  void put_text(std::string_view text) { bytes_ += text; }
  std::string& bytes() { return bytes_; }

private:
  std::string bytes_;
};

class Reader {
public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  template <class T> T get() {
    uint64_t bits = 0;
    for (size_t i = 0; i < sizeof(T); i++)
      bits |= static_cast<uint64_t>(static_cast<unsigned char>(text(1)[0])) << (8 * i);
    return static_cast<T>(bits);
  }
  std::string_view text(uint64_t size) {
    if (size > bytes_.size()) throw FormatError("kernel binary: ends early; it is truncated");
    std::string_view result = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return result;
  }
  uint64_t left() const { return bytes_.size(); }

private:
  std::string_view bytes_;
};

uint64_t checksum(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

} // namespace

std::string serialize(const KernelIR& kernel) {
  TOLK_CHECK(ir::is_canonical(kernel), "only kernels in canonical layout are serialized");
  Writer body;
  body.put(uint32_t{TOLK_KERNEL_IR_VERSION});
  for (size_t count : {kernel.name.size(), kernel.params.size(), kernel.ops.size(), kernel.sources.size(),
                       kernel.attrs.size()}) {
    TOLK_CHECK(count <= UINT32_MAX, "a kernel has less than 2^32 of everything");
    body.put(static_cast<uint32_t>(count));
  }
  body.put_text(kernel.name);
  for (const tolk_param& p : kernel.params) {
    body.put(p.kind);
    body.put(p.access);
    body.put(p.dtype);
    body.put(p.reserved);
    body.put(p.count);
    body.put(p.min);
    body.put(p.max);
  }
  for (const tolk_ir_op& op : kernel.ops) {
    TOLK_CHECK(op.reserved == 0, "reserved fields are zero");
    body.put(op.opcode);
    body.put(op.dtype);
    body.put(op.flags);
    body.put(op.lanes);
    body.put(op.source_count);
  }
  for (uint32_t source : kernel.sources) body.put(source);
  for (uint64_t attr : kernel.attrs) body.put(attr);

  Writer out;
  out.put_text(kMagic);
  out.put(checksum(body.bytes()));
  out.put_text(body.bytes());
  return std::move(out.bytes());
}

KernelIR deserialize_kernel_ir(std::string_view bytes) {
  if (bytes.size() < kHeaderSize || bytes.substr(0, kMagic.size()) != kMagic)
    throw FormatError("kernel binary: expected the mark of a serialized kernel, found other bytes");
  Reader in(bytes.substr(kMagic.size()));
  auto stored = in.get<uint64_t>();
  if (stored != checksum(bytes.substr(kMagic.size() + 8)))
    throw FormatError("kernel binary: the checksum does not match; the bytes are damaged");
  auto version = in.get<uint32_t>();
  if (version >> 16 != TOLK_KERNEL_IR_VERSION >> 16 || version > TOLK_KERNEL_IR_VERSION)
    throw FormatError(fmt::format(
        "kernel binary: expected version up to {}.{}, found {}.{}; compile it again",
        TOLK_KERNEL_IR_VERSION >> 16, TOLK_KERNEL_IR_VERSION & 0xffff, version >> 16, version & 0xffff));
  uint64_t name_size = in.get<uint32_t>(), params = in.get<uint32_t>(), ops = in.get<uint32_t>();
  uint64_t sources = in.get<uint32_t>(), attrs = in.get<uint32_t>();
  // Each product is below 2^38, so that the sum cannot wrap. Checked before anything is allocated.
  if (name_size + params * kParamSize + ops * kOpSize + sources * 4 + attrs * 8 != in.left())
    throw FormatError("kernel binary: the counts do not add up to the size");

  KernelIR kernel;
  kernel.name = in.text(name_size);
  kernel.params.reserve(params);
  for (uint64_t i = 0; i < params; i++) {
    tolk_param p{};
    p.kind = in.get<uint32_t>();
    p.access = in.get<uint32_t>();
    p.dtype = in.get<uint32_t>();
    p.reserved = in.get<uint32_t>();
    p.count = in.get<uint64_t>();
    p.min = in.get<int64_t>();
    p.max = in.get<int64_t>();
    kernel.params.push_back(p);
  }
  uint64_t next_source = 0, next_attr = 0;
  kernel.ops.reserve(ops);
  for (uint64_t i = 0; i < ops; i++) {
    tolk_ir_op op{};
    op.opcode = in.get<uint16_t>();
    op.dtype = in.get<uint8_t>();
    op.flags = in.get<uint8_t>();
    op.lanes = in.get<uint16_t>();
    op.source_count = in.get<uint16_t>();
    if (!ir::op_info(op.opcode).name)
      throw FormatError(fmt::format("kernel binary: operation {} has the unknown opcode {}", i, op.opcode));
    op.first_source = static_cast<uint32_t>(next_source);
    op.first_attr = static_cast<uint32_t>(next_attr);
    next_source += op.source_count;
    next_attr += static_cast<uint64_t>(ir::op_info(op.opcode).attrs);
    if (next_source > sources || next_attr > attrs)
      throw FormatError(fmt::format("kernel binary: operation {} needs more operands than there are", i));
    kernel.ops.push_back(op);
  }
  if (next_source != sources || next_attr != attrs)
    throw FormatError("kernel binary: operands are left over after the last operation");
  kernel.sources.reserve(sources);
  for (uint64_t i = 0; i < ops; i++) {
    for (uint64_t k = 0; k < kernel.ops[i].source_count; k++) {
      kernel.sources.push_back(in.get<uint32_t>());
      if (kernel.sources.back() >= i)
        throw FormatError(fmt::format("kernel binary: operation {} uses %{}, which is not an earlier one", i,
                                      kernel.sources.back()));
    }
  }
  kernel.attrs.reserve(attrs);
  for (uint64_t i = 0; i < attrs; i++) kernel.attrs.push_back(in.get<uint64_t>());
  return kernel;
}

} // namespace tolk
