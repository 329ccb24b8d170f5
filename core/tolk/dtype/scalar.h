// A constant of some dtype. Integers and bools are held as 128-bit integers so that index arithmetic and u64
// both fit; floats as double, except that every value is already rounded to its dtype.
#pragma once

#include <cstdint>
#include <string>

#include "tolk/base/api.h"
#include "tolk/dtype/dtype.h"

namespace tolk {

// Rounds to the dtype (one rounding, to nearest even; OCP saturation for f8), and gives the value back as
// double.
TOLK_API double round_to(DType dtype, double value);
// Wraps modulo 2^bits into the range of an integer dtype; bool is != 0; Index is left alone.
TOLK_API __int128 wrap_to(DType dtype, __int128 value);
// Converts as CAST does: float to int truncates and saturates with NaN to 0.
TOLK_API __int128 float_to_int(DType dtype, double value);
// Smallest and largest value of an integer dtype or bool; Index is +-2^62.
TOLK_API __int128 int_min(DType dtype);
TOLK_API __int128 int_max(DType dtype);

// Raw bits of a value in memory form (low bits of the word), and back. Any storable dtype: integers convert
// as CAST does, and those beyond 2^53 lose low bits on the way through double.
TOLK_API uint64_t float_to_bits(DType dtype, double value);
TOLK_API double float_from_bits(DType dtype, uint64_t bits);

} // namespace tolk
