// The copies that break write-after-read cycles of a tensor program.
#pragma once

#include <vector>

#include "tolk/schedule/fuse/fusion.h"
#include "tolk/schedule/fuse/fusion_graph.h"
#include "tolk/schedule/fuse/kernels.h"
#include "tolk/schedule/order/item_graph.h"
#include "tolk/schedule/order/kernel_graph.h"

namespace tolk::schedule {

// To be respected when items are built again; one of the two is empty. Each copy costs a kernel. Chosen are
// those that move the fewest bytes for the edges they remove, and none that the others make unnecessary.
struct Copies {
  std::vector<int> through;   // nodes of STOREs whose value goes to a temporary first
  std::vector<UOp> snapshots; // views of storage, nodes of the graph, to read from a copy
};

// `kernels` is the KernelGraph of `made.sink`, and has a cycle.
Copies choose_copies(const Graph& graph, const Fusion& fusion, const std::vector<Item>& items,
                     const ItemGraph& made, const KernelGraph& kernels);

} // namespace tolk::schedule
