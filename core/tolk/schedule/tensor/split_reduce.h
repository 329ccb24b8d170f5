// Large reductions with few results in two kernels: the first leaves some hundred partial results, so that
// all threads or groups have work.
#pragma once

#include <optional>

#include "tolk/schedule/options.h"
#include "tolk/uop/uop.h"

namespace tolk::schedule {

struct SplitReduction {
  UOp partial; // a REDUCE_AXIS, to be stored
  UOp result;  // of the original's shape
};

// REDUCE_AXIS as two reductions, when Options::split_reduce and reduce_split_threshold ask for it.
std::optional<SplitReduction> split_reduction(const UOp& reduce, const Options& options);

} // namespace tolk::schedule
