// The values of all uses, from storage upward: one expression for every use of every node.
#pragma once

#include <vector>

#include "tolk/schedule/fuse/fusion.h"
#include "tolk/schedule/fuse/fusion_graph.h"
#include "tolk/schedule/fuse/rebuild.h"

namespace tolk::schedule {

class Values {
public:
  // `storage`: of every stored node. LOADs name storage nodes; numbering PARAMs comes later.
  Values(const Graph& graph, const Fusion& fusion, IndexSpace& index, const std::vector<UOp>& storage);

  // The expression that the kernel of a stored node, or of a Store, puts into memory.
  const UOp& own(int n) const { return own_[size_t(fusion_.nodes[size_t(n)].own)]; }

  // Nodes of the kernels that are true in the list such that, with those stored, their expressions read at
  // most `limit` storage nodes and those of the nodes do too. Elementwise operations are cut, at the first
  // whose sources together read more.
  struct Cut {
    int kernel, node;
  };
  std::vector<Cut> cuts_for_buffers(const std::vector<bool>& kernels, size_t limit) const;

private:
  UOp read(int n, const Use& use) const;
  UOp evaluated(int n, const Use& use);
  UOp reduced(int n, const Use& use, UOp value);
  void bind_placeholders();

  const Graph& graph_;
  const Fusion& fusion_;
  IndexSpace& index_;
  const std::vector<UOp>& storage_;
  std::vector<std::vector<UOp>> values_; // by node and use
  std::vector<UOp> own_;                 // by Fusion::own
};

} // namespace tolk::schedule
