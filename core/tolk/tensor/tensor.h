// Tensor: a lazy value. Operations build a graph; nothing runs until `realize`, `data` or `item`.
//
//   Tensor x = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
//   Tensor y = (x * 2.0 + 1.0).relu().sum({1});
//   std::vector<float> values = y.values<float>();
//
// Axes may be negative and count from the end. Binary operations broadcast as NumPy does and promote dtypes
// by the lattice in docs/generated/uop.md; a number takes the dtype of the tensor it meets, or the default float
// when a fraction meets an integer tensor. Every function that is given shapes, axes or dtypes that do not
// fit throws InvalidArgument.
//
// A Tensor is a value of one pointer: copying is cheap and shares the graph. One handle may be used by one
// thread at a time; different handles, also to the same graph, by any threads.
//
// Realized tensors have storage, and copies of their handles and views of them (narrow, reshape, permute,
// shards) are on the same storage. `assign` writes it, and all of them see that at once, before the write is
// carried out too. Other expressions are values: what was built before an assignment means the old contents.
// It is right when it is realized before the write is carried out or together with it, and an InvalidArgument
// ("was assigned to after") later, when the old contents are gone. What a captured function
// (tolk/tensor/jit.h) left behind is excepted.
//
// cast() to the dtype that a tensor has, to() its device, contiguous() of what is dense, detach() and
// contiguous_backward() give the tensor itself, on the same storage.
//
// Two expressions that are equal, node by node, and alive at the same time have one storage when both are
// realized. Before assigning to one of them give it storage of its own: clone().
//
// Threads that use one storage, one of them writing, must order that themselves, as with any memory: what one
// has assigned and realized, the other sees when it goes on after that. A pending write belongs to the thread
// that assigned, and is carried out by whoever reads it first.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/dtype/dtype.h"
#include "tolk/uop/shape.h"
#include "tolk/uop/uop.h"

namespace tolk {

using Axes = std::vector<int64_t>;

// A number in an expression; see the header's comment for the dtype it takes.
struct Number {
  bool fraction;
  double real;
  int64_t whole;
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  Number(T v)
      : fraction(std::is_floating_point_v<T>), real(double(v)), whole(int64_t(v)) {
  } // NOLINT(google-explicit-constructor)
};

class TOLK_API Tensor {
public:
  Tensor() = default; // no value; only assignment and `defined` are allowed
  explicit Tensor(UOp node) : node_(std::move(node)) {}
  bool defined() const { return bool(node_); }

  // ---- creation; an empty device means the default one at the time of the call, and a list ("CPU,CPU:1")
  // all of its devices, each of which has the whole value
  static Tensor constant(DType dtype, Number value, const Shape& shape = {});
  static Tensor zeros(const Shape& shape, DType dtype = kDefaultFloat) { return constant(dtype, 0, shape); }
  static Tensor ones(const Shape& shape, DType dtype = kDefaultFloat) { return constant(dtype, 1, shape); }
  // start, start+step, ... below stop; computed in index arithmetic for integers, start + i*step for floats.
  static Tensor arange(const SInt& size, DType dtype = DType::I64);
  static Tensor eye(const SInt& rows, const SInt& columns, int64_t diagonal, DType dtype);
  // Storage that nothing was written to: reading it before assign() gives anything.
  static Tensor empty(const Shape& shape, DType dtype = kDefaultFloat, const std::string& device = {});
  // Copies `bytes` bytes of row-major data; the caller's memory is free afterwards.
  static Tensor from_bytes(const void* data, uint64_t bytes, DType dtype, const Shape& shape,
                           const std::string& device = {});
  // Borrows the data, which `owner` keeps alive and nobody may change: a mapped file needs no copy on devices
  // that can use host memory, until the tensor is written, which the data never is.
  static Tensor from_borrowed(const void* data, uint64_t bytes, DType dtype, const Shape& shape,
                              std::shared_ptr<const void> owner, const std::string& device = {});
  template <typename T>
  static Tensor from(const std::vector<T>& values, const Shape& shape, const std::string& device = {});

  // ---- facts
  const UOp& node() const;
  const Shape& shape() const;
  SInt size(int64_t axis) const;
  int64_t rank() const { return int64_t(shape().size()); }
  SInt numel() const;
  DType dtype() const { return node().dtype(); }
  std::string device() const; // empty for a constant

  // ---- running
  // Computes the value and keeps it; returns *this. Several tensors together share work and a memory plan.
  Tensor& realize();
  static void realize(std::span<Tensor> tensors);
  // Row-major bytes of the value on the host; realizes first.
  std::vector<std::byte> data() const;
  template <typename T> std::vector<T> values() const;
  double item() const; // the one element, as double
  Tensor contiguous() const;
  Tensor detach() const;              // the value; no gradient passes (tolk/tensor/gradient.h)
  Tensor contiguous_backward() const; // the value; its gradient is stored before it is used
  // A copy in storage of its own, that nothing else writes to, on the same devices and in the same parts. Of
  // a constant too: the way to make an input of a captured function from one.
  Tensor clone() const;
  Tensor to(const std::string& device) const; // a sharded value is gathered there
  // Replaces the contents by `value` (same shape and dtype). The write is lazy like everything else, and seen
  // at once by this handle, all others on its storage and what is built on them from now on. It is carried
  // out when one of them is realized, by the next call of a captured function, or never when nobody can see
  // it any more. Pending writes that need what this one overwrites are carried out with it. Data that `from`
  // and its like took from the host is realized first. On a constant and on an expression that was not
  // realized it is plain assignment, which no copy of the handle sees. Throws InvalidArgument for those in a
  // captured function, for a view that repeats elements and for a value on another device.
  Tensor& assign(const Tensor& value);

  // ---- several devices (docs/devices.md): one graph, of which every device of a list computes its part.
  // Operands meet when they are on the same list, in the same order; numbers meet everything.
  // In equal parts along the axis, one on each device; a device may occur twice. The axis must have a known
  // size that the number of devices divides: InvalidArgument otherwise, before anything is allocated.
  Tensor shard(const std::vector<std::string>& devices, int64_t axis) const;
  // The whole value on each device; a sharded value is gathered on all of them.
  Tensor replicate(const std::vector<std::string>& devices) const;
  // A value that the devices of a list each hold a term of (a replica, as far as operations know): all get
  // the terms combined by Op::ADD, Op::MUL or Op::MAX. The value itself on one device.
  Tensor allreduce(Op op) const;
  std::vector<std::string> devices() const; // none for a constant, one or more otherwise
  // The axis of which every device has a part; nothing when each has the whole.
  std::optional<int64_t> shard_axis() const;

  // ---- dtype
  Tensor cast(DType dtype) const;
  Tensor bitcast(DType dtype) const;

  // ---- movement
  Tensor reshape(const Shape& shape) const;
  Tensor view(const std::vector<int64_t>& shape) const; // one size may be -1
  Tensor permute(const Axes& order) const;
  Tensor transpose(int64_t a, int64_t b) const;
  Tensor expand(const Shape& shape) const; // sizes of 1 stretch; leading axes may be added
  Tensor squeeze(int64_t axis) const;
  Tensor unsqueeze(int64_t axis) const;
  Tensor flatten(int64_t first = 0, int64_t last = -1) const;
  Tensor pad(const std::vector<std::pair<int64_t, int64_t>>& amounts,
             Number value = 0) const; // negative amounts cut
  Tensor shrink(const Shape& begin, const Shape& size) const;
  Tensor narrow(int64_t axis, const SInt& begin, const SInt& size) const;
  // Python's [start:stop:step] along one axis; step may be negative.
  Tensor slice(int64_t axis, int64_t start, int64_t stop, int64_t step = 1) const;
  Tensor flip(const Axes& axes) const;
  Tensor repeat(const std::vector<int64_t>& times) const; // tiles; missing leading axes are added
  static Tensor concat(const std::vector<Tensor>& parts, int64_t axis);
  static Tensor stack(const std::vector<Tensor>& parts, int64_t axis);
  std::vector<Tensor> split(const std::vector<int64_t>& sizes, int64_t axis) const;
  // axis -> (out, k): element o*stride + i*dilation; the base of pooling and convolution.
  Tensor window(int64_t axis, const SInt& out, const SInt& k, int64_t stride, int64_t dilation) const;

  // ---- indexing; negative indices count from the end once, others outside read 0 and write nothing
  Tensor gather(const Tensor& indices, int64_t axis) const;          // axis replaced by the indices' shape
  Tensor gather_elements(const Tensor& indices, int64_t axis) const; // out[i][j] = x[idx[i][j]][j]
  Tensor gather_nd(const Tensor& indices, int64_t batch_axes = 0) const;
  // How several writes to one element, or a write and the old value, combine.
  enum class Combine { Replace, Add, Mul, Max, Min };
  Tensor scatter_elements(const Tensor& indices, const Tensor& updates, int64_t axis,
                          Combine combine = Combine::Replace) const;
  Tensor scatter_nd(const Tensor& indices, const Tensor& updates, Combine combine = Combine::Replace) const;
  Tensor one_hot(int64_t classes, int64_t axis = -1) const; // bool

  // ---- elementwise
  Tensor neg() const;
  Tensor logical_not() const; // bool: not; integers: bitwise complement
  Tensor reciprocal() const;
  Tensor sqrt() const;
  Tensor exp() const;
  Tensor exp2() const;
  Tensor log() const;
  Tensor log2() const;
  Tensor sin() const;
  Tensor cos() const;
  Tensor tan() const;
  Tensor asin() const;
  Tensor acos() const;
  Tensor atan() const;
  Tensor sinh() const;
  Tensor cosh() const;
  Tensor tanh() const;
  Tensor asinh() const;
  Tensor acosh() const;
  Tensor atanh() const;
  Tensor erf() const;
  Tensor expm1() const;
  Tensor log1p() const;
  Tensor sigmoid() const;
  Tensor softplus() const;
  Tensor relu() const;
  Tensor abs() const;
  Tensor sign() const;
  Tensor trunc() const;
  Tensor floor() const;
  Tensor ceil() const;
  Tensor round() const; // half to even
  Tensor isnan() const;
  Tensor isinf(bool positive = true, bool negative = true) const;
  Tensor square() const;
  Tensor maximum(const Tensor& other) const; // NaN when either is
  Tensor minimum(const Tensor& other) const;
  Tensor clip(const Tensor& low, const Tensor& high) const; // an undefined end is open
  Tensor pow(const Tensor& exponent) const;
  Tensor floordiv(const Tensor& other) const; // integers; rounds down
  Tensor cdiv(const Tensor& other) const;     // integers; rounds to zero; 0 for a zero divisor
  Tensor floormod(const Tensor& other) const; // sign of the divisor
  Tensor fmod(const Tensor& other) const;     // sign of the dividend; exact for floats
  Tensor shl(const Tensor& other) const;
  Tensor shr(const Tensor& other) const;
  // this (bool) ? a : b
  Tensor where(const Tensor& a, const Tensor& b) const;

  // ---- reductions; no axes means all. `keep` leaves reduced axes with size 1.
  Tensor sum(const Axes& axes = {}, bool keep = false) const; // integers widen to 32 bits at least
  Tensor sum_as(DType accumulator, const Axes& axes,
                bool keep) const; // accumulates in that dtype, and stays there
  Tensor prod(const Axes& axes = {}, bool keep = false) const;
  Tensor max(const Axes& axes = {}, bool keep = false) const;
  Tensor min(const Axes& axes = {}, bool keep = false) const;
  Tensor mean(const Axes& axes = {}, bool keep = false) const;
  Tensor var(const Axes& axes = {}, int64_t correction = 0, bool keep = false) const;
  Tensor any(const Axes& axes = {}, bool keep = false) const;
  Tensor all(const Axes& axes = {}, bool keep = false) const;
  Tensor logsumexp(const Axes& axes = {}, bool keep = false) const;
  Tensor argmax(int64_t axis, bool keep = false, bool last = false) const; // i64; the first NaN wins
  Tensor argmin(int64_t axis, bool keep = false, bool last = false) const;
  Tensor cumsum(int64_t axis, bool exclusive = false, bool reverse = false) const;
  Tensor cumprod(int64_t axis, bool exclusive = false, bool reverse = false) const;
  Tensor softmax(int64_t axis = -1) const;
  Tensor log_softmax(int64_t axis = -1) const;
  // Values and i64 positions of the whole axis in order; equal values keep their order.
  std::pair<Tensor, Tensor> sort(int64_t axis = -1, bool descending = false) const;
  std::pair<Tensor, Tensor> topk(int64_t k, int64_t axis = -1, bool largest = true) const;

  // ---- linear algebra and networks
  Tensor
  matmul(const Tensor& other) const; // NumPy's rules for 1-D and batches; small floats accumulate in f32
  Tensor matmul_as(const Tensor& other, DType accumulator) const;
  struct Conv {
    std::vector<int64_t> stride, dilation;            // empty: 1 each
    std::vector<std::pair<int64_t, int64_t>> padding; // empty: 0
    int64_t groups = 1;
  };
  // x (N, C, spatial...) * weight (M, C/groups, kernel...) [+ bias (M)].
  Tensor conv(const Tensor& weight, const Tensor& bias, const Conv& how) const;
  // weight (C, M/groups, kernel...); output padding extends the end.
  Tensor conv_transpose(const Tensor& weight, const Tensor& bias, const Conv& how,
                        const std::vector<int64_t>& output_padding) const;
  struct Pool {
    std::vector<int64_t> kernel, stride, dilation;
    std::vector<std::pair<int64_t, int64_t>> padding;
    bool ceil_mode = false;
  };
  // Windows over the trailing axes: (N, C, out..., kernel...), `fill` outside.
  Tensor pool_windows(const Pool& how, Number fill) const;
  Tensor max_pool(const Pool& how) const;
  Tensor avg_pool(const Pool& how, bool count_padding) const;
  Tensor layer_norm(const Axes& axes, double epsilon) const;

private:
  mutable UOp node_; // brought up to date when it is asked for
};

TOLK_API Tensor operator+(const Tensor& a, const Tensor& b);
TOLK_API Tensor operator-(const Tensor& a, const Tensor& b);
TOLK_API Tensor operator*(const Tensor& a, const Tensor& b);
TOLK_API Tensor operator/(const Tensor& a, const Tensor& b); // float division; integers become floats
TOLK_API Tensor operator&(const Tensor& a, const Tensor& b);
TOLK_API Tensor operator|(const Tensor& a, const Tensor& b);
TOLK_API Tensor operator^(const Tensor& a, const Tensor& b);
TOLK_API Tensor operator<(const Tensor& a, const Tensor& b);
TOLK_API Tensor operator>(const Tensor& a, const Tensor& b);
TOLK_API Tensor operator<=(const Tensor& a, const Tensor& b);
TOLK_API Tensor operator>=(const Tensor& a, const Tensor& b);
TOLK_API Tensor equal(const Tensor& a, const Tensor& b);
TOLK_API Tensor not_equal(const Tensor& a, const Tensor& b);
inline Tensor operator-(const Tensor& a) { return a.neg(); }
inline Tensor operator!(const Tensor& a) { return a.logical_not(); }

// The number as a tensor that `like` can meet.
TOLK_API Tensor number_like(const Tensor& like, Number value);
#define TOLK_WITH_NUMBER(op)                                                                                 \
  inline Tensor operator op(const Tensor& a, Number b) { return a op number_like(a, b); }                    \
  inline Tensor operator op(Number a, const Tensor& b) { return number_like(b, a) op b; }
TOLK_WITH_NUMBER(+)
TOLK_WITH_NUMBER(-)
TOLK_WITH_NUMBER(*)
TOLK_WITH_NUMBER(/)
TOLK_WITH_NUMBER(<)
TOLK_WITH_NUMBER(>)
TOLK_WITH_NUMBER(<=)
TOLK_WITH_NUMBER(>=)
#undef TOLK_WITH_NUMBER
inline Tensor equal(const Tensor& a, Number b) { return equal(a, number_like(a, b)); }
inline Tensor not_equal(const Tensor& a, Number b) { return not_equal(a, number_like(a, b)); }

// dtype of a C++ type.
template <typename T> constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bool>)
    return DType::BOOL;
  else if constexpr (std::is_same_v<T, float>)
    return DType::F32;
  else if constexpr (std::is_same_v<T, double>)
    return DType::F64;
  else if constexpr (std::is_integral_v<T>) {
    constexpr bool s = std::is_signed_v<T>;
    if constexpr (sizeof(T) == 1)
      return s ? DType::I8 : DType::U8;
    else if constexpr (sizeof(T) == 2)
      return s ? DType::I16 : DType::U16;
    else if constexpr (sizeof(T) == 4)
      return s ? DType::I32 : DType::U32;
    else
      return s ? DType::I64 : DType::U64;
  } else
    static_assert(!sizeof(T), "no dtype for this type");
}

template <typename T>
Tensor Tensor::from(const std::vector<T>& values, const Shape& shape, const std::string& device) {
  if constexpr (std::is_same_v<T, bool>) {
    std::vector<uint8_t> bytes(values.begin(), values.end());
    return from_bytes(bytes.data(), bytes.size(), DType::BOOL, shape, device);
  } else
    return from_bytes(values.data(), values.size() * sizeof(T), dtype_of<T>(), shape, device);
}

// Converts to T's dtype first, so any tensor can be read as any type.
template <typename T> std::vector<T> Tensor::values() const {
  std::vector<std::byte> bytes = cast(dtype_of<T>()).data();
  if constexpr (std::is_same_v<T, bool>) {
    std::vector<bool> out;
    for (std::byte b : bytes) out.push_back(b != std::byte{0});
    return out;
  } else {
    std::vector<T> out(bytes.size() / sizeof(T));
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(out.data()));
    return out;
  }
}

} // namespace tolk
