// The expression of every stored value, as kernel calls over the body's PARAMs and numbered temporaries.
//
// A kernel is SINK over END(STORE(PARAM 0, index, value), RANGE...), END absent without loops. PARAM k is
// argument k of the CALL: the result first, then storage in the order of its first use in the value. Axis
// numbers count the result's loops first, then those of reductions, outer before inner. So equal computations
// are equal nodes.
#pragma once

#include <vector>

#include "tolk/schedule/fuse/fusion.h"
#include "tolk/schedule/fuse/fusion_graph.h"

namespace tolk::schedule {

// Contents of the body's storage at some time: initial, or after the stores of an AFTER.
struct State {
  UOp base;                    // PARAM or BUFFER
  int after = Graph::kNoState; // node
  bool operator==(const State&) const = default;
};

struct Item {
  std::vector<UOp> src;     // of its CALL, in the arena: the body, then arguments
  int node = 0;             // what it computes, stores or copies
  std::vector<int> needs;   // items whose temporaries it reads
  std::vector<State> reads; // of the body's storage
  int store = -1;           // node of the STORE that it carries out
  State superseded;         // what that overwrites
};

struct Items {
  std::vector<Item> items;   // in order of their nodes
  std::vector<UOp> outputs;  // PARAMs, numbered after the body's
  std::vector<int> too_many; // nodes to store so that kernels respect Options::max_kernel_buffers
};

// `arguments`: number of the body's PARAMs. `through`: nodes of STOREs whose value is put in a temporary
// first. When `too_many` comes back non-empty, fuse again with those nodes stored. Throws InternalError when
// a kernel needs more buffers than Options::max_kernel_buffers and nothing in it can be stored.
Items build_items(const Graph& graph, const Fusion& fusion, IndexSpace& index, int64_t arguments,
                  const Options& options, std::span<const int> through = {});

} // namespace tolk::schedule
