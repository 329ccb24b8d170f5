// Arithmetic on constants of a dtype: rounding, wrapping, conversion and bits. Integers and bools are 128-bit
// integers, so that index arithmetic and u64 both fit; floats are doubles that are rounded to their dtype.
#pragma once

#include <cstdint>
#include <string>

#include "tolk/base/api.h"
#include "tolk/dtype/dtype.h"

namespace tolk {

// Rounds to the dtype (once, to nearest even; f8 saturates as OCP specifies) and returns the value as
// double.
TOLK_API double round_to(DType dtype, double value);
// Wraps modulo 2^bits into the range of an integer dtype; bool is != 0; Index is unchanged.
TOLK_API __int128 wrap_to(DType dtype, __int128 value);
// Converts as CAST does: float to int truncates and saturates with NaN to 0.
TOLK_API __int128 float_to_int(DType dtype, double value);
// Smallest and largest value of an integer dtype or bool; Index is +-2^62.
TOLK_API __int128 int_min(DType dtype);
TOLK_API __int128 int_max(DType dtype);

// Bits of a value as stored in memory (low bits of the word), and back. Any storable dtype: integers convert as
// CAST does, and those beyond 2^53 lose low bits in the double.
TOLK_API uint64_t float_to_bits(DType dtype, double value);
TOLK_API double float_from_bits(DType dtype, uint64_t bits);

} // namespace tolk
