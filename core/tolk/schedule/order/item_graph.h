// The kernel graph of a tensor program: its items as CALLs over states of storage.
#pragma once

#include <vector>

#include "tolk/schedule/fuse/fusion_graph.h"
#include "tolk/schedule/fuse/kernels.h"
#include "tolk/uop/uop.h"

namespace tolk::schedule {

struct ItemGraph {
  UOp sink;               // for KernelGraph: source i is the state that item i makes
  std::vector<UOp> calls; // by item
  std::vector<UOp>
      states; // by node of the tensor graph: the state that an AFTER names; null where no item reads it
};

// In the arena of the graph. Every item supersedes one state of one storage.
ItemGraph get_kernel_graph(const Graph& graph, const std::vector<Item>& items);

} // namespace tolk::schedule
