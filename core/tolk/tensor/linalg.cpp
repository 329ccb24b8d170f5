// Matrix products of Tensor.
#include "tolk/tensor/tensor_internal.h"

namespace tolk {

Tensor Tensor::matmul(const Tensor& other) const {
  DType dtype = promote(this->dtype(), other.dtype());
  DType wide = is_float(dtype) ? sum_dtype(dtype) : dtype;
  return matmul_as(other, wide).cast(dtype);
}

// The operands meet as (..., M, 1, K) and (..., 1, N, K); the last axis is summed. Nothing of that size is
// ever stored.
Tensor Tensor::matmul_as(const Tensor& other, DType accumulator) const {
  if (rank() == 0 || other.rank() == 0)
    throw InvalidArgument("matmul needs at least one axis on both sides, got " + to_string(shape()) +
                          " and " + to_string(other.shape()));
  bool row = rank() == 1, column = other.rank() == 1;
  Tensor a = row ? unsqueeze(0) : *this, b = column ? other.unsqueeze(1) : other;
  if (!(a.size(-1) == b.size(-2)))
    throw InvalidArgument("matmul: " + to_string(shape()) + " and " + to_string(other.shape()) +
                          " do not fit; the last axis of the first (" + to_string(a.size(-1)) +
                          ") must equal the second-last of the second (" + to_string(b.size(-2)) + ")");
  a = a.cast(accumulator).unsqueeze(-2);
  b = b.cast(accumulator).transpose(-1, -2).unsqueeze(-3);
  Tensor out = (a * b).sum_as(accumulator, {-1}, false);
  if (column) out = out.squeeze(-1);
  if (row) out = out.squeeze(column ? -1 : -2);
  return out;
}

} // namespace tolk
