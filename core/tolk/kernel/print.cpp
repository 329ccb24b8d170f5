// Kernel IR as text.
#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "tolk/dtype/scalar.h"
#include "tolk/kernel/ir_info.h"
#include "tolk/kernel/kernel_ir.h"

namespace tolk {

namespace ir {

namespace {

std::string type_text(uint32_t dtype, uint32_t lanes) {
  const char* name = type_info(dtype).name;
  std::string text = name ? name : fmt::format("dtype{}", dtype);
  if (lanes != 1) text += fmt::format("x{}", lanes);
  return text;
}

// Floats are printed as bits, which preserves NaN payloads and saves the parser decimal conversion.
std::string constant_text(uint32_t dtype, uint64_t bits) {
  const TypeInfo& type = type_info(dtype);
  bool canonical = type.bits == 64 || bits >> type.bits == 0;
  if (type.kind == 'f' && canonical)
    return fmt::format("0x{:0{}x} # {}", bits, (type.bits + 3) / 4,
                       float_from_bits(static_cast<DType>(dtype), bits));
  if (type.kind == 'i' && canonical) {
    int unused = 64 - type.bits;
    return fmt::format("{}", static_cast<int64_t>(bits << unused) >> unused);
  }
  return fmt::format("{}", bits);
}

} // namespace

std::string op_text(const KernelIR& kernel, uint32_t index) {
  const tolk_ir_op& op = kernel.ops[index];
  const OpInfo& info = op_info(op.opcode);
  std::string text =
      fmt::format("%{} = {}", index, info.name ? info.name : fmt::format("opcode{}", op.opcode));
  if (op.flags & TOLK_IR_NO_WRAP) text += ".nw";
  if (op.flags & ~TOLK_IR_NO_WRAP) text += fmt::format(".flags{}", op.flags);
  if (!has_no_dtype(op.opcode) || op.dtype != TOLK_DTYPE_NONE || op.lanes != 1)
    text += " " + type_text(op.dtype, op.lanes);
  for (uint64_t i = 0; i < op.source_count; i++) {
    if (op.first_source + i >= kernel.sources.size()) {
      text += " (sources missing)";
      break;
    }
    text += fmt::format(" %{}", kernel.sources[op.first_source + i]);
  }
  if (info.attrs <= 0) return text;
  if (uint64_t{op.first_attr} + static_cast<uint64_t>(info.attrs) > kernel.attrs.size())
    return text + " (attributes missing)";
  const uint64_t* attr = kernel.attrs.data() + op.first_attr;
  if (op.opcode == TOLK_IR_CONST) return text + " " + constant_text(op.dtype, attr[0]);
  if (info.attrs == 2) return text + fmt::format(" [{}, {}]", attr[0], attr[1]);
  return text + fmt::format(" [{}]", attr[0]);
}

} // namespace ir

namespace {

std::string param_text(const tolk_param& param) {
  const char* type = ir::type_info(param.dtype).name;
  std::string dtype = type ? type : fmt::format("dtype{}", param.dtype);
  if (param.kind == TOLK_PARAM_VALUE) return fmt::format("param value {} {} {}", dtype, param.min, param.max);
  const char* access = param.access == TOLK_ACCESS_READ                         ? "r"
                       : param.access == TOLK_ACCESS_WRITE                      ? "w"
                       : param.access == (TOLK_ACCESS_READ | TOLK_ACCESS_WRITE) ? "rw"
                                                                                : "?";
  return fmt::format("param {} {} {} {}", param.kind == TOLK_PARAM_BUFFER ? "buffer" : "kind?", dtype, access,
                     param.count);
}

} // namespace

std::string print(const KernelIR& kernel) {
  std::string text = fmt::format("kernel {}\n", kernel.name);
  for (const tolk_param& param : kernel.params) text += param_text(param) + "\n";
  size_t depth = 0;
  for (uint32_t i = 0; i < kernel.ops.size(); i++) {
    uint16_t opcode = kernel.ops[i].opcode;
    if ((opcode == TOLK_IR_END || opcode == TOLK_IR_ENDIF) && depth > 0) depth--;
    text.append(2 * std::min<size_t>(depth, 40), ' ');
    text += ir::op_text(kernel, i) + "\n";
    if (opcode == TOLK_IR_RANGE || opcode == TOLK_IR_IF) depth++;
  }
  return text;
}

} // namespace tolk
