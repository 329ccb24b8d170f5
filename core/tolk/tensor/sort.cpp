// Counting sort by rank: the rank of an element is the number of elements before it, so all ranks are found
// in parallel. Quadratic in the axis, which is acceptable up to some ten thousand elements.
#include "tolk/tensor/tensor_internal.h"

namespace tolk {
namespace {

// Positions (..., k) of the first k elements in order, along the last axis.
Tensor ordered_positions(const Tensor& x, const SInt& k, bool descending) {
  Tensor mine = x.unsqueeze(-1), other = x.unsqueeze(-2); // (..., n, 1) and (..., 1, n)
  SInt n = x.size(-1);
  Tensor before = descending ? mine < other : other < mine, same = equal(mine, other);
  if (is_float(x.dtype())) {
    // NaN counts as the largest value.
    Tensor mine_nan = mine.isnan(), other_nan = other.isnan();
    before = before | (descending ? other_nan & mine_nan.logical_not() : mine_nan & other_nan.logical_not());
    same = same | (mine_nan & other_nan);
  }
  Tensor i = Tensor::arange(n).unsqueeze(-1), j = Tensor::arange(n).unsqueeze(0);
  Tensor rank = (before | (same & (j < i))).cast(DType::I64).sum_as(DType::I64, {-1}, false); // (..., n)
  Tensor place = Tensor::arange(k).unsqueeze(-1);                                             // (k, 1)
  return equal(rank.unsqueeze(-2), place)
      .where(Tensor::arange(n), Tensor::constant(DType::I64, -1))
      .max({-1});
}

} // namespace

std::pair<Tensor, Tensor> Tensor::topk(int64_t k, int64_t axis, bool largest) const {
  axis = detail::normal_axis(axis, rank(), "topk");
  if (k < 0 || (size(axis) - SInt(k)).min() < 0)
    throw InvalidArgument("topk: k is " + std::to_string(k) + ", the axis has " + to_string(size(axis)));
  Tensor x = (is_bool(dtype()) ? cast(DType::U8) : *this).transpose(axis, -1);
  Tensor position = ordered_positions(x, k, largest);
  return {x.gather_elements(position, -1).transpose(axis, -1).cast(dtype()), position.transpose(axis, -1)};
}

std::pair<Tensor, Tensor> Tensor::sort(int64_t axis, bool descending) const {
  axis = detail::normal_axis(axis, rank(), "sort");
  return topk(size(axis).value("sort"), axis, descending);
}

} // namespace tolk
