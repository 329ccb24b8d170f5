// Tensor-level rewrites before fusion.
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

#include "tolk/schedule/options.h"

namespace tolk::schedule {

using UOpSet = std::unordered_set<UOp, UOpHash>;

struct Canonical {
  std::vector<UOp> roots; // the roots of the body, rewritten
  UOpSet stored;          // values that must be materialised
};

// `body` is a SINK of tensor-level nodes; the result is in the same arena. Throws InvalidArgument for a STORE
// whose target is no view of storage.
Canonical canonicalize(const UOp& body, const Options& options);

} // namespace tolk::schedule
