// Conservative closed intervals of integer and bool values, computed once, at construction, from the sources'
// intervals. Arithmetic is exact in 128 bits and saturates to int64; an interval that leaves the dtype's
// range becomes the range, since fixed-width values wrap. An end at the limit of int64 says nothing: U64 and
// Index reach beyond it.
#include <algorithm>
#include <limits>

#include "tolk/dtype/scalar.h"
#include "tolk/uop/build.h"
#include "tolk/uop/intern_internal.h"

namespace tolk {
namespace {

using Wide = __int128;
struct Interval {
  Wide lo, hi;
};

constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();
// No bound known. Arithmetic on ends keeps what is unbounded so.
constexpr Wide kUnbounded = Wide(1) << 100;

bool unbounded(Wide v) { return v >= kUnbounded || v <= -kUnbounded; }
Wide clamped(Wide v) { return v > kUnbounded ? kUnbounded : v < -kUnbounded ? -kUnbounded : v; }

Interval of_dtype(DType dtype) {
  if (dtype == DType::BOOL) return {0, 1};
  if (!is_int(dtype) || dtype == DType::Index) return {-kUnbounded, kUnbounded};
  return {int_min(dtype), int_max(dtype)};
}

// The interval of a source, with saturated ends opened.
Interval of_source(const UOp& u) {
  Interval all = of_dtype(u.dtype());
  return {u.vmin() == kMin ? all.lo : Wide(u.vmin()), u.vmax() == kMax ? all.hi : Wide(u.vmax())};
}

Wide times(Wide a, Wide b) {
  if (a == 0 || b == 0) return 0;
  // Beyond 64 bits on both sides the product may leave 128.
  bool large = (a > kMax || a < kMin) && (b > kMax || b < kMin);
  if (unbounded(a) || unbounded(b) || large) return (a > 0) == (b > 0) ? kUnbounded : -kUnbounded;
  return clamped(a * b);
}

Wide plus(Wide a, Wide b) {
  if (unbounded(a)) return a;
  return unbounded(b) ? b : a + b;
}

Wide truncated_div(Wide a, Wide b) {
  if (unbounded(a)) return (a > 0) == (b > 0) ? kUnbounded : -kUnbounded;
  return a / b; // an unbounded divisor gives 0
}

Wide floor_div(Wide a, Wide b) {
  if (unbounded(a)) return (a > 0) == (b > 0) ? kUnbounded : -kUnbounded;
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

template <typename F> Interval corners(const Interval& x, const Interval& y, F f) {
  Wide v[4] = {f(x.lo, y.lo), f(x.lo, y.hi), f(x.hi, y.lo), f(x.hi, y.hi)};
  return {*std::min_element(v, v + 4), *std::max_element(v, v + 4)};
}

Interval remainder(const Interval& x, const Interval& d, const Interval& all) {
  if (d.lo <= 0 && d.hi >= 0) return all;
  // One period: the remainders of the ends.
  if (d.lo == d.hi && x.lo <= x.hi && !unbounded(x.lo) && !unbounded(x.hi) &&
      floor_div(x.lo, d.lo) == floor_div(x.hi, d.lo)) {
    Wide q = floor_div(x.lo, d.lo);
    return {x.lo - q * d.lo, x.hi - q * d.lo};
  }
  if (d.lo > 0) return {0, x.lo >= 0 ? std::min(x.hi, d.hi - 1) : d.hi - 1};
  return {x.hi <= 0 ? std::max(x.lo, d.lo + 1) : d.lo + 1, 0};
}

Interval compute(Op op, DType dtype, std::span<const UOp> src, const Arg& arg) {
  Interval all = of_dtype(dtype);
  auto at = [&](size_t i) { return of_source(src[i]); };
  // Bounds of float sources mean nothing.
  bool ints = !src.empty() && (is_int(src[0].dtype()) || is_bool(src[0].dtype()));
  switch (op) {
  case Op::CONST: {
    Wide v = dtype == DType::U64 ? Wide(arg.word) : Wide(int64_t(arg.word));
    return {v, v};
  }
  case Op::VAR:
    return arg.ints().size() < 2 ? all : Interval{arg.i(0), arg.i(1)};
  case Op::BIND:
    return at(0);
  case Op::RANGE:
  case Op::SPECIAL:
    return {0, at(0).hi - 1};
  case Op::IOTA:
    return {0, std::max<Wide>(at(0).hi - 1, 0)};
  case Op::NEG:
    return {-at(0).hi, -at(0).lo};
  case Op::ADD:
    return {plus(at(0).lo, at(1).lo), plus(at(0).hi, at(1).hi)};
  case Op::SUB:
    return {plus(at(0).lo, -at(1).hi), plus(at(0).hi, -at(1).lo)};
  case Op::MUL:
    return corners(at(0), at(1), times);
  case Op::MULACC: {
    Interval m = corners(at(0), at(1), times);
    return {plus(m.lo, at(2).lo), plus(m.hi, at(2).hi)};
  }
  case Op::MAX:
    return {std::max(at(0).lo, at(1).lo), std::max(at(0).hi, at(1).hi)};
  case Op::FLOORDIV:
  case Op::CDIV: {
    Interval d = at(1);
    if (d.lo <= 0 && d.hi >= 0) return d.lo == 0 && at(0).lo >= 0 ? Interval{0, at(0).hi} : all;
    return corners(at(0), d, op == Op::CDIV ? truncated_div : floor_div);
  }
  case Op::FLOORMOD:
    return remainder(at(0), at(1), all);
  case Op::CMOD: {
    Interval x = at(0), d = at(1);
    if (d.lo <= 0) return all;
    return {x.lo >= 0 ? Wide(0) : std::max(x.lo, -(d.hi - 1)),
            x.hi <= 0 ? Wide(0) : std::min(x.hi, d.hi - 1)};
  }
  case Op::SHL:
    if (src[1].is_const() && src[1].const_int() >= 0 && src[1].const_int() < 62) {
      Wide f = Wide(1) << src[1].const_int();
      return {times(at(0).lo, f), times(at(0).hi, f)};
    }
    return all;
  case Op::SHR:
    if (src[1].is_const() && src[1].const_int() >= 0 && src[1].const_int() < 62)
      return {floor_div(at(0).lo, Wide(1) << src[1].const_int()),
              floor_div(at(0).hi, Wide(1) << src[1].const_int())};
    return all;
  case Op::AND:
    if (dtype == DType::BOOL) return {std::min(at(0).lo, at(1).lo), std::min(at(0).hi, at(1).hi)};
    if (at(0).lo >= 0 && at(1).lo >= 0) return {0, std::min(at(0).hi, at(1).hi)};
    if (at(1).lo >= 0) return {0, at(1).hi};
    if (at(0).lo >= 0) return {0, at(0).hi};
    return all;
  case Op::OR:
    if (dtype == DType::BOOL) return {std::max(at(0).lo, at(1).lo), std::max(at(0).hi, at(1).hi)};
    return all;
  case Op::XOR:
    // Negation: of a bool, or of every bit.
    if (dtype == DType::BOOL && at(1).lo == at(1).hi)
      return at(1).lo ? Interval{1 - at(0).hi, 1 - at(0).lo} : at(0);
    if (is_signed(dtype) && src[1].is_const_int(-1)) return {-1 - at(0).hi, -1 - at(0).lo};
    return all;
  case Op::CMPLT:
    if (!ints) return all;
    return {at(0).hi < at(1).lo, at(0).lo < at(1).hi};
  case Op::CMPEQ:
  case Op::CMPNE: {
    if (!ints) return all;
    bool disjoint = at(0).hi < at(1).lo || at(1).hi < at(0).lo;
    bool same = at(0).lo == at(0).hi && at(1).lo == at(1).hi && at(0).lo == at(1).lo;
    return op == Op::CMPEQ ? Interval{same, !disjoint} : Interval{disjoint, !same};
  }
  case Op::WHERE:
    return {std::min(at(1).lo, at(2).lo), std::max(at(1).hi, at(2).hi)};
  case Op::CAST:
    if (!ints) return all;
    if (dtype == DType::BOOL) return {at(0).lo > 0 || at(0).hi < 0, !(at(0).lo == 0 && at(0).hi == 0)};
    return at(0);
  case Op::SPLAT:
  case Op::EXTRACT:
    return at(0);
  case Op::STACK: {
    Interval r = at(0);
    for (size_t i = 1; i < src.size(); ++i) r = {std::min(r.lo, at(i).lo), std::max(r.hi, at(i).hi)};
    return r;
  }
  default:
    return all;
  }
}

} // namespace

std::pair<int64_t, int64_t> compute_bounds(Op op, DType dtype, std::span<const UOp> src, const Arg& arg) {
  if (!is_int(dtype) && !is_bool(dtype)) return {kMin, kMax};
  Interval r = compute(op, dtype, src, arg), all = of_dtype(dtype);
  if (r.lo < all.lo || r.hi > all.hi) r = all;
  auto saturated = [](Wide v) { return v < kMin ? kMin : v > kMax ? kMax : int64_t(v); };
  return {saturated(r.lo), saturated(r.hi)};
}

} // namespace tolk
