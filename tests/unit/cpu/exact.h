// The tests' own arithmetic on dtypes: a value is an integer times a power of two, exactly, so that there is
// only one rounding and it is visible. Shares no code with tolk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tolk/dtype/dtype.h"

namespace tolk::test {

using u128 = unsigned __int128;
using i128 = __int128;

struct Exact {
  enum class Kind { Nan, Infinity, Finite } kind = Kind::Finite;
  bool negative = false;
  u128 size = 0; // times 2^exponent
  int exponent = 0;
};

// Raw bits in memory form to the value, and back with one rounding to nearest even (floats) or truncation and
// saturation (integers), as CAST in kernel_ir_ops.def.
Exact decode(DType dtype, uint64_t bits);
uint64_t encode(DType dtype, const Exact& value);
bool is_nan(DType dtype, uint64_t bits);
// Equal bits, or both NaN.
bool same(DType dtype, uint64_t a, uint64_t b);

// Element `index` of an array in memory form.
uint64_t get(DType dtype, const void* data, size_t index);
void set(DType dtype, void* data, size_t index, uint64_t bits);

// Bit patterns worth trying: all of them for 8 and 16 bits; else corners, values around the midpoints between
// neighbours of every narrower format, and random ones. A multiple of 8.
std::vector<uint64_t> interesting(DType dtype);
uint64_t random_bits();
std::string show(DType dtype, uint64_t bits);

} // namespace tolk::test
