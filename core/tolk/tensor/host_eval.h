// Host evaluation of small constant tensors (shapes, axes, repeats) while a graph is built. Not an execution
// path: it serves importers that need values before anything runs, and declines everything else.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_set>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/tensor/tensor.h"
#include "tolk/uop/eval.h"

namespace tolk {

using StorageSet = std::unordered_set<UOp, UOpHash>;

// The elements in row-major order, if the tensor depends only on constants and stored data outside of
// `changing` (storage that later runs refill), no node has more than `limit` elements, and evaluate_op knows
// every value exactly. Otherwise nothing.
TOLK_API std::optional<std::vector<Scalar>>
evaluate_on_host(const Tensor& tensor, const StorageSet& changing = {}, int64_t limit = 4096);

} // namespace tolk
