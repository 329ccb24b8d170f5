// A number meets a tensor: which dtype it takes, what it may be, and comparisons, which are exact by value.
#include <cmath>
#include <cstdio>

#include "tolk/dtype/narrow_float.h"
#include "tolk/dtype/scalar.h"
#include "tolk/tensor/tensor_internal.h"
#include "tolk/uop/eval.h"

namespace tolk {
namespace {

using Wide = __int128;
constexpr Wide kHuge = Wide(1) << 126; // beyond every integer dtype

std::string text_of(Wide value) {
  std::string digits;
  auto rest = value < 0 ? -static_cast<unsigned __int128>(value) : static_cast<unsigned __int128>(value);
  do digits.insert(digits.begin(), char('0' + int(rest % 10)));
  while (rest /= 10);
  return value < 0 ? "-" + digits : digits;
}

// The value of a number that is no fraction.
Wide whole_of(const Number& value) { return value.negative ? Wide(int64_t(value.word)) : Wide(value.word); }

std::string text_of(const Number& value) {
  if (!value.fraction) return text_of(whole_of(value));
  char text[32];
  (void)std::snprintf(text, sizeof text, "%.17g", value.real);
  return text;
}

bool is_whole(double value) { return std::trunc(value) == value; } // infinities too

// A whole double as an integer; beyond kHuge only the sign counts.
Wide to_wide(double value) {
  if (std::abs(value) >= std::ldexp(1.0, 126)) return value < 0 ? -kHuge : kHuge;
  return Wide(value);
}

bool is_integer_or_bool(DType dtype) { return is_int(dtype) || is_bool(dtype); }
bool in_range(DType dtype, Wide value) { return value >= int_min(dtype) && value <= int_max(dtype); }

// What a caller whose number does not fit can do.
std::string remedy(DType dtype, const Number& value) {
  if (is_integer_or_bool(dtype) && (!value.fraction || is_whole(value.real)))
    for (DType wider : {DType::U8, DType::I16, DType::U16, DType::I32, DType::U32, DType::I64, DType::U64})
      if (lossless_cast(dtype, wider) &&
          in_range(wider, value.fraction ? to_wide(value.real) : whole_of(value)))
        return std::string("; cast the tensor to ") + name(wider) + " first";
  return is_integer_or_bool(dtype) ? "; cast the tensor to a float first"
                                   : "; cast the tensor to a wider float first";
}

[[noreturn]] void does_not_fit(DType dtype, const Number& value) {
  std::string range;
  if (is_integer_or_bool(dtype))
    range = ", whose values are " + text_of(int_min(dtype)) + " to " + text_of(int_max(dtype));
  throw InvalidArgument("the number " + text_of(value) + " does not fit " + name(dtype) + range +
                        remedy(dtype, value));
}

// The number in a float dtype, rounded once.
double float_of(DType dtype, const Number& value) {
  return value.fraction ? round_to(dtype, value.real) : int_to_float(dtype, whole_of(value));
}

// Whether a float dtype has the number in its range. The formats of 8 bits and less saturate instead of
// overflowing.
bool overflows(DType dtype, const Number& value) {
  double real = value.fraction ? value.real : double(whole_of(value));
  if (!std::isfinite(real)) return false;
  if (bits(dtype) >= 16) return !std::isfinite(float_of(dtype, value));
  const FloatFormat& format = float_format(dtype);
  return std::abs(real) > decode_float(format, format.max_code) || (real < 0 && !format.has_sign);
}

UOp integer_node(DType dtype, Wide value) { return constant(dtype, int64_t(uint64_t(value))); }

Tensor everywhere(const Tensor& like, bool value) {
  return Tensor::constant(DType::BOOL, value, like.shape());
}

enum class Order { Less, LessEqual, Greater, GreaterEqual, Equal, NotEqual };

Tensor integer_less(const Tensor& t, Wide limit) {
  if (limit <= int_min(t.dtype())) return everywhere(t, false);
  if (limit > int_max(t.dtype())) return everywhere(t, true);
  return t < Tensor(integer_node(t.dtype(), limit));
}

Tensor integer_greater(const Tensor& t, Wide limit) {
  if (limit >= int_max(t.dtype())) return everywhere(t, false);
  if (limit < int_min(t.dtype())) return everywhere(t, true);
  return t > Tensor(integer_node(t.dtype(), limit));
}

// `low` and `high` are the integers around the number: equal when it is whole.
Tensor compare_integers(const Tensor& t, Order order, Wide low, Wide high) {
  switch (order) {
  case Order::Less:
    return integer_less(t, high);
  case Order::LessEqual:
    return integer_greater(t, low).logical_not();
  case Order::Greater:
    return integer_greater(t, low);
  case Order::GreaterEqual:
    return integer_less(t, high).logical_not();
  default:
    break;
  }
  bool equals = order == Order::Equal;
  if (low != high || !in_range(t.dtype(), low)) return everywhere(t, !equals);
  Tensor number(integer_node(t.dtype(), low));
  return equals ? equal(t, number) : not_equal(t, number);
}

// -1, 0 or 1: a double below, at or above the number.
int sign_of_difference(double a, const Number& b) {
  if (b.fraction) return (a > b.real) - (a < b.real);
  if (std::isinf(a)) return a < 0 ? -1 : 1;
  Wide whole = to_wide(a); // `a` comes from rounding a whole number, and is one
  return (whole > whole_of(b)) - (whole < whole_of(b));
}

Tensor compare_floats(const Tensor& given, Order order, const Number& value) {
  // The formats of 8 bits and less differ in what is beyond their largest value.
  Tensor t = bits(given.dtype()) < 16 ? given.cast(DType::F32) : given;
  double rounded = float_of(t.dtype(), value);
  // A fraction is the dtype's nearest: 0.1f equals 0.1. Whole numbers are themselves, also between two
  // floats.
  bool exact = !value.fraction || is_whole(value.real) || std::isinf(rounded);
  int sign = exact ? sign_of_difference(rounded, value) : 0;
  if (sign != 0) {
    if (order == Order::Equal) return everywhere(given, false);
    if (order == Order::NotEqual) return everywhere(given, true);
    // No float lies between the number and the float nearest to it.
    bool below = order == Order::Less || order == Order::LessEqual;
    if (below)
      order = sign < 0 ? Order::LessEqual : Order::Less;
    else
      order = sign < 0 ? Order::Greater : Order::GreaterEqual;
  }
  Tensor number(constant(t.dtype(), rounded));
  switch (order) {
  case Order::Less:
    return t < number;
  case Order::LessEqual:
    return t <= number;
  case Order::Greater:
    return t > number;
  case Order::GreaterEqual:
    return t >= number;
  case Order::Equal:
    return equal(t, number);
  case Order::NotEqual:
    return not_equal(t, number);
  }
  return {};
}

Tensor compare(const Tensor& t, Order order, const Number& value) {
  if (is_float(t.dtype())) return compare_floats(t, order, value);
  Tensor integers = is_bool(t.dtype()) ? t.cast(DType::U8) : t;
  if (!value.fraction) return compare_integers(integers, order, whole_of(value), whole_of(value));
  if (std::isnan(value.real)) return everywhere(t, order == Order::NotEqual);
  return compare_integers(integers, order, to_wide(std::floor(value.real)), to_wide(std::ceil(value.real)));
}

} // namespace

Tensor Tensor::constant(DType dtype, Number value, const Shape& shape) {
  detail::check_sizes(shape, "constant");
  UOp node;
  if (is_float(dtype)) {
    if (overflows(dtype, value)) does_not_fit(dtype, value);
    node = tolk::constant(dtype, float_of(dtype, value));
  } else {
    if (value.fraction && !is_whole(value.real)) does_not_fit(dtype, value); // NaN too
    Wide whole = value.fraction ? to_wide(value.real) : whole_of(value);
    if (!in_range(dtype, whole)) does_not_fit(dtype, value);
    node = integer_node(dtype, whole);
  }
  return Tensor(node).expand(shape);
}

Tensor number_like(const Tensor& like, Number value) {
  DType dtype = like.dtype();
  if (value.fraction && !is_float(dtype)) dtype = least_float(dtype);
  if (!value.fraction && is_bool(dtype)) dtype = kDefaultInt;
  return Tensor::constant(dtype, value);
}

Tensor operator<(const Tensor& a, Number b) { return compare(a, Order::Less, b); }
Tensor operator>(const Tensor& a, Number b) { return compare(a, Order::Greater, b); }
Tensor operator<=(const Tensor& a, Number b) { return compare(a, Order::LessEqual, b); }
Tensor operator>=(const Tensor& a, Number b) { return compare(a, Order::GreaterEqual, b); }
Tensor equal(const Tensor& a, Number b) { return compare(a, Order::Equal, b); }
Tensor not_equal(const Tensor& a, Number b) { return compare(a, Order::NotEqual, b); }

} // namespace tolk
