// Tensor: a lazy value. Operations build a graph; nothing runs until `realize`, `data` or `item`.
//
//   Tensor x = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
//   Tensor y = (x * 2.0 + 1.0).relu().sum({1});
//   std::vector<float> values = y.values<float>();
//
// Axes may be negative and then count from the end. Binary operations broadcast as NumPy does and promote
// dtypes by the lattice in docs/generated/uop.md. Every function that gets shapes, axes or dtypes that do not
// fit throws InvalidArgument.
//
// Numbers. In arithmetic a number takes the dtype of the tensor, or the default float when a fraction meets
// integers. A number that the dtype cannot hold is refused. Comparisons with a number are exact by value:
// every u8 is less than 300. Only a fraction with digits after the point is rounded to the dtype of a float
// tensor first, so 0.1f equals 0.1.
//
// Threads. A Tensor is one pointer: copies are cheap and share the graph. One handle may be used by one
// thread at a time; different handles, also to the same graph, by any threads. Threads that use one storage,
// one of them writing, must synchronize as with any memory. A pending write belongs to the thread that
// assigned; it is executed by the first thread that reads the storage.
//
// Storage. A realized tensor has storage, which copies of its handle and views of it (narrow, reshape,
// permute, shards) share. `assign` writes the storage, and every handle on it sees the write at once, also
// before it is executed. Other expressions are values: one that was built before an assignment means the old
// contents. It must be realized before the write is executed or together with it; later it throws
// InvalidArgument ("was assigned to after"). Results of captured functions (tolk/tensor/jit.h) are excepted:
// the next call overwrites them.
//
// cast() to the dtype that a tensor has, to() its device, contiguous() of what is dense, detach() and
// contiguous_backward() return the tensor itself, on the same storage.
//
// Two expressions that are equal, node by node, and alive at the same time share one storage when both are
// realized. Give one of them its own storage with clone() before assigning to it.
#pragma once

#include <cstddef>
#include <functional>
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

// A number in an expression; the comment at the top says which dtype it takes.
struct Number {
  bool fraction;     // of a floating-point type
  double real = 0;   // the value of a fraction
  uint64_t word = 0; // of anything else: the value, as two's complement when it is negative
  bool negative = false;
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  Number(T v) : fraction(std::is_floating_point_v<T>) { // NOLINT(google-explicit-constructor)
    if constexpr (std::is_floating_point_v<T>)
      real = double(v);
    else
      word = uint64_t(v);
    if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) negative = v < 0;
  }
};

class TOLK_API Tensor {
public:
  Tensor() = default; // no value; only assignment and `defined` are allowed, as of one that was moved from
  explicit Tensor(UOp node) : node_(std::move(node)) {}
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  // Makes this handle another value. Only variables can be assigned to: `a.narrow(...) = b` would change
  // nothing. `assign` writes storage.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  ~Tensor() = default;
  bool defined() const { return bool(node_); }

  // ---- creation. An empty device is the default device at the time of the call. A list ("CPU,CPU:1")
  // replicates the value on all of its devices. The number must be a value of the dtype; floats round it.
  static Tensor constant(DType dtype, Number value, const Shape& shape = {});
  static Tensor zeros(const Shape& shape, DType dtype = kDefaultFloat) { return constant(dtype, 0, shape); }
  static Tensor ones(const Shape& shape, DType dtype = kDefaultFloat) { return constant(dtype, 1, shape); }
  // 0, 1, ... size-1. An integer dtype must hold size-1.
  static Tensor arange(const SInt& size, DType dtype = DType::I64);
  static Tensor eye(const SInt& rows, const SInt& columns, int64_t diagonal, DType dtype);
  // Uninitialized storage: its contents are undefined until assign().
  static Tensor empty(const Shape& shape, DType dtype = kDefaultFloat, const std::string& device = {});
  // Copies `bytes` bytes of row-major data; the caller may free its memory afterwards.
  static Tensor from_bytes(const void* data, uint64_t bytes, DType dtype, const Shape& shape,
                           const std::string& device = {});
  // Borrows the data, which `owner` keeps alive and which must not change. Devices that can use host memory
  // read it in place, a mapped file for example; a write to the tensor makes a copy first.
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
  // Computes the value and stores it; returns *this. Tensors that are realized together share work and a memory
  // plan.
  Tensor& realize();
  static void realize(std::span<Tensor> tensors);
  // Row-major bytes of the value on the host; realizes first.
  std::vector<std::byte> data() const;
  template <typename T> std::vector<T> values() const;
  double item() const; // the one element, as double
  Tensor contiguous() const;
  Tensor detach() const;              // the value, as a constant of gradients (tolk/tensor/gradient.h)
  Tensor contiguous_backward() const; // the value; its gradient is made contiguous
  // A lazy copy in new storage that nothing else writes to, on the same devices and with the same sharding.
  // It keeps the contents at the time of the call, also those of a captured function's result. Constants get
  // storage too, which makes them inputs of captured functions.
  Tensor clone() const;
  Tensor to(const std::string& device) const; // a sharded value is gathered there
  // Replaces the contents by `value` (same shape and dtype). The write is lazy, and visible at once through
  // this handle, all others on its storage and expressions built on them from now on. It is executed when one
  // of them is realized, by the next call of a captured function, or never when no handle can observe it.
  // Pending writes that read what this one overwrites are executed with it. Data from the host is realized
  // first. On a constant or an expression without storage it is plain assignment, which copies of the handle
  // do not see. Throws InvalidArgument for those in a captured function, for a view that repeats elements and
  // for a value on another device.
  Tensor& assign(const Tensor& value);

  // ---- several devices (docs/devices.md): one graph, of which every device of a list computes its shard.
  // Operands must be on the same list, in the same order; numbers combine with everything.

  // Shards the axis equally, one shard per device; a device may occur twice. The axis must have a known size
  // that the number of devices divides: InvalidArgument otherwise, before anything is allocated.
  Tensor shard(const std::vector<std::string>& devices, int64_t axis) const;
  // The full value on each device; a sharded value is gathered on all of them.
  Tensor replicate(const std::vector<std::string>& devices) const;
  // Combines the values that each device of a list holds by Op::ADD, Op::MUL or Op::MAX; every device gets
  // the result. On one device it is the value itself.
  Tensor allreduce(Op op) const;
  std::vector<std::string> devices() const; // none for a constant, one or more otherwise
  // The sharded axis; none when each device has the full value.
  std::optional<int64_t> shard_axis() const;

  // ---- dtype
  Tensor cast(DType dtype) const;
  // f of the value in f32 (f64 for f64), rounded once to the least float type of this tensor. What squares,
  // multiplies or sums f16 and bf16 goes through this, so that nothing overflows or is rounded on the way.
  Tensor computed_wide(const std::function<Tensor(const Tensor& wide)>& f) const;
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

  // ---- indexing. Negative indices count from the end, once. Indices out of range read 0 and write nothing.
  Tensor gather(const Tensor& indices, int64_t axis) const;          // axis replaced by the indices' shape
  Tensor gather_elements(const Tensor& indices, int64_t axis) const; // out[i][j] = x[idx[i][j]][j]
  Tensor gather_nd(const Tensor& indices, int64_t batch_axes = 0) const;
  // How several updates of one element combine with each other and with the old value.
  enum class Combine { Replace, Add, Mul, Max, Min };
  Tensor scatter_elements(const Tensor& indices, const Tensor& updates, int64_t axis,
                          Combine combine = Combine::Replace) const;
  Tensor scatter_nd(const Tensor& indices, const Tensor& updates, Combine combine = Combine::Replace) const;
  // bool; a new axis of `classes` elements, true at the index.
  Tensor one_hot(int64_t classes, int64_t axis = -1) const;

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
  Tensor clip(const Tensor& low, const Tensor& high) const; // an undefined bound is no bound
  Tensor pow(const Tensor& exponent) const;
  Tensor floordiv(const Tensor& other) const; // integers only; rounds down
  Tensor cdiv(const Tensor& other) const;     // integers only; rounds to zero; 0 for a zero divisor
  Tensor floormod(const Tensor& other) const; // sign of the divisor
  Tensor fmod(const Tensor& other) const;     // sign of the dividend; exact for floats
  Tensor shl(const Tensor& other) const;      // integers only
  Tensor shr(const Tensor& other) const;
  // this (bool) ? a : b
  Tensor where(const Tensor& a, const Tensor& b) const;

  // ---- reductions; no axes means all. `keep` leaves reduced axes with size 1. mean, var, logsumexp,
  // softmax, log_softmax, layer_norm and avg_pool compute integers in the default float and return it. The
  // error of float sums is bounded relative to the sum of magnitudes: docs/numerics.md.
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
  Tensor cumsum(int64_t axis, bool exclusive = false,
                bool reverse = false) const; // widens integers as sum does
  Tensor cumprod(int64_t axis, bool exclusive = false, bool reverse = false) const;
  Tensor softmax(int64_t axis = -1) const;
  Tensor log_softmax(int64_t axis = -1) const;
  // Sorted values and their i64 positions; the sort is stable.
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
  mutable UOp node_; // refreshed on access, after writes to its storage
};

TOLK_API Tensor operator+(const Tensor& a, const Tensor& b);
TOLK_API Tensor operator-(const Tensor& a, const Tensor& b);
TOLK_API Tensor operator*(const Tensor& a, const Tensor& b);
TOLK_API Tensor operator/(const Tensor& a, const Tensor& b); // float division; integers become floats
TOLK_API Tensor operator&(const Tensor& a, const Tensor& b); // integers and bools only, as | and ^
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

// The number as a tensor that `like` can meet in arithmetic. Throws InvalidArgument when the dtype cannot
// hold it.
TOLK_API Tensor number_like(const Tensor& like, Number value);
#define TOLK_WITH_NUMBER(op)                                                                                 \
  inline Tensor operator op(const Tensor& a, Number b) { return a op number_like(a, b); }                    \
  inline Tensor operator op(Number a, const Tensor& b) { return number_like(b, a) op b; }
TOLK_WITH_NUMBER(+)
TOLK_WITH_NUMBER(-)
TOLK_WITH_NUMBER(*)
TOLK_WITH_NUMBER(/)
#undef TOLK_WITH_NUMBER
// Exact by value, whatever the dtype.
TOLK_API Tensor operator<(const Tensor& a, Number b);
TOLK_API Tensor operator>(const Tensor& a, Number b);
TOLK_API Tensor operator<=(const Tensor& a, Number b);
TOLK_API Tensor operator>=(const Tensor& a, Number b);
TOLK_API Tensor equal(const Tensor& a, Number b);
TOLK_API Tensor not_equal(const Tensor& a, Number b);
inline Tensor operator<(Number a, const Tensor& b) { return b > a; }
inline Tensor operator>(Number a, const Tensor& b) { return b < a; }
inline Tensor operator<=(Number a, const Tensor& b) { return b >= a; }
inline Tensor operator>=(Number a, const Tensor& b) { return b <= a; }

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

// Casts to T's dtype first.
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
