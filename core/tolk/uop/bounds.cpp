// Conservative closed intervals of integer and bool values, computed once, at construction, from the sources' intervals.
// Arithmetic is exact in 128 bits and saturates to int64; an interval that leaves the dtype's range becomes the range,
// since fixed-width values wrap. Saturated ends of U64 mean "unknown".
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

Interval of_dtype(DType dtype) {
  if (dtype == DType::BOOL) return {0, 1};
  if (!is_int(dtype)) return {kMin, kMax};
  return {int_min(dtype), int_max(dtype)};
}

Wide floor_div(Wide a, Wide b) {
  if (b == 0) return 0;
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

template <typename F> Interval corners(const Interval& x, const Interval& y, F f) {
  Wide v[4] = {f(x.lo, y.lo), f(x.lo, y.hi), f(x.hi, y.lo), f(x.hi, y.hi)};
  return {*std::min_element(v, v + 4), *std::max_element(v, v + 4)};
}

Interval compute(Op op, DType dtype, std::span<const UOp> src, const Arg& arg) {
  Interval all = of_dtype(dtype);
  auto at = [&](size_t i) { return Interval{src[i].vmin(), src[i].vmax()}; };
  // Bounds of float sources mean nothing.
  bool ints = !src.empty() && (is_int(src[0].dtype()) || is_bool(src[0].dtype()));
  switch (op) {
  case Op::CONST: return {Wide(int64_t(arg.word)), Wide(int64_t(arg.word))};
  case Op::VAR: return {arg.i(0), arg.i(1)};
  case Op::BIND: return at(0);
  case Op::RANGE:
  case Op::SPECIAL: return {0, at(0).hi - 1};
  case Op::IOTA: return {0, std::max<Wide>(at(0).hi - 1, 0)};
  case Op::NEG: return {-at(0).hi, -at(0).lo};
  case Op::ADD: return {at(0).lo + at(1).lo, at(0).hi + at(1).hi};
  case Op::SUB: return {at(0).lo - at(1).hi, at(0).hi - at(1).lo};
  case Op::MUL: return corners(at(0), at(1), [](Wide a, Wide b) { return a * b; });
  case Op::MULACC: {
    Interval m = corners(at(0), at(1), [](Wide a, Wide b) { return a * b; });
    return {m.lo + at(2).lo, m.hi + at(2).hi};
  }
  case Op::MAX: return {std::max(at(0).lo, at(1).lo), std::max(at(0).hi, at(1).hi)};
  case Op::FLOORDIV:
  case Op::CDIV: {
    Interval d = at(1);
    if (d.lo <= 0 && d.hi >= 0) return d.lo == 0 && at(0).lo >= 0 ? Interval{0, at(0).hi} : all;
    if (op == Op::CDIV) return corners(at(0), d, [](Wide a, Wide b) { return a / b; });
    return corners(at(0), d, floor_div);
  }
  case Op::FLOORMOD: {
    Interval x = at(0), d = at(1);
    if (d.lo <= 0) return all;
    if (d.lo == d.hi && floor_div(x.lo, d.lo) == floor_div(x.hi, d.lo))
      return {x.lo - floor_div(x.lo, d.lo) * d.lo, x.hi - floor_div(x.hi, d.lo) * d.lo};
    if (x.lo >= 0) return {0, std::min(x.hi, d.hi - 1)};
    return {0, d.hi - 1};
  }
  case Op::CMOD: {
    Interval x = at(0), d = at(1);
    if (d.lo <= 0) return all;
    return {x.lo >= 0 ? Wide(0) : std::max(x.lo, -(d.hi - 1)), x.hi <= 0 ? Wide(0) : std::min(x.hi, d.hi - 1)};
  }
  case Op::SHL:
    if (src[1].is_const() && src[1].const_int() >= 0 && src[1].const_int() < 62) {
      Wide f = Wide(1) << src[1].const_int();
      return {at(0).lo * f, at(0).hi * f};
    }
    return all;
  case Op::SHR:
    if (src[1].is_const() && src[1].const_int() >= 0 && src[1].const_int() < 62)
      return {at(0).lo >> src[1].const_int(), at(0).hi >> src[1].const_int()};
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
  case Op::WHERE: return {std::min(at(1).lo, at(2).lo), std::max(at(1).hi, at(2).hi)};
  case Op::CAST:
    if (!ints) return all;
    if (dtype == DType::BOOL) return {at(0).lo > 0 || at(0).hi < 0, !(at(0).lo == 0 && at(0).hi == 0)};
    return at(0);
  case Op::SPLAT:
  case Op::EXTRACT: return at(0);
  case Op::STACK: {
    Interval r = at(0);
    for (size_t i = 1; i < src.size(); ++i) r = {std::min(r.lo, at(i).lo), std::max(r.hi, at(i).hi)};
    return r;
  }
  default: return all;
  }
}

} // namespace

std::pair<int64_t, int64_t> compute_bounds(Op op, DType dtype, std::span<const UOp> src, const Arg& arg) {
  if (!is_int(dtype) && !is_bool(dtype)) return {kMin, kMax};
  if (op == Op::CONST && dtype == DType::U64) {
    int64_t v = int64_t(arg.word) < 0 ? kMax : int64_t(arg.word);
    return {v, v};
  }
  Interval r = compute(op, dtype, src, arg), all = of_dtype(dtype);
  if (dtype != DType::Index && op != Op::CONST && (r.lo < all.lo || r.hi > all.hi)) r = all;
  auto clamp = [](Wide v) { return v < kMin ? kMin : v > kMax ? kMax : int64_t(v); };
  return {clamp(r.lo), clamp(r.hi)};
}

} // namespace tolk
