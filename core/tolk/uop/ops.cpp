#include "tolk/uop/ops.h"

namespace tolk {

const OpInfo& op_info(Op op) {
  static constexpr OpInfo table[] = {
#define TOLK_OP(NAME, lo, hi, groups, meaning) {#NAME, lo, hi, groups, meaning},
#define TOLK_ALU(NAME, sources, groups, cost, meaning) {#NAME, sources, sources, groups, meaning, cost},
#include "tolk/uop/ops.def"
#undef TOLK_OP
  };
  return table[int(op)];
}

std::optional<Op> parse_op(std::string_view text) {
  for (int i = 0; i < kOpCount; ++i)
    if (text == op_info(Op(i)).name) return Op(i);
  return std::nullopt;
}

const char* name(AxisType type) {
  static constexpr const char* names[] = {"LOOP",   "REDUCE", "UPCAST", "UNROLL",       "VECTOR",
                                          "THREAD", "GLOBAL", "LOCAL",  "GROUP_REDUCE", "DEVICE"};
  return names[int(type)];
}

} // namespace tolk
