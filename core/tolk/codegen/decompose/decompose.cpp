#include "tolk/codegen/decompose/decompose.h"

namespace tolk::codegen {

UOp decompose(const UOp& sink, const Target& target) {
  static const RuleSet rules{narrow_rules(),        integer_rules(),  exponential_rules(),
                             trigonometric_rules(), rounding_rules(), random_rules()};
  return rewrite(sink, rules, const_cast<Target*>(&target));
}

} // namespace tolk::codegen
