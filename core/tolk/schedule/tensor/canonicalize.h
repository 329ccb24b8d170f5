// Step 2: tensor-level rewrites before fusion looks at the graph.
//
//   DETACH x, FUNCTION(x, ...)      x
//   a value without elements        zeros
//   a reduction of no elements      its identity
//   REDUCE_AXIS of many to few      two reductions with a stored value between (Options::split_reduce)
//   CONTIGUOUS of dense storage     the storage, unless a write of the graph comes between
//   CONTIGUOUS of a computed x      x, marked to be stored
//   COPY to the same device         the value
//   COPY of a view of x             the view of the copy of what is stored
//   MSELECT of a view of x          the view of the MSELECT of what is stored
//   MSTACK                          its sources stored, or dense views of storage
//   AFTER(x, STORE(x, v)), x computed   v
//   STORE to a BITCAST              STORE of the BITCAST back
#pragma once

#include <unordered_set>
#include <vector>

#include "tolk/schedule/schedule.h"

namespace tolk::schedule {

using UOpSet = std::unordered_set<UOp, UOpHash>;

struct Early {
  std::vector<UOp> roots; // the roots of the body, rewritten
  UOpSet stored;          // values that must be materialised
};

// `body` is what callify made; the result is in the same arena. Throws InvalidArgument for a STORE whose
// target is no view of storage.
Early early_rewrites(const UOp& body, const Options& options);

// REDUCE_AXIS split in two when it qualifies, else itself; `stored` receives the value between. Exposed for
// tests.
UOp split_reduction(const UOp& reduce, const Options& options, UOpSet& stored);

} // namespace tolk::schedule
