// Elementwise operations of Tensor, with broadcasting and promotion.
#include <cmath>
#include <limits>

#include "tolk/tensor/tensor_internal.h"

namespace tolk {
namespace detail {

Shape broadcast_shape(const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    SInt x = i < a.size() ? a[a.size() - 1 - i] : SInt(1), y = i < b.size() ? b[b.size() - 1 - i] : SInt(1);
    if (!(x == y) && !(x == 1) && !(y == 1))
      throw InvalidArgument("shapes " + to_string(a) + " and " + to_string(b) + " do not broadcast: " +
                            to_string(x) + " and " + to_string(y) + " differ and neither is 1");
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  if (out != a && out != b) check_sizes(out, "broadcast");
  return out;
}

UOp stretched(const UOp& u, const Shape& shape) {
  const Shape& from = shape_of(u);
  if (from.empty() || from == shape) return u;
  Shape padded(shape.size() - from.size(), SInt(1));
  padded.insert(padded.end(), from.begin(), from.end());
  return expand(reshape(u, padded), shape);
}

Pair matched(const Tensor& a, const Tensor& b) {
  DType dtype = promote(a.dtype(), b.dtype());
  Shape shape = broadcast_shape(a.shape(), b.shape());
  return {cast(stretched(a.node(), shape), dtype), cast(stretched(b.node(), shape), dtype)};
}

void require_integers(const Tensor& a, const Tensor& b, const char* what, bool bools) {
  DType dtype = promote(a.dtype(), b.dtype());
  if (is_int(dtype) || (bools && is_bool(dtype))) return;
  throw InvalidArgument(
      std::string(what) + " needs " + (bools ? "integer or bool" : "integer") + " tensors, got " +
      name(a.dtype()) + " and " + name(b.dtype()) +
      (is_float(dtype) ? "; cast the floats to an integer dtype first" : "; cast them first"));
}

Tensor binary(Op op, const Tensor& a, const Tensor& b) {
  Pair p = matched(a, b);
  return Tensor(alu(op, p.a, p.b));
}

Tensor fused(const Tensor& a, const Tensor& b, const Tensor& c) {
  return Tensor(alu(Op::MULACC, a.node(), b.node(), c.node()));
}

Tensor named(const char* name, const Tensor& value, std::initializer_list<Tensor> arguments,
             std::vector<int64_t> numbers) {
  if (!is_float(value.dtype())) return value;
  std::vector<UOp> nodes;
  for (const Tensor& t : arguments) nodes.push_back(t.node());
  return Tensor(function_of(name, value.node(), nodes, std::move(numbers)));
}

std::optional<double> constant_value(const Tensor& t) {
  UOp u = t.node();
  while (u.is(OpSet(Op::EXPAND, Op::RESHAPE, Op::CAST))) u = u.src(0);
  return u.is_const() ? std::optional(u.const_float()) : std::nullopt;
}

Tensor polynomial(const Tensor& x, std::initializer_list<double> coefficients) {
  Tensor sum;
  for (double c : coefficients) {
    Tensor term = Tensor::constant(x.dtype(), c);
    sum = sum.defined() ? fused(sum, x, term) : term;
  }
  return sum;
}

} // namespace detail

using detail::binary;

namespace {
Tensor on_integers(Op op, const Tensor& a, const Tensor& b, const char* what, bool bools = false) {
  detail::require_integers(a, b, what, bools);
  return binary(op, a, b);
}
} // namespace

Tensor operator+(const Tensor& a, const Tensor& b) {
  if (is_bool(promote(a.dtype(), b.dtype()))) return binary(Op::OR, a, b);
  return binary(Op::ADD, a, b);
}
Tensor operator-(const Tensor& a, const Tensor& b) {
  if (is_bool(promote(a.dtype(), b.dtype())))
    throw InvalidArgument("bool tensors have no difference; use ^, or cast them first");
  return binary(Op::SUB, a, b);
}
Tensor operator*(const Tensor& a, const Tensor& b) {
  if (is_bool(promote(a.dtype(), b.dtype()))) return binary(Op::AND, a, b);
  return binary(Op::MUL, a, b);
}
Tensor operator/(const Tensor& a, const Tensor& b) {
  DType dtype = least_float(promote(a.dtype(), b.dtype()));
  return binary(Op::FDIV, a.cast(dtype), b.cast(dtype));
}
Tensor operator&(const Tensor& a, const Tensor& b) { return on_integers(Op::AND, a, b, "&", true); }
Tensor operator|(const Tensor& a, const Tensor& b) { return on_integers(Op::OR, a, b, "|", true); }
Tensor operator^(const Tensor& a, const Tensor& b) { return on_integers(Op::XOR, a, b, "^", true); }
Tensor operator<(const Tensor& a, const Tensor& b) { return binary(Op::CMPLT, a, b); }
Tensor operator>(const Tensor& a, const Tensor& b) { return binary(Op::CMPLT, b, a); }
// Not "not less": with a NaN every comparison but != is false.
Tensor operator<=(const Tensor& a, const Tensor& b) {
  detail::Pair p = detail::matched(a, b);
  if (!is_float(p.a.dtype())) return Tensor(logical_not(alu(Op::CMPLT, p.b, p.a)));
  return Tensor(alu(Op::OR, alu(Op::CMPLT, p.a, p.b), alu(Op::CMPEQ, p.a, p.b)));
}
Tensor operator>=(const Tensor& a, const Tensor& b) { return b <= a; }
Tensor equal(const Tensor& a, const Tensor& b) { return binary(Op::CMPEQ, a, b); }
Tensor not_equal(const Tensor& a, const Tensor& b) { return binary(Op::CMPNE, a, b); }

Tensor Tensor::cast(DType dtype) const { return Tensor(tolk::cast(node(), dtype)); }
Tensor Tensor::bitcast(DType dtype) const { return Tensor(tolk::bitcast(node(), dtype)); }

Tensor Tensor::computed_wide(const std::function<Tensor(const Tensor&)>& f) const {
  DType result = least_float(dtype());
  return f(cast(sum_dtype(result))).cast(result);
}

Tensor Tensor::neg() const {
  if (is_bool(dtype()))
    throw InvalidArgument("a bool tensor has no negative; use logical_not, or cast first");
  return Tensor(alu(Op::NEG, node()));
}

Tensor Tensor::logical_not() const {
  if (is_bool(dtype())) return Tensor(tolk::logical_not(node()));
  if (is_float(dtype()))
    throw InvalidArgument("logical_not needs a bool or integer tensor; compare the floats first");
  return binary(Op::XOR, *this, Tensor(tolk::constant(dtype(), -1))); // all ones
}

namespace {
// A float function in the least float type that holds the source.
Tensor function(Op op, const Tensor& x) { return Tensor(alu(op, x.cast(least_float(x.dtype())).node())); }
} // namespace

Tensor Tensor::reciprocal() const { return function(Op::RECIPROCAL, *this); }
Tensor Tensor::sqrt() const { return function(Op::SQRT, *this); }
Tensor Tensor::exp() const { return function(Op::EXP, *this); }
Tensor Tensor::exp2() const { return function(Op::EXP2, *this); }
Tensor Tensor::log() const { return function(Op::LOG, *this); }
Tensor Tensor::log2() const { return function(Op::LOG2, *this); }
Tensor Tensor::sin() const { return function(Op::SIN, *this); }
Tensor Tensor::cos() const { return function(Op::COS, *this); }

Tensor Tensor::trunc() const {
  return is_float(dtype()) ? Tensor(alu(Op::TRUNC, node())) : detail::value_of(*this);
}

Tensor Tensor::floor() const {
  if (!is_float(dtype())) return detail::value_of(*this);
  Tensor whole = trunc();
  return (*this < whole).where(whole - 1, whole);
}

Tensor Tensor::ceil() const {
  if (!is_float(dtype())) return detail::value_of(*this);
  Tensor whole = trunc();
  // -0 rather than 0 for -1 < x < 0: trunc gave it, and only larger results are touched.
  return (whole < *this).where(whole + 1, whole);
}

Tensor Tensor::round() const {
  if (!is_float(dtype())) return detail::value_of(*this);
  // Half to even: the distance from the truncated value decides, exactly, for every magnitude.
  Tensor whole = trunc(), distance = (*this - whole).abs();
  Tensor odd = tolk::not_equal((whole * 0.5).trunc() * 2, whole);
  Tensor away = (distance > 0.5) | (equal(distance, 0.5) & odd);
  Tensor up = away.where(whole + (*this < 0).where(constant(dtype(), -1), constant(dtype(), 1)), whole);
  // Keep the sign of zero, and infinities, whose distance is NaN.
  return equal(up, 0).where(whole * 0, up).bitcast(dtype());
}

Tensor Tensor::abs() const {
  if (is_unsigned(dtype()) || is_bool(dtype())) return detail::value_of(*this);
  if (is_float(dtype())) {
    // Clearing the sign bit keeps NaN and turns -0 into 0.
    int width = bits(dtype());
    if (width >= 16) {
      DType word = width == 16 ? DType::U16 : width == 32 ? DType::U32 : DType::U64;
      uint64_t mask = (uint64_t(1) << (width - 1)) - 1;
      Tensor cleared = (bitcast(word) & Tensor(tolk::constant(word, int64_t(mask)))).bitcast(dtype());
      return detail::named("abs", cleared, {*this});
    }
  }
  return detail::named("abs", (*this < 0).where(neg(), *this), {*this});
}

Tensor Tensor::sign() const {
  Tensor one = constant(dtype(), 1), zero = constant(dtype(), 0);
  if (is_bool(dtype())) return detail::value_of(*this);
  if (is_unsigned(dtype())) return equal(*this, 0).where(zero, one);
  Tensor s = (*this > 0).where(one, (*this < 0).where(constant(dtype(), -1), zero));
  return is_float(dtype()) ? isnan().where(*this, s) : s;
}

Tensor Tensor::isnan() const {
  return is_float(dtype()) ? tolk::not_equal(*this, *this) : constant(DType::BOOL, 0, shape());
}

Tensor Tensor::isinf(bool positive, bool negative) const {
  Tensor no = constant(DType::BOOL, 0, shape());
  if (!is_float(dtype())) return no;
  constexpr double inf = std::numeric_limits<double>::infinity();
  Tensor found = no;
  if (positive) found = found | equal(*this, inf);
  if (negative) found = found | equal(*this, -inf);
  return found;
}

Tensor Tensor::detach() const { return Tensor(make(Op::DETACH, dtype(), {node()})); }
Tensor Tensor::contiguous_backward() const {
  return Tensor(make(Op::CONTIGUOUS_BACKWARD, dtype(), {node()}));
}

Tensor Tensor::square() const { return *this * *this; }
Tensor Tensor::relu() const { return detail::named("relu", maximum(constant(dtype(), 0)), {*this}); }
Tensor Tensor::maximum(const Tensor& other) const {
  if (is_bool(promote(dtype(), other.dtype()))) return binary(Op::OR, *this, other);
  return binary(Op::MAX, *this, other);
}

Tensor Tensor::minimum(const Tensor& other) const {
  DType common = promote(dtype(), other.dtype());
  if (is_bool(common)) return binary(Op::AND, *this, other);
  if (is_float(common)) return cast(common).neg().maximum(other.cast(common).neg()).neg();
  // Complement reverses the order of integers, signed or not.
  return cast(common).logical_not().maximum(other.cast(common).logical_not()).logical_not();
}

Tensor Tensor::clip(const Tensor& low, const Tensor& high) const {
  Tensor out = *this;
  if (low.defined()) out = out.maximum(low);
  if (high.defined()) out = out.minimum(high);
  return detail::value_of(out);
}

Tensor Tensor::floordiv(const Tensor& other) const {
  return on_integers(Op::FLOORDIV, *this, other, "floordiv");
}
Tensor Tensor::cdiv(const Tensor& other) const { return on_integers(Op::CDIV, *this, other, "cdiv"); }

Tensor Tensor::floormod(const Tensor& other) const {
  if (!is_float(promote(dtype(), other.dtype()))) return on_integers(Op::FLOORMOD, *this, other, "floormod");
  Tensor r = fmod(other);
  Tensor wrong = tolk::not_equal(r, 0) & tolk::not_equal(r < 0, other < 0);
  return wrong.where(r + other, r);
}

Tensor Tensor::shl(const Tensor& other) const { return on_integers(Op::SHL, *this, other, "shl"); }
Tensor Tensor::shr(const Tensor& other) const { return on_integers(Op::SHR, *this, other, "shr"); }

Tensor Tensor::where(const Tensor& a, const Tensor& b) const {
  if (!is_bool(dtype()))
    throw InvalidArgument(std::string("where needs a bool condition, got ") + name(dtype()));
  detail::Pair p = detail::matched(a, b);
  Shape shape = detail::broadcast_shape(this->shape(), detail::broadcast_shape(a.shape(), b.shape()));
  return Tensor(tolk::where(detail::stretched(node(), shape), detail::stretched(p.a, shape),
                            detail::stretched(p.b, shape)));
}

} // namespace tolk
