// From flat values to the list of operations.
//
// Every value goes into the innermost open loop that it depends on, so what does not change in a loop is
// computed before it. A reduction is a compound statement (accumulators, loops, body) in the innermost loop
// outside of it; reductions over the same loops that do not need each other share them. The order is that of
// a depth-first walk: deterministic.
#pragma once

#include "tolk/codegen/codegen.h"
#include "tolk/codegen/target.h"
#include "tolk/uop/uop.h"

namespace tolk::codegen {

// Fills ir (but its name) and info (parameters, grid, counts) from a sink of flat values in which every
// operation exists on the target. Index becomes i32 when the bounds of every index fit it, else i64. Throws
// InternalError for nodes that kernel IR cannot express.
Kernel linearize(const UOp& sink, int64_t tiles, const Target& target);

} // namespace tolk::codegen
