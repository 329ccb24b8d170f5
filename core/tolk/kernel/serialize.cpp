// Binary form: a header of fixed size, then name, parameters, operations, sources, attributes. Little-endian and
// written field by field, independent of struct padding and the machine's byte order.
#include <string>

#include <fmt/format.h>

#include "tolk/base/check.h"
#include "tolk/base/error.h"
#include "tolk/base/hash.h"
#include "tolk/base/packed.h"
#include "tolk/kernel/ir_info.h"
#include "tolk/kernel/kernel_ir.h"

namespace tolk {
namespace {

constexpr std::string_view kMagic = "tolkKIR\n"; // the newline catches text-mode damage
constexpr size_t kHeaderSize = 8 + 8 + 4 + 4 * 5;
constexpr size_t kOpSize = 8, kParamSize = 40;

} // namespace

std::string serialize(const KernelIR& kernel) {
  TOLK_CHECK(ir::is_canonical(kernel), "only kernels in canonical layout are serialized");
  PackWriter body;
  body.fixed(uint32_t{TOLK_KERNEL_IR_VERSION});
  for (size_t count : {kernel.name.size(), kernel.params.size(), kernel.ops.size(), kernel.sources.size(),
                       kernel.attrs.size()}) {
    TOLK_CHECK(count <= UINT32_MAX, "a kernel has less than 2^32 of everything");
    body.fixed(uint32_t(count));
  }
  body.raw(kernel.name);
  for (const tolk_param& p : kernel.params)
    body.fixed(p.kind)
        .fixed(p.access)
        .fixed(p.dtype)
        .fixed(p.reserved)
        .fixed(p.count)
        .fixed(p.min)
        .fixed(p.max);
  for (const tolk_ir_op& op : kernel.ops) {
    TOLK_CHECK(op.reserved == 0, "reserved fields are zero");
    body.fixed(op.opcode).fixed(op.dtype).fixed(op.flags).fixed(op.lanes).fixed(op.source_count);
  }
  for (uint32_t source : kernel.sources) body.fixed(source);
  for (uint64_t attr : kernel.attrs) body.fixed(attr);
  return PackWriter().raw(kMagic).fixed(hash64(body.bytes())).raw(body.bytes()).bytes();
}

KernelIR deserialize_kernel_ir(std::string_view bytes) {
  if (bytes.size() < kHeaderSize || bytes.substr(0, kMagic.size()) != kMagic)
    throw FormatError("kernel binary: expected the mark of a serialized kernel, found other bytes");
  PackReader in("kernel binary", bytes.substr(kMagic.size()));
  auto stored = in.fixed<uint64_t>();
  if (stored != hash64(bytes.substr(kMagic.size() + 8)))
    throw FormatError("kernel binary: the checksum does not match; the bytes are damaged");
  auto version = in.fixed<uint32_t>();
  if (version >> 16 != TOLK_KERNEL_IR_VERSION >> 16 || version > TOLK_KERNEL_IR_VERSION)
    throw FormatError(fmt::format(
        "kernel binary: expected version up to {}.{}, found {}.{}; compile it again",
        TOLK_KERNEL_IR_VERSION >> 16, TOLK_KERNEL_IR_VERSION & 0xffff, version >> 16, version & 0xffff));
  uint64_t name_size = in.fixed<uint32_t>(), params = in.fixed<uint32_t>(), ops = in.fixed<uint32_t>();
  uint64_t sources = in.fixed<uint32_t>(), attrs = in.fixed<uint32_t>();
  // Each product is below 2^38, so that the sum cannot wrap. Checked before anything is allocated.
  if (name_size + params * kParamSize + ops * kOpSize + sources * 4 + attrs * 8 != in.left())
    throw FormatError("kernel binary: the counts do not add up to the size");

  KernelIR kernel;
  kernel.name = in.raw(name_size);
  kernel.params.reserve(params);
  for (uint64_t i = 0; i < params; i++) {
    tolk_param p{};
    p.kind = in.fixed<uint32_t>();
    p.access = in.fixed<uint32_t>();
    p.dtype = in.fixed<uint32_t>();
    p.reserved = in.fixed<uint32_t>();
    p.count = in.fixed<uint64_t>();
    p.min = in.fixed<int64_t>();
    p.max = in.fixed<int64_t>();
    kernel.params.push_back(p);
  }
  uint64_t next_source = 0, next_attr = 0;
  kernel.ops.reserve(ops);
  for (uint64_t i = 0; i < ops; i++) {
    tolk_ir_op op{};
    op.opcode = in.fixed<uint16_t>();
    op.dtype = in.fixed<uint8_t>();
    op.flags = in.fixed<uint8_t>();
    op.lanes = in.fixed<uint16_t>();
    op.source_count = in.fixed<uint16_t>();
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
      kernel.sources.push_back(in.fixed<uint32_t>());
      if (kernel.sources.back() >= i)
        throw FormatError(fmt::format("kernel binary: operation {} uses %{}, which is not an earlier one", i,
                                      kernel.sources.back()));
    }
  }
  kernel.attrs.reserve(attrs);
  for (uint64_t i = 0; i < attrs; i++) kernel.attrs.push_back(in.fixed<uint64_t>());
  return kernel;
}

} // namespace tolk
