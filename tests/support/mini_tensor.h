// A small tensor vocabulary over uop/build.h, to write graphs in tests of the layers below Tensor.
#pragma once

#include <string>
#include <vector>

#include "tolk/uop/build.h"

namespace mini {

using tolk::DType;
using tolk::Op;
using tolk::Shape;
using tolk::SInt;
using tolk::UOp;
using Axes = std::vector<int>;

struct T {
  UOp u;
  const Shape& shape() const { return tolk::shape_of(u); }
  int rank() const { return int(shape().size()); }
  SInt size(int axis) const { return shape()[size_t(axis < 0 ? axis + rank() : axis)]; }
  DType dtype() const { return u.dtype(); }
};

// Storage of a fresh user buffer.
T buffer(const Shape& shape, DType dtype = DType::F32, const std::string& device = "CPU");
T full(const Shape& shape, double value, DType dtype = DType::F32);
T arange(const SInt& n, DType dtype = DType::I32);

T reshape(const T& x, const Shape& shape);
T permute(const T& x, std::vector<int64_t> order);
T transpose(const T& x);                  // of the last two axes
T expand(const T& x, const Shape& shape); // leading axes may be added
T pad(const T& x, const Shape& before, const Shape& after);
T shrink(const T& x, const Shape& begin, const Shape& size);
T flip(const T& x, Axes axes);
T window(const T& x, int axis, SInt out, SInt k, int64_t stride = 1, int64_t dilation = 1);
T gather(const T& x, const T& indices, int axis);
T contiguous(const T& x);
T cast(const T& x, DType dtype);
T assign(const T& x, const T& value); // AFTER(x, STORE(x, value))

// Elementwise, with broadcasting.
T alu(Op op, const T& a, const T& b);
T alu(Op op, const T& a);
T where(const T& c, const T& a, const T& b);
T operator+(const T& a, const T& b);
T operator-(const T& a, const T& b);
T operator*(const T& a, const T& b);
T operator/(const T& a, const T& b);
T operator+(const T& a, double b);
T operator-(const T& a, double b);
T operator*(const T& a, double b);
T operator/(const T& a, double b);
T less(const T& a, const T& b);
T equal(const T& a, const T& b);
T maximum(const T& a, const T& b);
T exp(const T& x);
T log(const T& x);
T sqrt(const T& x);
T relu(const T& x);

T reduce(Op op, const T& x, Axes axes, bool keep = false); // no axes: all
T sum(const T& x, Axes axes = {}, bool keep = false);
T max(const T& x, Axes axes = {}, bool keep = false);
T mean(const T& x, Axes axes = {}, bool keep = false);
T var(const T& x, Axes axes = {}, bool keep = false);

T matmul(const T& a, const T& b); // (..., m, k) x (..., k, n)
// (n, c, h, w) * (o, c/groups, kh, kw)
T conv2d(const T& x, const T& w, int padding = 0, int stride = 1, int groups = 1, int dilation = 1);
T max_pool2d(const T& x, int k, int stride, int padding = 0);
T avg_pool2d(const T& x, int k, int stride, int padding = 0);
T softmax(const T& x, int axis = -1);
T log_softmax(const T& x, int axis = -1);
T layer_norm(const T& x, double eps = 1e-5); // over the last axis
T rms_norm(const T& x, double eps = 1e-5);
T batch_norm(const T& x, const T& scale, const T& bias, const T& mean, const T& variance, double eps = 1e-5);
T attention(const T& q, const T& k, const T& v);
T concat(const std::vector<T>& parts, int axis);
T stack(const std::vector<T>& parts);
T cumsum(const T& x); // along the last axis, in blocks when it is long
T one_hot(const T& indices, int classes);
T argmax(const T& x); // along the last axis, the first
T triu(const T& x, int diagonal = 0);
T split_axis(const T& x, int axis, SInt outer, SInt inner);

} // namespace mini
