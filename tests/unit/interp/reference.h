// What the values and roundings of every dtype are, from the formats' definitions and nothing else: narrow
// floats by listing all their values and searching the nearest, the rest by 128-bit arithmetic.
#pragma once

#include <cstdint>
#include <vector>

#include "tolk/dtype/dtype.h"

namespace tolk::test {

using Int = __int128;
using Quad = __float128;

Quad quad_nan();
Quad quad_infinity();
bool is_nan(Quad value);

// Value of raw bits of an integer or bool, and raw bits of a value modulo 2^width.
Int int_value(DType dtype, uint64_t raw);
uint64_t int_raw(DType dtype, Int value);
Int lowest(DType dtype);
Int highest(DType dtype);

// Value of raw bits of a float, and the nearest float's raw bits: ties to even, overflow and specials as CAST
// says.
Quad float_value(DType dtype, uint64_t raw);
uint64_t float_raw(DType dtype, Quad value);
// Equal bits, or both NaN.
bool same_float(DType dtype, uint64_t a, uint64_t b);

// Float to integer as CAST says.
Int truncated(DType dtype, Quad value);

// Raw values worth trying: limits, small numbers, every power of two and its neighbours; all codes of types
// of 8 bits and less.
std::vector<uint64_t> interesting(DType dtype);
// `count` reproducible raw values, spread over all bit patterns (bool: 0 and 1).
std::vector<uint64_t> random_raw(DType dtype, size_t count, uint64_t seed);

std::vector<DType> all_dtypes();
std::vector<DType> float_dtypes();
std::vector<DType> int_dtypes();

} // namespace tolk::test
