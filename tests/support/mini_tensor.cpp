#include "mini_tensor.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mini {
namespace {

int normal(int axis, int rank) { return axis < 0 ? axis + rank : axis; }

T scalar(double value, DType dtype) { return {tolk::constant(dtype, value)}; }

Shape common_shape(const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()), SInt(1));
  for (size_t i = 0; i < out.size(); ++i) {
    SInt x = i < a.size() ? a[a.size() - 1 - i] : SInt(1), y = i < b.size() ? b[b.size() - 1 - i] : SInt(1);
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

UOp fitted(const T& x, const Shape& shape) {
  return x.rank() == 0 && tolk::storage_of(x.u) == UOp() ? x.u : expand(x, shape).u;
}

Axes all_axes(const T& x, Axes axes) {
  if (axes.empty())
    for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  for (int& a : axes) a = normal(a, x.rank());
  return axes;
}

} // namespace

T buffer(const Shape& shape, DType dtype, const std::string& device) {
  return {tolk::reshape(tolk::buffer_node(tolk::fresh_user_slot(), dtype, tolk::max_numel(shape), device),
                        shape)};
}
T full(const Shape& shape, double value, DType dtype) { return expand(scalar(value, dtype), shape); }
T arange(const SInt& n, DType dtype) { return {tolk::iota(dtype, n)}; }

T reshape(const T& x, const Shape& shape) { return {tolk::reshape(x.u, shape)}; }
T permute(const T& x, std::vector<int64_t> order) { return {tolk::permute(x.u, order)}; }
T transpose(const T& x) {
  std::vector<int64_t> order;
  for (int i = 0; i < x.rank(); ++i) order.push_back(i);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return permute(x, order);
}
T expand(const T& x, const Shape& shape) {
  Shape padded(shape.size() - x.shape().size(), SInt(1));
  padded.insert(padded.end(), x.shape().begin(), x.shape().end());
  return {tolk::expand(tolk::reshape(x.u, padded), shape)};
}
T pad(const T& x, const Shape& before, const Shape& after) { return {tolk::pad(x.u, before, after)}; }
T shrink(const T& x, const Shape& begin, const Shape& size) { return {tolk::shrink(x.u, begin, size)}; }
T flip(const T& x, Axes axes) {
  uint64_t mask = 0;
  for (int a : axes) mask |= uint64_t(1) << normal(a, x.rank());
  return {tolk::flip(x.u, mask)};
}
T window(const T& x, int axis, SInt out, SInt k, int64_t stride, int64_t dilation) {
  return {tolk::window(x.u, normal(axis, x.rank()), out, k, stride, dilation)};
}
T gather(const T& x, const T& indices, int axis) {
  return {tolk::gather(x.u, indices.u, normal(axis, x.rank()))};
}
T contiguous(const T& x) { return {tolk::contiguous(x.u)}; }
T cast(const T& x, DType dtype) { return {tolk::cast(x.u, dtype)}; }
T assign(const T& x, const T& value) {
  UOp effect = tolk::store_to(x.u, value.u);
  return {tolk::after(x.u, std::span(&effect, 1))};
}

T alu(Op op, const T& a, const T& b) {
  Shape shape = common_shape(a.shape(), b.shape());
  return {tolk::alu(op, fitted(a, shape), fitted(b, shape))};
}
T alu(Op op, const T& a) { return {tolk::alu(op, a.u)}; }
T where(const T& c, const T& a, const T& b) {
  Shape shape = common_shape(c.shape(), common_shape(a.shape(), b.shape()));
  return {tolk::where(fitted(c, shape), fitted(a, shape), fitted(b, shape))};
}
T operator+(const T& a, const T& b) { return alu(Op::ADD, a, b); }
T operator-(const T& a, const T& b) { return alu(Op::SUB, a, b); }
T operator*(const T& a, const T& b) { return alu(Op::MUL, a, b); }
T operator/(const T& a, const T& b) { return alu(Op::FDIV, a, b); }
T operator+(const T& a, double b) { return a + scalar(b, a.dtype()); }
T operator-(const T& a, double b) { return a - scalar(b, a.dtype()); }
T operator*(const T& a, double b) { return a * scalar(b, a.dtype()); }
T operator/(const T& a, double b) { return a / scalar(b, a.dtype()); }
T less(const T& a, const T& b) { return alu(Op::CMPLT, a, b); }
T equal(const T& a, const T& b) { return alu(Op::CMPEQ, a, b); }
T maximum(const T& a, const T& b) { return alu(Op::MAX, a, b); }
T exp(const T& x) { return alu(Op::EXP, x); }
T log(const T& x) { return alu(Op::LOG, x); }
T sqrt(const T& x) { return alu(Op::SQRT, x); }
T relu(const T& x) { return maximum(x, scalar(0, x.dtype())); }

T reduce(Op op, const T& x, Axes axes, bool keep) {
  axes = all_axes(x, axes);
  uint64_t mask = 0;
  for (int a : axes) mask |= uint64_t(1) << a;
  T kept{tolk::reduce_axis(op, x.u, mask)};
  if (keep) return kept;
  Shape shape;
  for (int i = 0; i < x.rank(); ++i)
    if (!(mask >> i & 1)) shape.push_back(x.shape()[size_t(i)]);
  return reshape(kept, shape);
}
T sum(const T& x, Axes axes, bool keep) { return reduce(Op::ADD, x, axes, keep); }
T max(const T& x, Axes axes, bool keep) { return reduce(Op::MAX, x, axes, keep); }
T mean(const T& x, Axes axes, bool keep) {
  double n = 1;
  for (int a : all_axes(x, axes)) n *= double(x.size(a).value());
  return sum(x, axes, keep) * (1 / n);
}
T var(const T& x, Axes axes, bool keep) {
  T d = x - mean(x, axes, true);
  return mean(d * d, axes, keep);
}

T matmul(const T& a, const T& b) {
  Shape left = a.shape(), right = transpose(b).shape();
  left.insert(left.end() - 1, SInt(1));   // (..., m, 1, k)
  right.insert(right.end() - 2, SInt(1)); // (..., 1, n, k)
  return sum(reshape(a, left) * reshape(transpose(b), right), {-1});
}

T conv2d(const T& x, const T& w, int padding, int stride, int groups, int dilation) {
  T p = padding ? pad(x, {0, 0, padding, padding}, {0, 0, padding, padding}) : x;
  auto kh = w.size(2).value(), kw = w.size(3).value();
  auto out = [&](int64_t n, int64_t k) { return (n - (k - 1) * dilation - 1) / stride + 1; };
  int64_t oh = out(p.size(2).value(), kh), ow = out(p.size(3).value(), kw);
  T v = window(window(p, 2, oh, kh, stride, dilation), 4, ow, kw, stride, dilation); // n c oh kh ow kw
  auto n = v.size(0).value(), c = v.size(1).value() / groups, o = w.size(0).value() / groups;
  v = permute(reshape(v, {n, groups, 1, c, oh, kh, ow, kw}), {0, 1, 2, 4, 6, 3, 5, 7});
  T k = reshape(w, {1, groups, o, 1, 1, c, kh, kw});
  return reshape(sum(v * k, {5, 6, 7}), {n, groups * o, oh, ow});
}

T max_pool2d(const T& x, int k, int stride, int padding) {
  T p = x;
  if (padding) {
    // -inf around: a padded mask tells the border.
    Shape around{0, 0, padding, padding};
    T inside = pad(full(x.shape(), 1, DType::BOOL), around, around);
    p = where(inside, pad(x, around, around), scalar(-std::numeric_limits<double>::infinity(), x.dtype()));
  }
  int64_t oh = (p.size(2).value() - k) / stride + 1, ow = (p.size(3).value() - k) / stride + 1;
  return max(window(window(p, 2, oh, k, stride), 4, ow, k, stride), {3, 5});
}
T avg_pool2d(const T& x, int k, int stride, int padding) {
  Shape around{0, 0, padding, padding};
  T p = padding ? pad(x, around, around) : x;
  int64_t oh = (p.size(2).value() - k) / stride + 1, ow = (p.size(3).value() - k) / stride + 1;
  return sum(window(window(p, 2, oh, k, stride), 4, ow, k, stride), {3, 5}) * (1.0 / (k * k));
}

T softmax(const T& x, int axis) {
  T e = exp(x - max(x, {axis}, true));
  return e / sum(e, {axis}, true);
}
T log_softmax(const T& x, int axis) {
  T shifted = x - max(x, {axis}, true);
  return shifted - log(sum(exp(shifted), {axis}, true));
}
T layer_norm(const T& x, double eps) {
  T d = x - mean(x, {-1}, true);
  return d / sqrt(mean(d * d, {-1}, true) + eps);
}
T rms_norm(const T& x, double eps) { return x / sqrt(mean(x * x, {-1}, true) + eps); }
T batch_norm(const T& x, const T& scale, const T& bias, const T& mean, const T& variance, double eps) {
  auto channel = [&](const T& v) { return reshape(v, {1, v.size(0), 1, 1}); };
  return (x - channel(mean)) * (channel(scale) / sqrt(channel(variance) + eps)) + channel(bias);
}
T attention(const T& q, const T& k, const T& v) {
  T scores = matmul(q, transpose(k)) * (1 / std::sqrt(double(q.size(-1).value())));
  return matmul(softmax(scores), v);
}

T concat(const std::vector<T>& parts, int axis) {
  axis = normal(axis, parts[0].rank());
  T out;
  SInt at = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const T& p = parts[i];
    SInt behind = 0; // added up, not subtracted: symbolic sizes stay provably positive
    for (size_t k = i + 1; k < parts.size(); ++k) behind = behind + parts[k].size(axis);
    Shape before(size_t(p.rank()), SInt(0)), after = before;
    before[size_t(axis)] = at, after[size_t(axis)] = behind;
    T placed = pad(p, before, after);
    out = out.u ? out + placed : placed;
    at = at + p.size(axis);
  }
  return out;
}
T stack(const std::vector<T>& parts) {
  std::vector<T> lines;
  for (const T& p : parts) {
    Shape shape = p.shape();
    shape.insert(shape.begin(), SInt(1));
    lines.push_back(reshape(p, shape));
  }
  return concat(lines, 0);
}

T cumsum(const T& x) {
  int64_t n = x.size(-1).value();
  int last = x.rank() - 1;
  Shape before(x.shape().size(), SInt(0)), after = before;
  if (n <= 512) {
    before.back() = n - 1;
    return sum(window(pad(x, before, after), last, n, n), {-1});
  }
  constexpr int64_t kBlock = 256;
  int64_t blocks = (n + kBlock - 1) / kBlock;
  after.back() = blocks * kBlock - n;
  T inner = cumsum(split_axis(pad(x, before, after), last, blocks, kBlock));
  Shape begin(inner.shape().size(), SInt(0)), size = inner.shape();
  begin.back() = kBlock - 1, size.back() = 1;
  T totals = shrink(inner, begin, size); // (..., blocks, 1)
  Shape line = totals.shape();
  line.pop_back();
  T sums = cumsum(reshape(totals, line));
  // The sum of the blocks before: shifted by one.
  Shape one(line.size(), SInt(0)), none = one, cut = line;
  one.back() = 1, cut.back() = blocks;
  T earlier = shrink(pad(sums, one, none), none, cut);
  Shape tall = line;
  tall.emplace_back(1);
  T all = inner + reshape(earlier, tall);
  Shape whole = x.shape();
  whole.back() = blocks * kBlock;
  return shrink(reshape(all, whole), Shape(whole.size(), SInt(0)), x.shape());
}

T one_hot(const T& indices, int classes) {
  Shape shape = indices.shape();
  shape.emplace_back(1);
  return cast(equal(reshape(indices, shape), arange(classes, indices.dtype())), DType::I32);
}
T argmax(const T& x) {
  SInt n = x.size(-1);
  T position = arange(n, DType::I32), hit = cast(equal(x, max(x, {-1}, true)), DType::I32);
  T size{tolk::cast(n.uop(), DType::I32)};
  T from_end = T{tolk::alu(Op::SUB, expand(size, {n}).u, position.u)};
  return size - max(hit * from_end, {-1});
}
T triu(const T& x, int diagonal) {
  SInt rows = x.size(-2), columns = x.size(-1);
  T row = reshape(arange(rows), {rows, 1}), column = reshape(arange(columns), {1, columns});
  return where(less(column, row + diagonal), scalar(0, x.dtype()), x);
}
T split_axis(const T& x, int axis, SInt outer, SInt inner) {
  Shape shape = x.shape();
  axis = normal(axis, x.rank());
  shape[size_t(axis)] = outer;
  shape.insert(shape.begin() + axis + 1, inner);
  return reshape(x, shape);
}

} // namespace mini
