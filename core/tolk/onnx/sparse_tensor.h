// SparseTensorProto, read as a dense tensor.
#pragma once

#include <cstdint>
#include <string_view>

#include "tolk/io/host_tensor.h"
#include "tolk/io/place.h"
#include "tolk/io/tensor_proto.h"

namespace tolk::onnx {

// A few bytes can claim a huge dense shape: all sparse tensors of one file together may fill this much
// memory.
inline constexpr uint64_t kSparseBudget = uint64_t{256} << 20;

// Indices are flat positions [nnz] or coordinates [nnz, rank]. `budget` is the memory that is left, and
// shrinks. Throws FormatError (damaged, position out of range), ImportError (budget exceeded, strings).
io::NamedTensor parse_sparse_tensor(std::string_view message, const io::Place& place,
                                    const io::TensorSource& source, uint64_t& budget);

} // namespace tolk::onnx
