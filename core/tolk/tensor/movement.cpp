// Operations of Tensor that move elements and compute nothing: reshape, permute, pad, concat.
#include <algorithm>

#include "tolk/dtype/scalar.h"
#include "tolk/tensor/tensor_internal.h"

namespace tolk {
namespace detail {

int64_t normal_axis(int64_t axis, int64_t rank, const char* what) {
  if (axis < -rank || axis >= rank)
    throw InvalidArgument(std::string(what) + ": axis " + std::to_string(axis) + " is outside -" +
                          std::to_string(rank) + " .. " + std::to_string(rank - 1));
  return axis < 0 ? axis + rank : axis;
}

uint64_t axis_mask(const Axes& axes, int64_t rank, const char* what) {
  if (axes.empty()) return (uint64_t(1) << rank) - 1;
  uint64_t mask = 0;
  for (int64_t axis : axes) {
    uint64_t bit = uint64_t(1) << normal_axis(axis, rank, what);
    if (mask & bit)
      throw InvalidArgument(std::string(what) + ": axis " + std::to_string(axis) + " is given twice");
    mask |= bit;
  }
  return mask;
}

void check_sizes(const Shape& shape, const char* what) {
  int64_t count = 1;
  bool none = false, many = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t most = shape[i].max();
    if (most < 0)
      throw InvalidArgument(std::string(what) + ": size " + to_string(shape[i]) + " of axis " +
                            std::to_string(i) + " in " + to_string(shape) + " is negative");
    none |= most == 0;
    if (shape[i].is_const()) many |= __builtin_mul_overflow(count, most, &count); // bounds may be generous
  }
  if (!none && (many || count > int_max(DType::Index)))
    throw InvalidArgument(std::string(what) + ": a tensor of shape " + to_string(shape) +
                          " has more than 2^62 elements, which no index counts");
}

Tensor drop_axes(const Tensor& t, uint64_t mask) {
  Shape shape;
  for (size_t i = 0; i < t.shape().size(); ++i)
    if (!(mask >> i & 1)) shape.push_back(t.shape()[i]);
  return t.reshape(shape);
}

} // namespace detail

using detail::normal_axis;

Tensor Tensor::reshape(const Shape& shape) const {
  detail::check_sizes(shape, "reshape");
  return Tensor(tolk::reshape(node(), shape));
}

Tensor Tensor::view(const std::vector<int64_t>& sizes) const {
  Shape shape(sizes.begin(), sizes.end());
  auto unknown = std::find(sizes.begin(), sizes.end(), -1);
  if (unknown != sizes.end()) {
    if (std::count(sizes.begin(), sizes.end(), -1) > 1)
      throw InvalidArgument("reshape: only one size may be -1");
    shape[size_t(unknown - sizes.begin())] = 1;
    detail::check_sizes(shape, "reshape");
    SInt rest = tolk::numel(shape);
    if (rest == 0) throw InvalidArgument("reshape: -1 cannot be found when another size is 0");
    shape[size_t(unknown - sizes.begin())] = tolk::floordiv(numel(), rest);
  }
  return reshape(shape);
}

Tensor Tensor::permute(const Axes& order) const {
  Axes normal;
  for (int64_t axis : order) normal.push_back(normal_axis(axis, rank(), "permute"));
  return Tensor(tolk::permute(node(), normal));
}

Tensor Tensor::transpose(int64_t a, int64_t b) const {
  Axes order(static_cast<size_t>(rank()));
  for (size_t i = 0; i < order.size(); ++i) order[i] = int64_t(i);
  std::swap(order[size_t(normal_axis(a, rank(), "transpose"))],
            order[size_t(normal_axis(b, rank(), "transpose"))]);
  return permute(order);
}

Tensor Tensor::expand(const Shape& shape) const {
  if (shape.size() < this->shape().size())
    throw InvalidArgument("expand cannot drop axes: " + to_string(this->shape()) + " to " + to_string(shape));
  detail::check_sizes(shape, "expand");
  Shape padded(shape.size() - this->shape().size(), SInt(1));
  padded.insert(padded.end(), this->shape().begin(), this->shape().end());
  return Tensor(tolk::expand(tolk::reshape(node(), padded), shape));
}

Tensor Tensor::squeeze(int64_t axis) const {
  axis = normal_axis(axis, rank(), "squeeze");
  if (!(shape()[size_t(axis)] == 1))
    throw InvalidArgument("squeeze: axis " + std::to_string(axis) + " of " + to_string(shape()) +
                          " is not 1");
  return detail::drop_axes(*this, uint64_t(1) << axis);
}

Tensor Tensor::unsqueeze(int64_t axis) const {
  Shape to = shape();
  to.insert(to.begin() + normal_axis(axis, rank() + 1, "unsqueeze"), SInt(1));
  return reshape(to);
}

Tensor Tensor::flatten(int64_t first, int64_t last) const {
  if (rank() == 0) return reshape({1});
  first = normal_axis(first, rank(), "flatten"), last = normal_axis(last, rank(), "flatten");
  Shape to(shape().begin(), shape().begin() + first);
  SInt merged = 1;
  for (int64_t i = first; i <= last; ++i) merged = merged * shape()[size_t(i)];
  to.push_back(merged);
  to.insert(to.end(), shape().begin() + last + 1, shape().end());
  return reshape(to);
}

Tensor Tensor::shrink(const Shape& begin, const Shape& size) const {
  // Checked here, before sums of the sizes overflow.
  for (size_t i = 0; i < std::min({begin.size(), size.size(), shape().size()}); ++i)
    if (begin[i].max() < 0 || size[i].max() < 0 || begin[i].min() > shape()[i].max() ||
        size[i].min() > shape()[i].max())
      throw InvalidArgument("axis " + std::to_string(i) + " of " + to_string(shape()) + " has no " +
                            to_string(size[i]) + " elements from " + to_string(begin[i]) + " on");
  return Tensor(tolk::shrink(node(), begin, size));
}

Tensor Tensor::narrow(int64_t axis, const SInt& begin, const SInt& size) const {
  axis = normal_axis(axis, rank(), "narrow");
  Shape start(shape().size(), SInt(0)), sizes = shape();
  start[size_t(axis)] = begin, sizes[size_t(axis)] = size;
  return shrink(start, sizes);
}

Tensor Tensor::pad(const std::vector<std::pair<int64_t, int64_t>>& amounts, Number value) const {
  if (int64_t(amounts.size()) != rank())
    throw InvalidArgument("pad needs a pair for each of the " + std::to_string(rank()) + " axes, got " +
                          std::to_string(amounts.size()));
  Tensor out = *this;
  Shape before, after;
  for (size_t i = 0; i < amounts.size(); ++i) {
    constexpr int64_t kMost = int64_t(1) << 60; // sums of three such do not overflow
    auto [b, a] = amounts[i];
    if (std::max(b, a) > kMost || std::min(b, a) < -kMost)
      throw InvalidArgument("pad: " + std::to_string(b) + " and " + std::to_string(a) + " on axis " +
                            std::to_string(i) + " of " + to_string(shape()) +
                            " are out of range; the most is 2^60");
    if (b < 0 || a < 0) {
      int64_t cut_b = std::max<int64_t>(-b, 0), cut_a = std::max<int64_t>(-a, 0);
      SInt left = out.shape()[i] - SInt(cut_b + cut_a);
      out = out.narrow(int64_t(i), cut_b, left.max() < 0 ? SInt(0) : left);
    }
    before.emplace_back(std::max<int64_t>(b, 0)), after.emplace_back(std::max<int64_t>(a, 0));
  }
  Shape sizes = out.shape();
  for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = before[i] + sizes[i] + after[i];
  detail::check_sizes(sizes, "pad");
  Tensor padded(tolk::pad(out.node(), before, after));
  bool zero = value.fraction ? value.real == 0 : value.word == 0;
  if (padded.node() == node()) return detail::value_of(*this);
  if (zero || padded.node() == out.node()) return padded;
  Tensor inside(tolk::pad(Tensor::constant(DType::BOOL, 1, out.shape()).node(), before, after));
  return inside.where(padded, constant(dtype(), value));
}

Tensor Tensor::window(int64_t axis, const SInt& out, const SInt& k, int64_t stride, int64_t dilation) const {
  // Checked here, before products of the sizes overflow.
  int64_t n = size(axis).max();
  if (out.max() < 0 || k.max() < 0 || out.max() > n + 1 || k.max() > n + 1 || (out.max() > 1 && stride > n) ||
      (k.max() > 1 && dilation > n))
    throw InvalidArgument("window: " + to_string(k) + " elements " + std::to_string(dilation) + " apart at " +
                          to_string(out) + " places " + std::to_string(stride) + " apart do not fit axis " +
                          std::to_string(axis) + " of " + to_string(shape()));
  return Tensor(tolk::window(node(), int(normal_axis(axis, rank(), "window")), out, k, stride, dilation));
}

Tensor Tensor::flip(const Axes& axes) const {
  if (axes.empty()) return *this;
  return Tensor(tolk::flip(node(), detail::axis_mask(axes, rank(), "flip")));
}

Tensor Tensor::slice(int64_t axis, int64_t start, int64_t stop, int64_t step) const {
  axis = normal_axis(axis, rank(), "slice");
  if (step == 0) throw InvalidArgument("slice: the step must not be 0");
  int64_t n = shape()[size_t(axis)].value("a slice");
  // A longer step selects one element as well.
  step = std::clamp(step, -std::max<int64_t>(n, 1), std::max<int64_t>(n, 1));
  auto clamp = [&](int64_t v, int64_t low, int64_t high) { return std::clamp(v < 0 ? v + n : v, low, high); };
  if (step < 0) {
    // x[a:b:-s] is the reversed axis from the other end.
    start = start < -n ? -1 : clamp(start, -1, n - 1);
    stop = stop < -n ? -1 : clamp(stop, -1, n - 1);
    int64_t count = start > stop ? (start - stop - step - 1) / -step : 0;
    if (count == 0) return narrow(axis, 0, 0);
    return flip({axis}).slice(axis, n - 1 - start, n - 1 - start + (count - 1) * -step + 1, -step);
  }
  start = clamp(start, 0, n), stop = clamp(stop, 0, n);
  int64_t count = stop > start ? (stop - start + step - 1) / step : 0;
  if (step == 1 || count <= 1) return narrow(axis, count ? start : 0, count);
  Tensor cut = narrow(axis, start, (count - 1) * step + 1).window(axis, count, 1, step, 1);
  return detail::drop_axes(cut, uint64_t(1) << (axis + 1));
}

Tensor Tensor::repeat(const std::vector<int64_t>& times) const {
  size_t rank = std::max(times.size(), shape().size());
  Shape from(rank - shape().size(), SInt(1)), split, stretched, joined;
  from.insert(from.end(), shape().begin(), shape().end());
  for (size_t i = 0; i < rank; ++i) {
    int64_t t = i + times.size() < rank ? 1 : times[i + times.size() - rank];
    if (t < 0)
      throw InvalidArgument("repeat: " + std::to_string(t) + " repetitions of axis " + std::to_string(i) +
                            "; the number must not be negative");
    split.insert(split.end(), {SInt(1), from[i]});
    stretched.insert(stretched.end(), {SInt(t), from[i]});
  }
  detail::check_sizes(stretched, "repeat");
  for (size_t i = 0; i < rank; ++i) joined.push_back(stretched[2 * i] * from[i]);
  return detail::value_of(
      Tensor(tolk::reshape(tolk::expand(tolk::reshape(node(), split), stretched), joined)));
}

Tensor Tensor::concat(const std::vector<Tensor>& given, int64_t axis) {
  if (given.empty()) throw InvalidArgument("concat needs at least one tensor");
  axis = normal_axis(axis, given[0].rank(), "concat");
  DType dtype = given[0].dtype();
  SInt total = 0;
  std::vector<Tensor> parts;
  for (const Tensor& t : given) {
    bool fits = t.rank() == given[0].rank();
    for (int64_t i = 0; fits && i < t.rank(); ++i)
      fits = i == axis || t.shape()[size_t(i)] == given[0].shape()[size_t(i)];
    if (!fits)
      throw InvalidArgument("concat: shapes " + to_string(given[0].shape()) + " and " + to_string(t.shape()) +
                            " differ off axis " + std::to_string(axis));
    dtype = promote(dtype, t.dtype());
    total = total + t.size(axis);
    if (!(t.size(axis) == 0)) parts.push_back(t);
  }
  if (parts.empty()) return given[0].cast(dtype);
  if (parts.size() == 1) return detail::value_of(parts[0].cast(dtype));
  // Every part is padded to the full axis; the position along the axis selects one.
  Tensor out;
  SInt begin = 0;
  Shape line(given[0].shape().size(), SInt(1));
  line[size_t(axis)] = total;
  Tensor position = arange(total, DType::I64).reshape(line);
  for (const Tensor& t : parts) {
    Shape before(line.size(), SInt(0)), after = before;
    before[size_t(axis)] = begin, after[size_t(axis)] = total - begin - t.size(axis);
    Tensor placed(tolk::pad(t.cast(dtype).node(), before, after));
    out =
        out.defined() ? (position < Tensor(tolk::cast(begin.uop(), DType::I64))).where(out, placed) : placed;
    begin = begin + t.size(axis);
  }
  return out;
}

Tensor Tensor::stack(const std::vector<Tensor>& parts, int64_t axis) {
  std::vector<Tensor> wide;
  wide.reserve(parts.size());
  for (const Tensor& t : parts) wide.push_back(t.unsqueeze(axis));
  return concat(wide, axis < 0 && !wide.empty() ? axis + wide[0].rank() : axis);
}

std::vector<Tensor> Tensor::split(const std::vector<int64_t>& sizes, int64_t axis) const {
  std::vector<Tensor> parts;
  int64_t begin = 0;
  for (int64_t s : sizes) parts.push_back(narrow(axis, begin, s)), begin += s;
  if (!(size(axis) == begin))
    throw InvalidArgument("split: sizes sum to " + std::to_string(begin) + ", the axis has " +
                          to_string(size(axis)));
  return parts;
}

} // namespace tolk
