// Reductions of Tensor, running sums and what is made of them.
#include "tolk/tensor/tensor_internal.h"

namespace tolk {

using detail::axis_mask;

namespace {

Tensor reduced(Op op, const Tensor& x, const Axes& axes, bool keep, const char* what) {
  uint64_t mask = axis_mask(axes, x.rank(), what);
  Tensor r(reduce_axis(op, x.node(), mask));
  if (r.node() == x.node()) r = detail::value_of(x);
  return keep ? r : detail::drop_axes(r, mask);
}

// The number of elements that one result combines, as a float of `dtype`.
Tensor count_of(const Tensor& x, const Axes& axes, DType dtype, int64_t less = 0) {
  uint64_t mask = axis_mask(axes, x.rank(), "mean");
  SInt n = 1;
  for (size_t i = 0; i < x.shape().size(); ++i)
    if (mask >> i & 1) n = n * x.shape()[i];
  n = n - SInt(less);
  if (n.is_const()) return Tensor::constant(dtype, double(n.value()));
  return Tensor(cast(n.uop(), dtype));
}

} // namespace

Tensor Tensor::sum_as(DType accumulator, const Axes& axes, bool keep) const {
  return reduced(Op::ADD, cast(accumulator), axes, keep, "sum");
}

Tensor Tensor::sum(const Axes& axes, bool keep) const {
  Tensor wide = sum_as(sum_dtype(dtype()), axes, keep);
  return is_float(dtype()) ? wide.cast(dtype()) : wide;
}

Tensor Tensor::prod(const Axes& axes, bool keep) const {
  DType wide = sum_dtype(dtype());
  Tensor r = reduced(Op::MUL, cast(wide), axes, keep, "prod");
  return is_float(dtype()) ? r.cast(dtype()) : r;
}

Tensor Tensor::max(const Axes& axes, bool keep) const {
  if (is_bool(dtype())) return any(axes, keep);
  return reduced(Op::MAX, *this, axes, keep, "max");
}

Tensor Tensor::min(const Axes& axes, bool keep) const {
  if (is_bool(dtype())) return all(axes, keep);
  if (is_float(dtype())) return reduced(Op::MAX, neg(), axes, keep, "min").neg();
  return reduced(Op::MAX, logical_not(), axes, keep, "min").logical_not();
}

Tensor Tensor::mean(const Axes& axes, bool keep) const {
  return computed_wide([&](const Tensor& x) { return x.sum(axes, keep) / count_of(x, axes, x.dtype()); });
}

Tensor Tensor::var(const Axes& axes, int64_t correction, bool keep) const {
  return computed_wide([&](const Tensor& x) {
    Tensor centred = x - x.mean(axes, true);
    return centred.square().sum(axes, keep) / count_of(x, axes, x.dtype(), correction);
  });
}

Tensor Tensor::any(const Axes& axes, bool keep) const {
  Tensor truth = is_bool(dtype()) ? *this : not_equal(*this, 0);
  return reduced(Op::MAX, truth, axes, keep, "any");
}

Tensor Tensor::all(const Axes& axes, bool keep) const {
  Tensor truth = is_bool(dtype()) ? *this : not_equal(*this, 0);
  return reduced(Op::MAX, truth.logical_not(), axes, keep, "all").logical_not();
}

Tensor Tensor::logsumexp(const Axes& axes, bool keep) const {
  uint64_t mask = axis_mask(axes, rank(), "logsumexp");
  return computed_wide([&](const Tensor& x) {
    // The shift cancels, so it has no part in the gradient.
    Tensor top = x.max(axes, true).detach();
    // A row of -inf has nothing to subtract: -inf - -inf would be NaN.
    Tensor shift = top.isinf().where(constant(x.dtype(), 0), top);
    Tensor total = (x - shift).exp().sum(axes, true).log() + shift;
    return keep ? total : detail::drop_axes(total, mask);
  });
}

namespace {

Tensor arg_extreme(const Tensor& x, const Tensor& extreme, int64_t axis, bool keep, bool last) {
  SInt n = x.shape()[size_t(axis)];
  Shape line(x.shape().size(), SInt(1));
  line[size_t(axis)] = n;
  Tensor position = Tensor::arange(n, DType::I64).reshape(line);
  Tensor hit = equal(x, extreme);
  if (is_float(x.dtype())) hit = hit | (x.isnan() & extreme.isnan());
  Tensor none = Tensor::constant(DType::I64, -1);
  if (last) return hit.where(position, none).max({axis}, keep);
  // The first hit has the largest distance from the end.
  Tensor size(cast(n.uop(), DType::I64));
  return size - hit.where(size - position, none).max({axis}, keep);
}

} // namespace

Tensor Tensor::argmax(int64_t axis, bool keep, bool last) const {
  axis = detail::normal_axis(axis, rank(), "argmax");
  Tensor x = is_bool(dtype()) ? cast(DType::U8) : *this;
  return arg_extreme(x, x.max({axis}, true), axis, keep, last);
}

Tensor Tensor::argmin(int64_t axis, bool keep, bool last) const {
  axis = detail::normal_axis(axis, rank(), "argmin");
  Tensor x = is_bool(dtype()) ? cast(DType::U8) : *this;
  return arg_extreme(x, x.min({axis}, true), axis, keep, last);
}

namespace {

// Inclusive scan along the last axis: windows over a left-padded copy. Long axes are scanned in blocks, then
// the block totals.
Tensor running(Op op, const Tensor& x, Number neutral) {
  constexpr int64_t kBlock = 16;
  int64_t axis = x.rank() - 1, n = x.size(axis).value("a cumulative operation");
  if (n <= 1) return x;
  if (n <= 2 * kBlock) {
    std::vector<std::pair<int64_t, int64_t>> amounts(size_t(x.rank()), {0, 0});
    amounts.back() = {n - 1, 0};
    Tensor windows = x.pad(amounts, neutral).window(axis, n, n, 1, 1);
    return detail::drop_axes(Tensor(reduce_axis(op, windows.node(), uint64_t(1) << (axis + 1))),
                             uint64_t(1) << (axis + 1));
  }
  int64_t blocks = (n + kBlock - 1) / kBlock;
  std::vector<std::pair<int64_t, int64_t>> amounts(size_t(x.rank()), {0, 0});
  amounts.back() = {0, blocks * kBlock - n};
  Shape split(x.shape().begin(), x.shape().end() - 1);
  split.insert(split.end(), {SInt(blocks), SInt(kBlock)});
  Tensor inside = running(op, x.pad(amounts, neutral).reshape(split), neutral);
  // Stored in one piece: the windows read each total sixteen times.
  Tensor totals = running(op, inside.narrow(-1, kBlock - 1, 1).squeeze(-1).contiguous(), neutral);
  std::vector<std::pair<int64_t, int64_t>> shift(size_t(totals.rank()), {0, 0});
  shift.back() = {1, -1};
  Tensor before = totals.pad(shift, neutral).unsqueeze(-1);
  Tensor joined = detail::binary(op, inside, before);
  Shape flat(x.shape().begin(), x.shape().end() - 1);
  flat.emplace_back(blocks * kBlock);
  return joined.reshape(flat).narrow(-1, 0, n);
}

Tensor cumulative(Op op, const Tensor& x, int64_t axis, bool exclusive, bool reverse, Number neutral) {
  axis = detail::normal_axis(axis, x.rank(), "cumulative sum");
  Tensor t = reverse ? x.flip({axis}) : x;
  t = t.transpose(axis, -1);
  if (exclusive && !(t.size(-1) == 0)) {
    std::vector<std::pair<int64_t, int64_t>> shift(size_t(t.rank()), {0, 0});
    shift.back() = {1, -1};
    t = t.pad(shift, neutral);
  }
  t = running(op, t.cast(sum_dtype(x.dtype())), neutral);
  if (is_float(x.dtype())) t = t.cast(x.dtype());
  t = t.transpose(axis, -1);
  return detail::value_of(reverse ? t.flip({axis}) : t); // of one element, too
}

} // namespace

Tensor Tensor::cumsum(int64_t axis, bool exclusive, bool reverse) const {
  return cumulative(Op::ADD, *this, axis, exclusive, reverse, 0);
}
Tensor Tensor::cumprod(int64_t axis, bool exclusive, bool reverse) const {
  return cumulative(Op::MUL, *this, axis, exclusive, reverse, 1);
}

Tensor Tensor::softmax(int64_t axis) const {
  return computed_wide([&](const Tensor& x) {
    Tensor e = (x - x.max({axis}, true).detach()).exp();
    return e / e.sum({axis}, true);
  });
}

Tensor Tensor::log_softmax(int64_t axis) const {
  return computed_wide([&](const Tensor& x) {
    Tensor shifted = x - x.max({axis}, true).detach();
    return shifted - shifted.exp().sum({axis}, true).log();
  });
}

Tensor Tensor::layer_norm(const Axes& axes, double epsilon) const {
  return computed_wide([&](const Tensor& x) {
    Tensor centred = x - x.mean(axes, true);
    return centred / (centred.square().mean(axes, true) + epsilon).sqrt();
  });
}

} // namespace tolk
