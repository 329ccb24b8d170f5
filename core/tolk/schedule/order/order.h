// Step 6: the order of calls. Kept are: what a call reads is written before; what a store overwrites is read
// before.
#pragma once

#include <vector>

#include "tolk/schedule/fuse/fusion.h"
#include "tolk/schedule/fuse/fusion_graph.h"
#include "tolk/schedule/fuse/kernels.h"

namespace tolk::schedule {

struct Order {
  // The items' numbers in an order to run. Among those that may come next, the one whose node comes first:
  // depth first from the roots, which keeps few temporaries alive.
  std::vector<int> items;
  // When stores need each other's old contents there is no such order, and one of these is not empty, to be
  // respected by the next attempt: nodes of STOREs whose value is to be in a temporary first, or views of
  // storage, nodes of the graph, whose old contents are to be read from a copy. Each costs a kernel. Chosen
  // are those that move the fewest bytes for the waits they end, and none that the others make unnecessary.
  std::vector<int> through;
  std::vector<UOp> copied;
};

Order order_items(const Graph& graph, const Fusion& fusion, const std::vector<Item>& items);

} // namespace tolk::schedule
