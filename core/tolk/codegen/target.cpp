#include "tolk/codegen/target.h"

#include <array>
#include <string_view>

#include <tolk/plugin/kernel_ir.h>
#include <tolk/plugin/target.h>

#include "tolk/base/hash.h"

namespace tolk::codegen {
namespace {

constexpr uint16_t opcode_named(std::string_view name) {
#define TOLK_IR(NAME, code, lo, hi, meaning)                                                                 \
  if (name == #NAME) return code;
#include <tolk/plugin/kernel_ir_ops.def>
#undef TOLK_IR
  return 0;
}

constexpr std::array<uint16_t, kOpCount> kOpcodes{
#define TOLK_OP(NAME, lo, hi, groups, meaning) opcode_named(#NAME),
#include "tolk/uop/ops.def"
#undef TOLK_OP
};

void add(Hasher& h, const std::string& text) { h.text(text); }
void add(Hasher& h, std::integral auto number) { h.number(number); }
void add(Hasher& h, const LaunchSizes& sizes) {
  for (int64_t size : sizes) h.number(size);
}

} // namespace

uint16_t ir_opcode(Op op) { return op == Op::STACK ? uint16_t(TOLK_IR_BUILD) : kOpcodes[size_t(op)]; }

bool Target::has(Op op) const {
  uint64_t missing = TOLK_FEATURE_ALL & ~features; // the bits are opcodes
  return !(missing >> ir_opcode(op) & 1);
}

uint64_t Target::digest() const {
  Hasher h;
#define TOLK_TARGET(type, name, ...) add(h, name);
#include "tolk/codegen/target.def"
#undef TOLK_TARGET
  return h.finish().low;
}

} // namespace tolk::codegen
