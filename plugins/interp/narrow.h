// Converts float formats below 32 bits between raw bits and double. Every value is exact in double; encoding rounds
// once, to nearest even, by a floating-point addition.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace tolk_interp {

enum class Edge : uint8_t {
  Ieee,    // infinities and NaNs in the top exponent; overflow gives infinity
  IeeeSat, // the same codes; finite overflow gives the largest finite value
  OneNan,  // NaN is all ones below the sign, no infinity; finite overflow saturates
  Fnuz,    // NaN is the code of -0, no infinity; finite overflow saturates
  Finite,  // finite codes only; everything saturates
};

inline double power_of_two(int exponent) { // -1022 .. 1023
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

template <class Bits, int kFraction, int kExponent, int kBias, Edge kEdge> struct SmallFloat {
  static constexpr int kWidth = 1 + kExponent + kFraction;
  static constexpr uint32_t kSign = 1u << (kWidth - 1);
  static constexpr uint32_t kFractionMask = (1u << kFraction) - 1;
  static constexpr uint32_t kMagnitudeMask = kSign - 1;
  static constexpr bool kHasInfinity = kEdge == Edge::Ieee || kEdge == Edge::IeeeSat;
  static constexpr uint32_t kInfinity = kMagnitudeMask & ~kFractionMask; // where there is one
  static constexpr uint32_t kLargest = kHasInfinity            ? kInfinity - 1
                                       : kEdge == Edge::OneNan ? kMagnitudeMask - 1
                                                               : kMagnitudeMask;
  static constexpr int kLowest = 1 - kBias; // exponent of the smallest normal number

  static double decode(Bits raw) {
    uint32_t code = raw;
    uint32_t magnitude = code & kMagnitudeMask, fraction = magnitude & kFractionMask;
    int field = static_cast<int>(magnitude >> kFraction);
    bool negative = (code & kSign) != 0;
    if (kEdge == Edge::Fnuz ? (negative && magnitude == 0) : magnitude > kLargest) {
      uint64_t sign = kEdge != Edge::Fnuz && negative ? uint64_t{1} << 63 : 0;
      uint64_t top = sign | uint64_t{0x7ff} << 52;
      if (kHasInfinity && fraction == 0) return std::bit_cast<double>(top);
      uint64_t payload = kHasInfinity ? uint64_t{fraction} << (52 - kFraction) : 0;
      return std::bit_cast<double>(top | uint64_t{1} << 51 | payload);
    }
    double units = field == 0 ? fraction : fraction + (1u << kFraction);
    double value = units * power_of_two((field == 0 ? 1 : field) - kBias - kFraction);
    return negative ? -value : value;
  }

  static Bits encode(double value) {
    auto raw = std::bit_cast<uint64_t>(value);
    uint32_t sign = raw >> 63 ? kSign : 0;
    double size = std::fabs(value);
    if (std::isnan(value)) {
      if (kEdge == Edge::Fnuz) return static_cast<Bits>(kSign);
      if (kEdge == Edge::Finite) return static_cast<Bits>(kLargest);
      if (kEdge != Edge::Ieee) return static_cast<Bits>(sign | kMagnitudeMask);
      // The payload's head survives; the quiet bit keeps the fraction from being zero.
      auto head = static_cast<uint32_t>(raw >> (52 - kFraction)) & kFractionMask;
      return static_cast<Bits>(sign | kInfinity | 1u << (kFraction - 1) | head);
    }
    if (std::isinf(value)) {
      if (kHasInfinity) return static_cast<Bits>(sign | kInfinity);
      if (kEdge == Edge::Finite) return static_cast<Bits>(sign | kLargest);
      return static_cast<Bits>(kEdge == Edge::Fnuz ? kSign : sign | kMagnitudeMask);
    }
    uint32_t overflow = kEdge == Edge::Ieee ? kInfinity : kLargest;
    int exponent = static_cast<int>(raw >> 52 & 0x7ff) - 1023;
    if (exponent > 2 << kExponent) return static_cast<Bits>(sign | overflow);
    if (exponent < kLowest) exponent = kLowest;
    // Adding 2^52 steps leaves a sum whose last bit is one step, and subtracting it again is exact.
    double big = power_of_two(exponent - kFraction + 52);
    double rounded = (size + big) - big;
    if (rounded > decode(static_cast<Bits>(kLargest))) return static_cast<Bits>(sign | overflow);
    auto steps = static_cast<uint32_t>(rounded * power_of_two(kFraction - exponent));
    // A normal number has 2^kFraction steps and more, which counts one exponent up, as it should.
    uint32_t code = (static_cast<uint32_t>(exponent - kLowest) << kFraction) + steps;
    if (kEdge == Edge::Fnuz && code == 0) sign = 0;
    return static_cast<Bits>(sign | code);
  }
};

// Powers of two from 2^-127 to 2^127 without sign or zero; 255 is NaN.
struct ScaleFloat {
  static double decode(uint8_t code) {
    if (code == 255) return std::bit_cast<double>(uint64_t{0x7ff8} << 48);
    return power_of_two(code - 127);
  }
  static uint8_t encode(double value) {
    if (!std::isfinite(value) || value < 0) return 255;
    if (value <= power_of_two(-127)) return 0;
    if (value >= power_of_two(127)) return 254;
    int exponent = 0;
    double half_to_one = std::frexp(value, &exponent); // value = half_to_one * 2^exponent
    int lower = exponent - 1 + 127;                    // code of the power of two at or below
    bool up = half_to_one > 0.75 || (half_to_one == 0.75 && lower % 2 != 0);
    return static_cast<uint8_t>(lower + up);
  }
};

using Half = SmallFloat<uint16_t, 10, 5, 15, Edge::Ieee>;
using BFloat = SmallFloat<uint16_t, 7, 8, 127, Edge::Ieee>;
using F8E4M3 = SmallFloat<uint8_t, 3, 4, 7, Edge::OneNan>;
using F8E4M3Fnuz = SmallFloat<uint8_t, 3, 4, 8, Edge::Fnuz>;
using F8E5M2 = SmallFloat<uint8_t, 2, 5, 15, Edge::IeeeSat>;
using F8E5M2Fnuz = SmallFloat<uint8_t, 2, 5, 16, Edge::Fnuz>;
using F4E2M1 = SmallFloat<uint8_t, 1, 2, 1, Edge::Finite>;

} // namespace tolk_interp
