#include "tolk/dtype/scalar.h"

#include <bit>
#include <cmath>
#include <limits>

#include "tolk/base/check.h"
#include "tolk/dtype/narrow_float.h"

namespace tolk {
namespace {

// The hardware conversion is the same wherever the result is a normal number, and faster.
bool is_normal_f32(double value) {
  double size = std::fabs(value);
  return size >= 0x1p-126 && size <= 0x1.fffffep127;
}

} // namespace

double round_to(DType dtype, double value) {
  if (dtype == DType::F64) return value;
  if (dtype == DType::F32 && is_normal_f32(value)) return static_cast<double>(static_cast<float>(value));
  const FloatFormat& format = float_format(dtype);
  return decode_float(format, encode_float(format, value));
}

__int128 wrap_to(DType dtype, __int128 value) {
  if (dtype == DType::Index) return value;
  if (dtype == DType::BOOL) return value != 0;
  TOLK_CHECK(is_int(dtype), "only integers wrap");
  int shift = 128 - bits(dtype);
  auto high = static_cast<unsigned __int128>(value) << shift;
  if (is_unsigned(dtype)) return static_cast<__int128>(high >> shift);
  return static_cast<__int128>(high) >> shift;
}

__int128 float_to_int(DType dtype, double value) {
  if (dtype == DType::BOOL) return value != 0; // NaN is not zero
  if (std::isnan(value)) return 0;
  __int128 low = int_min(dtype), high = int_max(dtype);
  // The bounds may round up as doubles; a value at or beyond the rounded bound is at or beyond the bound
  // itself.
  if (value >= static_cast<double>(high)) return high;
  if (value <= static_cast<double>(low)) return low;
  return static_cast<__int128>(value);
}

__int128 int_min(DType dtype) {
  if (dtype == DType::Index) return -(__int128{1} << 62);
  TOLK_CHECK(is_int(dtype) || is_bool(dtype), "a dtype without an integer range");
  return is_signed(dtype) ? -(__int128{1} << (bits(dtype) - 1)) : 0;
}

__int128 int_max(DType dtype) {
  if (dtype == DType::Index) return __int128{1} << 62;
  if (dtype == DType::BOOL) return 1;
  TOLK_CHECK(is_int(dtype), "a dtype without an integer range");
  return (__int128{1} << (bits(dtype) - (is_signed(dtype) ? 1 : 0))) - 1;
}

uint64_t float_to_bits(DType dtype, double value) {
  if (dtype == DType::F64) return std::bit_cast<uint64_t>(value);
  if (is_float(dtype)) return encode_float(float_format(dtype), value);
  auto integer = static_cast<uint64_t>(float_to_int(dtype, value));
  return bits(dtype) == 64 ? integer : integer & ((uint64_t{1} << bits(dtype)) - 1);
}

double float_from_bits(DType dtype, uint64_t code) {
  if (dtype == DType::F64) return std::bit_cast<double>(code);
  if (is_float(dtype)) return decode_float(float_format(dtype), code);
  return static_cast<double>(wrap_to(dtype, code));
}

} // namespace tolk
