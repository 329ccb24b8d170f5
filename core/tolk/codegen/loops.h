// Tidying of loops before optimisation: loops that walk memory as one are merged, reductions over loops that
// their value does not use are computed.
#pragma once

#include "tolk/uop/uop.h"

namespace tolk::codegen {

// REDUCE over a range that the value does not depend on: MAX drops it, ADD multiplies by the extent, MUL
// stays a loop. A range that may be empty stays, too. The product of a float sum rounds twice, which is
// nearer to the exact sum than any order of additions.
UOp drop_unused_loops(const UOp& ast);

// Neighbouring loops of a nest, and any two of a reduction, become one when every index expression uses them
// as a*n + b or not at all.
UOp merge_loops(const UOp& ast);

} // namespace tolk::codegen
