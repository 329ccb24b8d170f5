#include "facts.h"

#include <array>

namespace tolk_interp {
namespace {

constexpr uint32_t attr_words(uint32_t code) {
  if (code == TOLK_IR_SPECIAL) return 2;
  bool one = code == TOLK_IR_PARAM || code == TOLK_IR_CONST || code == TOLK_IR_EXTRACT ||
             code == TOLK_IR_DEFINE_LOCAL || code == TOLK_IR_DEFINE_REG;
  return one ? 1 : 0;
}

constexpr std::array<OpFacts, TOLK_IR_OPCODE_LIMIT> kOps = [] {
  std::array<OpFacts, TOLK_IR_OPCODE_LIMIT> table{};
#define TOLK_IR(NAME, code, lo, hi, meaning) table[code] = {#NAME, lo, hi, attr_words(code)};
#include <tolk/plugin/kernel_ir_ops.def>
#undef TOLK_IR
  return table;
}();

constexpr TypeFacts kTypes[] = {
#define TOLK_DTYPE(NAME, text, code, bits, kind) {#text, bits, kind},
#include <tolk/plugin/dtypes.def>
#undef TOLK_DTYPE
};

} // namespace

const OpFacts& op_facts(uint16_t opcode) { return kOps[opcode < kOps.size() ? opcode : 0]; }

bool is_type(uint32_t dtype) { return dtype < std::size(kTypes); }

const TypeFacts& type_facts(uint32_t dtype) { return kTypes[dtype]; }

std::string op_label(uint16_t opcode, uint32_t number) {
  const char* name = op_facts(opcode).name;
  return (name ? std::string(name) : "opcode " + std::to_string(opcode)) + " %" + std::to_string(number);
}

} // namespace tolk_interp
