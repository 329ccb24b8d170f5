// Binary floating-point formats as data, and one conversion routine for all of them. It uses integer arithmetic
// on the bits of a double, so the result does not depend on the thread's rounding mode or flush-to-zero flag,
// and every conversion rounds exactly once.
#pragma once

#include <cstdint>

#include "tolk/base/api.h"
#include "tolk/dtype/dtype.h"

namespace tolk {

// What the codes above the largest finite one mean.
enum class Specials : uint8_t {
  Ieee,         // the top exponent holds infinity and NaNs
  NanAllOnes,   // only the all-ones code is NaN (f8e4m3, f8e8m0)
  NanMinusZero, // only the code of minus zero is NaN (fnuz kinds)
  None,         // every code is a finite number (f4e2m1)
};

struct FloatFormat {
  int mantissa;        // stored fraction bits
  int bias;            // value of a normal code: 2^(field - bias) * 1.fraction
  int width;           // bits of a code
  bool has_sign;       // f8e8m0 has none
  bool has_subnormals; // an exponent field of 0 means zero and subnormals; f8e8m0 has neither
  bool saturates;      // finite overflow gives the largest finite value instead of infinity
  Specials specials;
  uint64_t max_code; // code of the largest finite value

  // Exponent of the smallest normal value.
  int min_exponent() const { return has_subnormals ? 1 - bias : -bias; }
  uint64_t sign_bit() const { return has_sign ? uint64_t{1} << (width - 1) : 0; }
};

// The format of a float dtype narrower than 64 bits; InternalError for any other dtype.
TOLK_API const FloatFormat& float_format(DType dtype);

// Rounds to nearest even. Overflow and special values:
//   f16, bf16, f32  beyond the midpoint above the largest value: infinity; NaN keeps its sign and leading payload
//   f8e5m2          finite overflow saturates to 57344, infinity stays
//   f8e4m3          finite overflow saturates to 448, infinity becomes NaN
//   fnuz formats    finite overflow saturates, infinity and NaN become 0x80, minus zero becomes zero
//   f8e8m0          zero becomes 2^-127, overflow 2^127; negative values, infinity and NaN become 0xff
//   f4e2m1          overflow and infinity saturate to 6; NaN becomes 6
TOLK_API uint64_t encode_float(const FloatFormat& format, double value);

// Exact. Bits above the format's width are ignored.
TOLK_API double decode_float(const FloatFormat& format, uint64_t code);

} // namespace tolk
