// Which values are stored, and where every use reads its value.
//
// Visits users before sources. Every node carries its distinct uses: the kernel that needs the value, the index
// tuple, the gate, and the loops that are open there. A node that is stored gets a kernel with
// fresh loops over its axes: its uses read memory, and its sources are used by the new kernel only.
//
// A reduction over storage is computed at most once per element: it is stored when it has several uses, or
// when its one use runs more often than it has elements (a loop is open that its index does not contain).
// Then the cut moves to the last elementwise value that all its uses pass through, so that epilogues stay in
// the reduction's kernel. Everything else is computed again at each use, unless storing is cheaper (cost.h) or
// the expressions would grow without bound.
#pragma once

#include <vector>

#include "tolk/schedule/fuse/fusion_graph.h"
#include "tolk/schedule/fuse/index.h"

namespace tolk::schedule {

struct Use {
  int kernel = 0;
  TupleId tuple = 0;
  UOp gate;           // the value matters only where this is true; null: always
  uint64_t loops = 0; // axis numbers of the open loops
  // For views of storage: the outermost AFTER on the way; kNoState: the initial contents.
  int state = Graph::kNoState;
  // What propagation to the sources found:
  int links = -1;                     // uses of the sources, Fusion::links[links + i] for source i
  UOp guard;                          // PAD, GATHER: the value is zero where this is false; null: never zero
  bool never = false;                 // the value is zero everywhere here, the sources are not used
  int first_loop = 0, loop_count = 0; // reductions: the kernel's loops that they run over
};

struct FusedNode {
  bool stored = false;
  int kernel = -1;       // that computes it, when stored or a Store
  int own = -1;          // in Fusion::own: how that kernel reads the sources
  std::vector<Use> uses; // by others
};

struct FusedKernel {
  int node = 0;           // stored value, Store or Copy
  std::vector<UOp> loops; // RANGEs by axis number: those of the result first, then reductions'
  int result_loops = 0;
  int size = 0;           // uses evaluated in it
  bool contracts = false; // a contraction is among them
};

// A data-dependent index: leaves that represent it in tuples and gates until the indices' expression is known.
struct IndexPlaceholder {
  UOp index, inside; // leaves: the wrapped index, and whether it is inside the axis
  int node = 0;      // the indices
  int use = 0;       // which of their uses
  UOp size;          // of the axis
};

struct Fusion {
  std::vector<FusedNode> nodes; // by node of the graph
  std::vector<FusedKernel> kernels;
  std::vector<Use> own;
  std::vector<int> links;
  std::vector<IndexPlaceholder> placeholders;
  int64_t evaluations = 0; // uses that were propagated; for scaling tests
};

// `index` belongs to the thread's arena. `also_stored`: nodes to store whatever the rules say.
Fusion fuse(const Graph& graph, IndexSpace& index, const std::vector<int>& also_stored);

} // namespace tolk::schedule
