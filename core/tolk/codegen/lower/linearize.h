// Linearization: from expanded values to the list of operations of the kernel IR.
//
// Every value goes into the innermost open loop that it depends on, so what does not change in a loop is
// computed before it. A reduction is a compound statement (accumulators, loops, body) in the innermost loop
// around it; independent reductions over the same loops share them. The order is depth-first, hence deterministic.
#pragma once

#include "tolk/codegen/codegen.h"
#include "tolk/codegen/target.h"
#include "tolk/uop/uop.h"

namespace tolk::codegen {

// Fills ir (except its name) and info (parameters, grid, counts) from a sink of expanded values in which every
// operation exists on the target. Index becomes i32 when the bounds of every index fit it, else i64. Throws
// InternalError for nodes that kernel IR cannot express.
Kernel linearize(const UOp& sink, int64_t tiles, int64_t items, const Target& target);

} // namespace tolk::codegen
