// Decomposition: rewrites operations and dtypes that the target lacks into ones it has. All rules are applied in one
// rewrite, since the result of one rule may need another.
#pragma once

#include <vector>

#include "tolk/codegen/target.h"
#include "tolk/uop/rewrite.h"

namespace tolk::codegen {

// The graph in operations that kernel IR and the target have.
UOp decompose(const UOp& sink, const Target& target);

// The parts. The rules' context is the Target.
std::vector<Rule> integer_rules();       // floor division, bool arithmetic
std::vector<Rule> narrow_rules();        // dtypes without arithmetic
std::vector<Rule> exponential_rules();   // EXP, EXP2, LOG, LOG2
std::vector<Rule> trigonometric_rules(); // SIN, COS
std::vector<Rule> rounding_rules();      // TRUNC, SQRT, RECIPROCAL, MULACC
std::vector<Rule> random_rules();        // THREEFRY

} // namespace tolk::codegen
