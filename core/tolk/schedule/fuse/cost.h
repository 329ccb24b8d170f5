// The cost model: when a cheap value is computed again at every use, and when it is stored once.
#pragma once

#include <span>
#include <vector>

#include "tolk/schedule/fuse/node.h"
#include "tolk/uop/uop.h"

namespace tolk::schedule {

// Whether a REDUCE_AXIS is a large matrix product or convolution: code generation tiles its loops, which it
// can do for one such reduction per kernel, and not inside another reduction.
bool is_contraction(const UOp& reduce);

// Cost of one element in units of a simple vector operation: the tree of operations down to storage, stored
// values and reductions over storage, which count as one read. Sharing inside the tree is not seen.
double element_cost(const Node& node, std::span<const int> sources, const std::vector<Node>& nodes);

// Whether storing a value is cheaper than what its uses compute too often. `evaluations`: elements computed
// by all uses, loops that a use does not depend on left out where they are innermost; `uses`: how many uses.
//
// Storing costs a pass over memory and a launch; both must be small against the work saved. A value that is
// computed less than eight times as often as needed is never stored: a second exp costs no more than writing
// and reading back.
bool worth_storing(const Node& node, double evaluations, int uses);

} // namespace tolk::schedule
