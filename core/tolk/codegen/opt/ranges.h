// Finding and replacing the ranges of a kernel AST. Internal to opt/.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "tolk/uop/build.h"

namespace tolk::codegen {

// The RANGE of an axis id; null when there is none.
UOp find_range(const UOp& ast, int64_t axis);
// Every RANGE, outer loops before inner ones.
std::vector<UOp> all_ranges(const UOp& ast);

// The AST with `range` replaced by an expression, and in the lists of END and REDUCE by `instead`.
UOp replace_range(const UOp& root, const UOp& range, const UOp& expression, std::span<const UOp> instead);

// Minimum of two indices, with bounds as tight as the operands'.
UOp smaller(const UOp& a, const UOp& b);
UOp larger(const UOp& a, const UOp& b);

// The AST with ranges a (slow) and b (fast, extent n) as one range r = a*n + b. Index expressions in which
// the pair occurs as a*n + b get r itself, others quotient and remainder. Nothing when `exact` is asked for
// and some expression would need those.
UOp merge_ranges(const UOp& ast, const UOp& a, const UOp& b, const UOp& merged, bool exact);

// Whether a buffer is read and written by the kernel.
bool reads_what_it_writes(const UOp& ast);

} // namespace tolk::codegen
