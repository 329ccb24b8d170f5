// An independent description of the narrow float formats: every code's value computed from the published
// layout with ldexp, and rounding by search among all values. It shares nothing with the library under test.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "tolk/dtype/dtype.h"

namespace reference {

enum class Overflow { Infinity, Saturate };

struct Format {
  const char* name;
  tolk::DType dtype;
  int exponent_bits, mantissa_bits, bias;
  bool is_signed;
  Overflow overflow;
};

inline const std::vector<Format>& formats() {
  using tolk::DType;
  static const std::vector<Format> all = {
      {"f16", DType::F16, 5, 10, 15, true, Overflow::Infinity},
      {"bf16", DType::BF16, 8, 7, 127, true, Overflow::Infinity},
      {"f8e4m3", DType::F8E4M3, 4, 3, 7, true, Overflow::Saturate},
      {"f8e4m3fnuz", DType::F8E4M3FNUZ, 4, 3, 8, true, Overflow::Saturate},
      {"f8e5m2", DType::F8E5M2, 5, 2, 15, true, Overflow::Saturate},
      {"f8e5m2fnuz", DType::F8E5M2FNUZ, 5, 2, 16, true, Overflow::Saturate},
      {"f8e8m0", DType::F8E8M0, 8, 0, 127, false, Overflow::Saturate},
      {"f4e2m1", DType::F4E2M1, 2, 1, 1, true, Overflow::Saturate},
  };
  return all;
}

inline int width(const Format& f) { return f.exponent_bits + f.mantissa_bits + (f.is_signed ? 1 : 0); }

// The value of one code, from the text of each format's definition.
inline double value_of(const Format& f, unsigned code) {
  using tolk::DType;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  unsigned exponent = (code >> f.mantissa_bits) & ((1u << f.exponent_bits) - 1);
  unsigned mantissa = code & ((1u << f.mantissa_bits) - 1);
  bool negative = f.is_signed && ((code >> (width(f) - 1)) & 1);
  unsigned top = (1u << f.exponent_bits) - 1;
  switch (f.dtype) {
  case DType::F8E8M0:
    return code == 255 ? nan : std::ldexp(1.0, static_cast<int>(code) - 127);
  case DType::F8E4M3:
    if (exponent == 15 && mantissa == 7) return nan;
    break;
  case DType::F8E4M3FNUZ:
  case DType::F8E5M2FNUZ:
    if (code == 0x80) return nan;
    break;
  case DType::F4E2M1:
    break;
  default:
    if (exponent == top) return mantissa ? nan : negative ? -infinity : infinity;
  }
  double size = exponent == 0 ? std::ldexp(mantissa, 1 - f.bias - f.mantissa_bits)
                              : std::ldexp(mantissa + (1u << f.mantissa_bits),
                                           static_cast<int>(exponent) - f.bias - f.mantissa_bits);
  return negative ? -size : size;
}

// All finite non-negative values in order, with their codes.
struct Ladder {
  std::vector<std::pair<double, unsigned>> steps;
  explicit Ladder(const Format& f) {
    for (unsigned code = 0; code < (1u << width(f)); ++code) {
      double v = value_of(f, code);
      if (std::isfinite(v) && !std::signbit(v)) steps.emplace_back(v, code);
    }
    std::sort(steps.begin(), steps.end());
  }

  // Code of the nearest value to a finite x >= 0, ties to the even code; past the last value: nothing but the
  // rule that the next step would be one more last step away. Returns whether x rounds beyond the last value.
  std::pair<unsigned, bool> nearest(double x) const {
    auto above = std::lower_bound(steps.begin(), steps.end(), std::make_pair(x, 0u));
    if (above == steps.begin()) return {above->second, false};
    auto below = above - 1;
    if (above == steps.end()) {
      double step = below->first - (below - 1)->first;
      return {below->second, x >= below->first + step / 2};
    }
    double middle = below->first + (above->first - below->first) / 2; // exact: both have few digits
    if (x < middle) return {below->second, false};
    if (x > middle) return {above->second, false};
    return {(below->second & 1) == 0 ? below->second : above->second, false};
  }
};

} // namespace reference
