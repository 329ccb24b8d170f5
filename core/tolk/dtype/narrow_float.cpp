#include "tolk/dtype/narrow_float.h"

#include <algorithm>
#include <bit>

#include "tolk/base/check.h"

namespace tolk {
namespace {

constexpr uint64_t kDoubleFraction = (uint64_t{1} << 52) - 1;
constexpr int kDoubleBias = 1023;

//                             mantissa bias width sign subnormal saturate specials             largest finite
constexpr FloatFormat kF16 = {10, 15, 16, true, true, false, Specials::Ieee, 0x7bff};
constexpr FloatFormat kBf16 = {7, 127, 16, true, true, false, Specials::Ieee, 0x7f7f};
constexpr FloatFormat kF32 = {23, 127, 32, true, true, false, Specials::Ieee, 0x7f7fffff};
constexpr FloatFormat kF8E4M3 = {3, 7, 8, true, true, true, Specials::NanAllOnes, 0x7e};
constexpr FloatFormat kF8E4M3Fnuz = {3, 8, 8, true, true, true, Specials::NanMinusZero, 0x7f};
constexpr FloatFormat kF8E5M2 = {2, 15, 8, true, true, true, Specials::Ieee, 0x7b};
constexpr FloatFormat kF8E5M2Fnuz = {2, 16, 8, true, true, true, Specials::NanMinusZero, 0x7f};
constexpr FloatFormat kF8E8M0 = {0, 127, 8, false, false, true, Specials::NanAllOnes, 0xfe};
constexpr FloatFormat kF4E2M1 = {1, 1, 4, true, true, true, Specials::None, 0x7};

double from_bits(uint64_t bits) { return std::bit_cast<double>(bits); }

uint64_t nan_code(const FloatFormat& f, uint64_t sign, uint64_t fraction) {
  switch (f.specials) {
  case Specials::Ieee: {
    // The leading payload survives; the quiet bit keeps a NaN whose payload is all in the low bits from
    // becoming infinity.
    if (f.saturates) return sign | (f.sign_bit() - 1);
    uint64_t infinity = f.max_code + 1;
    return sign | infinity | uint64_t{1} << (f.mantissa - 1) | fraction >> (52 - f.mantissa);
  }
  case Specials::NanAllOnes:
    return f.has_sign ? sign | (f.max_code + 1) : f.max_code + 1;
  case Specials::NanMinusZero:
    return f.sign_bit();
  case Specials::None:
    return f.max_code;
  }
  return 0;
}

uint64_t infinity_code(const FloatFormat& f, uint64_t sign) {
  switch (f.specials) {
  case Specials::Ieee:
    return sign | (f.max_code + 1);
  case Specials::None:
    return sign | f.max_code;
  default:
    return nan_code(f, sign, 0);
  }
}

// Magnitude code of a finite, non-zero value; may exceed max_code.
uint64_t round_magnitude(const FloatFormat& f, int exponent, uint64_t significand) {
  // The value is significand * 2^(exponent - 52); the format's step there is 2^(base - mantissa).
  int base = std::max(exponent, f.min_exponent());
  int shift = 52 - f.mantissa + (base - exponent);
  uint64_t rounded = 0;
  if (shift < 54) { // below that the value is less than half a step
    uint64_t rest = significand & ((uint64_t{1} << shift) - 1);
    uint64_t half = uint64_t{1} << (shift - 1);
    rounded = significand >> shift;
    // Without fraction bits the parity is that of the exponent field, which `rounded` does not hold.
    bool odd = f.mantissa == 0 ? ((base - f.min_exponent()) & 1) != 0 : (rounded & 1) != 0;
    if (rest > half || (rest == half && odd)) ++rounded;
  }
  // A carry out of the fraction increments the exponent field.
  uint64_t field = static_cast<uint64_t>(base - f.min_exponent());
  if (f.has_subnormals) return (field << f.mantissa) + rounded;
  return rounded == 0 ? 0 : field + rounded - 1;
}

} // namespace

const FloatFormat& float_format(DType dtype) {
  switch (dtype) {
  case DType::F16:
    return kF16;
  case DType::BF16:
    return kBf16;
  case DType::F32:
    return kF32;
  case DType::F8E4M3:
    return kF8E4M3;
  case DType::F8E4M3FNUZ:
    return kF8E4M3Fnuz;
  case DType::F8E5M2:
    return kF8E5M2;
  case DType::F8E5M2FNUZ:
    return kF8E5M2Fnuz;
  case DType::F8E8M0:
    return kF8E8M0;
  case DType::F4E2M1:
    return kF4E2M1;
  default:
    TOLK_UNREACHABLE("a float format was asked for a dtype that has none");
  }
}

uint64_t encode_float(const FloatFormat& f, double value) {
  uint64_t bits = std::bit_cast<uint64_t>(value);
  bool negative = bits >> 63 != 0;
  uint64_t sign = negative ? f.sign_bit() : 0;
  uint64_t fraction = bits & kDoubleFraction;
  int field = static_cast<int>(bits >> 52 & 0x7ff);
  if (field == 0x7ff) return fraction ? nan_code(f, sign, fraction) : infinity_code(f, sign);
  if (!f.has_sign && negative && (field | fraction) != 0) return nan_code(f, 0, 0);
  // A zero field is zero or a double subnormal, which is less than half the smallest step of every format.
  uint64_t code = field == 0 ? 0 : round_magnitude(f, field - kDoubleBias, fraction | uint64_t{1} << 52);
  if (code > f.max_code) code = f.saturates ? f.max_code : f.max_code + 1;
  if (code == 0 && f.specials == Specials::NanMinusZero) return 0;
  return sign | code;
}

double decode_float(const FloatFormat& f, uint64_t code) {
  uint64_t sign_bit = f.sign_bit();
  uint64_t magnitude_mask = f.has_sign ? sign_bit - 1 : (uint64_t{1} << f.width) - 1;
  uint64_t magnitude = code & magnitude_mask;
  uint64_t sign = (code & sign_bit) ? uint64_t{1} << 63 : 0;
  uint64_t fraction = magnitude & ((uint64_t{1} << f.mantissa) - 1);
  constexpr uint64_t infinity = uint64_t{0x7ff} << 52;
  constexpr uint64_t quiet = uint64_t{1} << 51;
  if (f.specials == Specials::NanMinusZero && magnitude == 0 && sign) return from_bits(infinity | quiet);
  if (magnitude > f.max_code) {
    if (f.specials == Specials::Ieee && fraction == 0) return from_bits(sign | infinity);
    uint64_t payload = f.specials == Specials::Ieee ? fraction << (52 - f.mantissa) : 0;
    return from_bits(sign | infinity | quiet | payload);
  }
  int field = static_cast<int>(magnitude >> f.mantissa);
  if (f.has_subnormals && field == 0) {
    // Both factors and the product are normal doubles, so the product is exact.
    int step = f.min_exponent() - f.mantissa;
    double scale = from_bits(static_cast<uint64_t>(step + kDoubleBias) << 52);
    double size = static_cast<double>(fraction) * scale;
    return sign ? -size : size;
  }
  uint64_t exponent = static_cast<uint64_t>(field) + static_cast<uint64_t>(kDoubleBias - f.bias);
  return from_bits(sign | exponent << 52 | fraction << (52 - f.mantissa));
}

} // namespace tolk
