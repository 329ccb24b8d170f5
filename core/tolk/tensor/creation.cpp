// Properties of a tensor, and tensors of computed values: arange, eye.
#include "tolk/dtype/scalar.h"
#include "tolk/tensor/pending.h"
#include "tolk/tensor/tensor_internal.h"
#include "tolk/uop/state.h"

namespace tolk {

const UOp& Tensor::node() const {
  if (!node_)
    throw InvalidArgument("an undefined tensor has no value: it was default-constructed or moved from");
  if (anything_written() && !detail::is_up_to_date(node_)) node_ = detail::up_to_date(node_);
  return node_;
}
const Shape& Tensor::shape() const { return shape_of(node()); }
SInt Tensor::size(int64_t axis) const { return shape()[size_t(detail::normal_axis(axis, rank(), "size"))]; }
SInt Tensor::numel() const { return tolk::numel(shape()); }
std::string Tensor::device() const { return device_of(node()); }

Tensor Tensor::arange(const SInt& size, DType dtype) {
  detail::check_sizes({size}, "arange");
  if (is_float(dtype)) return Tensor(iota(DType::I64, size)).cast(dtype);
  if (!is_int(dtype))
    throw InvalidArgument(std::string("arange needs an integer or float dtype, got ") + name(dtype));
  if (size.max() - 1 > int_max(dtype))
    throw InvalidArgument(std::string("arange: ") + name(dtype) + " cannot hold " +
                          std::to_string(size.max() - 1) + ", the last of " + to_string(size) +
                          " values; use a wider dtype");
  return Tensor(iota(dtype, size));
}

Tensor Tensor::eye(const SInt& rows, const SInt& columns, int64_t diagonal, DType dtype) {
  Tensor i = arange(rows).reshape({rows, 1}), j = arange(columns).reshape({1, columns});
  return equal(i + diagonal, j).cast(dtype);
}

} // namespace tolk
