// Step 6: the order of calls. Kept are: what a call reads is written before; what a store overwrites is read
// before.
#pragma once

#include <vector>

#include "tolk/schedule/graph.h"
#include "tolk/schedule/kernels.h"

namespace tolk::schedule {

// The items' numbers in an order to run. Among those that may come next, the one whose node comes first:
// depth first from the roots, which keeps few temporaries alive. Throws InvalidArgument that lists the stores
// when in-place writes need each other's old contents.
std::vector<int> order_items(const Graph& graph, const std::vector<Item>& items);

} // namespace tolk::schedule
