// Small constant tensors computed on the host while a graph is being built: shapes, axes, repeats. Not an
// execution path: it knows what importers need to know before anything runs, and declines everything else.
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

// The elements, row-major, when the tensor depends on constants and stored data alone, none of it in
// `changing` (storage that a later run fills anew), no node on the way has more than `limit` elements, and
// every value is exact (see evaluate_op). Nothing otherwise.
TOLK_API std::optional<std::vector<Scalar>>
evaluate_on_host(const Tensor& tensor, const StorageSet& changing = {}, int64_t limit = 4096);

} // namespace tolk
