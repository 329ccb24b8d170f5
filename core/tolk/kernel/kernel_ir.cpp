#include "tolk/kernel/kernel_ir.h"

#include <algorithm>
#include <array>

#include "tolk/base/check.h"
#include "tolk/kernel/ir_info.h"

namespace tolk {

namespace ir {

namespace {

constexpr int attr_words(uint16_t opcode) {
  switch (opcode) {
  case TOLK_IR_SPECIAL:
    return 2;
  case TOLK_IR_PARAM:
  case TOLK_IR_DEFINE_LOCAL:
  case TOLK_IR_DEFINE_REG:
  case TOLK_IR_CONST:
  case TOLK_IR_EXTRACT:
    return 1;
  default:
    return 0;
  }
}

constexpr std::array<OpInfo, TOLK_IR_OPCODE_LIMIT> make_op_table() {
  std::array<OpInfo, TOLK_IR_OPCODE_LIMIT> table{};
#define TOLK_IR(NAME, code, lo, hi, meaning) table[code] = {#NAME, lo, hi, attr_words(code)};
#include <tolk/plugin/kernel_ir_ops.def>
#undef TOLK_IR
  return table;
}
constexpr auto kOps = make_op_table();
constexpr OpInfo kNoOp{nullptr, 0, 0, -1};

constexpr std::array<TypeInfo, TOLK_DTYPE_COUNT> make_type_table() {
  std::array<TypeInfo, TOLK_DTYPE_COUNT> table{};
#define TOLK_DTYPE(NAME, text, code, bits, kind) table[code] = {#text, bits, kind};
#include <tolk/plugin/dtypes.def>
#undef TOLK_DTYPE
  return table;
}
constexpr auto kTypes = make_type_table();
constexpr TypeInfo kNoType{nullptr, 0, '?'};

} // namespace

const OpInfo& op_info(uint16_t opcode) {
  return opcode < kOps.size() && kOps[opcode].name ? kOps[opcode] : kNoOp;
}

bool has_no_dtype(uint16_t opcode) {
  return opcode == TOLK_IR_END || opcode == TOLK_IR_IF || opcode == TOLK_IR_ENDIF ||
         opcode == TOLK_IR_BARRIER;
}

bool has_value(uint16_t opcode) {
  return op_info(opcode).name && !has_no_dtype(opcode) && opcode != TOLK_IR_STORE;
}

const TypeInfo& type_info(uint32_t dtype) { return dtype < kTypes.size() ? kTypes[dtype] : kNoType; }

bool is_canonical(const KernelIR& kernel) {
  uint64_t source = 0, attr = 0;
  for (const tolk_ir_op& op : kernel.ops) {
    int words = op_info(op.opcode).attrs;
    if (op.first_source != source || op.first_attr != attr || words < 0) return false;
    source += op.source_count;
    attr += static_cast<uint64_t>(words);
  }
  return source == kernel.sources.size() && attr == kernel.attrs.size();
}

} // namespace ir

uint32_t KernelIR::add(uint16_t opcode, DType dtype, uint16_t lanes, std::span<const uint32_t> op_sources,
                       std::span<const uint64_t> op_attrs, uint8_t flags) {
  const ir::OpInfo& info = ir::op_info(opcode);
  TOLK_CHECK(info.name, "unknown opcode");
  TOLK_CHECK(op_attrs.size() == static_cast<size_t>(info.attrs), "wrong number of attributes for the opcode");
  TOLK_CHECK(op_sources.size() <= UINT16_MAX, "an operation has at most 65535 sources");
  tolk_ir_op op{};
  op.opcode = opcode;
  if (ir::has_no_dtype(opcode)) {
    op.dtype = TOLK_DTYPE_NONE;
    op.lanes = 1;
  } else {
    TOLK_CHECK(static_cast<int>(dtype) < kDTypeCount, "an operation with a result needs a storable dtype");
    op.dtype = static_cast<uint8_t>(dtype);
    op.lanes = lanes;
  }
  op.flags = flags;
  op.source_count = static_cast<uint16_t>(op_sources.size());
  op.first_source = static_cast<uint32_t>(sources.size());
  op.first_attr = static_cast<uint32_t>(attrs.size());
  sources.insert(sources.end(), op_sources.begin(), op_sources.end());
  attrs.insert(attrs.end(), op_attrs.begin(), op_attrs.end());
  if (opcode == TOLK_IR_CONST) {
    int width = ir::type_info(op.dtype).bits;
    if (width < 64) attrs.back() &= (uint64_t{1} << width) - 1;
  }
  ops.push_back(op);
  return static_cast<uint32_t>(ops.size() - 1);
}

uint32_t KernelIR::add(uint16_t opcode, DType dtype, uint16_t lanes,
                       std::initializer_list<uint32_t> op_sources, std::initializer_list<uint64_t> op_attrs,
                       uint8_t flags) {
  return add(opcode, dtype, lanes, std::span<const uint32_t>(op_sources.begin(), op_sources.size()),
             std::span<const uint64_t>(op_attrs.begin(), op_attrs.size()), flags);
}

std::span<const uint32_t> KernelIR::sources_of(const tolk_ir_op& op) const {
  TOLK_CHECK(uint64_t{op.first_source} + op.source_count <= sources.size(),
             "sources outside the kernel's list");
  return {sources.data() + op.first_source, op.source_count};
}

uint64_t KernelIR::attr(const tolk_ir_op& op, int index) const {
  TOLK_CHECK(index >= 0 && index < ir_attr_count(op.opcode), "the opcode has no such attribute");
  TOLK_CHECK(uint64_t{op.first_attr} + static_cast<uint64_t>(index) < attrs.size(),
             "attribute outside the kernel's list");
  return attrs[op.first_attr + static_cast<uint32_t>(index)];
}

tolk_kernel_ir KernelIR::view() const {
  tolk_kernel_ir ir{};
  ir.struct_size = sizeof ir;
  ir.version = TOLK_KERNEL_IR_VERSION;
  ir.ops = ops.data();
  ir.sources = sources.data();
  ir.attrs = attrs.data();
  ir.params = params.data();
  ir.op_count = static_cast<uint32_t>(ops.size());
  ir.source_count = static_cast<uint32_t>(sources.size());
  ir.attr_count = static_cast<uint32_t>(attrs.size());
  ir.param_count = static_cast<uint32_t>(params.size());
  ir.name = name.c_str();
  return ir;
}

bool operator==(const KernelIR& a, const KernelIR& b) {
  auto same_op = [](const tolk_ir_op& x, const tolk_ir_op& y) {
    return x.opcode == y.opcode && x.dtype == y.dtype && x.flags == y.flags && x.lanes == y.lanes &&
           x.source_count == y.source_count && x.first_source == y.first_source &&
           x.first_attr == y.first_attr && x.reserved == y.reserved;
  };
  auto same_param = [](const tolk_param& x, const tolk_param& y) {
    return x.kind == y.kind && x.access == y.access && x.dtype == y.dtype && x.reserved == y.reserved &&
           x.count == y.count && x.min == y.min && x.max == y.max;
  };
  return a.name == b.name && a.sources == b.sources && a.attrs == b.attrs &&
         std::equal(a.ops.begin(), a.ops.end(), b.ops.begin(), b.ops.end(), same_op) &&
         std::equal(a.params.begin(), a.params.end(), b.params.begin(), b.params.end(), same_param);
}

const char* ir_op_name(uint16_t opcode) {
  const char* text = ir::op_info(opcode).name;
  return text ? text : "UNKNOWN";
}

int ir_attr_count(uint16_t opcode) { return ir::op_info(opcode).attrs; }

} // namespace tolk
