#include "reference.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>

namespace tolk::test {
namespace {

struct Format {
  int exponent_bits, fraction_bits, bias;
  bool infinity;  // the top exponent with fraction 0
  bool saturates; // finite overflow gives the largest value
  uint64_t nan;   // a code that is NaN; 0 when there is none
};

Format format_of(DType dtype) {
  switch (dtype) {
  case DType::F16:
    return {5, 10, 15, true, false, 0x7e00};
  case DType::BF16:
    return {8, 7, 127, true, false, 0x7fc0};
  case DType::F8E4M3:
    return {4, 3, 7, false, true, 0x7f};
  case DType::F8E4M3FNUZ:
    return {4, 3, 8, false, true, 0x80};
  case DType::F8E5M2:
    return {5, 2, 15, true, true, 0x7f};
  case DType::F8E5M2FNUZ:
    return {5, 2, 16, false, true, 0x80};
  case DType::F4E2M1:
    return {2, 1, 1, false, true, 0};
  default:
    throw std::logic_error("no narrow format");
  }
}

Quad scaled(Quad value, int exponent) {
  for (; exponent > 0; exponent--) value *= 2;
  for (; exponent < 0; exponent++) value /= 2;
  return value;
}

Quad narrow_value(DType dtype, uint64_t raw) {
  if (dtype == DType::F8E8M0) return raw == 255 ? quad_nan() : scaled(1, static_cast<int>(raw) - 127);
  Format f = format_of(dtype);
  uint64_t sign = raw >> (f.exponent_bits + f.fraction_bits) & 1;
  uint64_t field = raw >> f.fraction_bits & ((uint64_t{1} << f.exponent_bits) - 1);
  uint64_t fraction = raw & ((uint64_t{1} << f.fraction_bits) - 1);
  bool top = field == (uint64_t{1} << f.exponent_bits) - 1;
  bool fnuz = f.nan == 0x80;
  if (f.infinity && top) return fraction ? quad_nan() : sign ? -quad_infinity() : quad_infinity();
  if (fnuz && raw == 0x80) return quad_nan();
  if (dtype == DType::F8E4M3 && (raw & 0x7f) == 0x7f) return quad_nan();
  Quad significand = static_cast<Quad>(fraction);
  if (field != 0) significand += scaled(1, f.fraction_bits);
  Quad value = scaled(significand, static_cast<int>(std::max<uint64_t>(field, 1)) - f.bias - f.fraction_bits);
  return sign ? -value : value;
}

// The finite values that are not negative, in order; the code of entry i is i for every format.
const std::vector<Quad>& ladder(DType dtype) {
  static std::map<DType, std::vector<Quad>> all;
  std::vector<Quad>& values = all[dtype];
  if (values.empty()) {
    for (uint64_t code = 0; code < uint64_t{1} << bits(dtype); code++) {
      Quad value = narrow_value(dtype, code);
      if (is_nan(value) || value == quad_infinity() || (!values.empty() && value <= values.back())) break;
      values.push_back(value);
    }
  }
  return values;
}

template <class T> Quad wide_value(uint64_t raw) {
  T value;
  std::memcpy(&value, &raw, sizeof value);
  return static_cast<Quad>(value);
}

template <class T> uint64_t wide_raw(Quad value) {
  T rounded = static_cast<T>(value);
  uint64_t raw = 0;
  std::memcpy(&raw, &rounded, sizeof rounded);
  return raw;
}

bool sign_of(Quad value) {
  unsigned char bytes[16];
  std::memcpy(bytes, &value, 16);
  return bytes[15] >> 7 != 0;
}

} // namespace

Quad quad_nan() { return static_cast<Quad>(__builtin_nan("")); }
Quad quad_infinity() { return static_cast<Quad>(__builtin_inf()); }
bool is_nan(Quad value) { return value != value; }

Int int_value(DType dtype, uint64_t raw) {
  Int modulus = Int{1} << bits(dtype);
  Int value = static_cast<Int>(raw) % modulus;
  if (is_signed(dtype) && value >= modulus / 2) value -= modulus;
  return value;
}

uint64_t int_raw(DType dtype, Int value) {
  if (is_bool(dtype)) return value != 0;
  Int modulus = Int{1} << bits(dtype);
  value %= modulus;
  if (value < 0) value += modulus;
  return static_cast<uint64_t>(value);
}

Int lowest(DType dtype) { return is_signed(dtype) ? -(Int{1} << (bits(dtype) - 1)) : 0; }

Int highest(DType dtype) {
  if (is_bool(dtype)) return 1;
  return (Int{1} << (bits(dtype) - (is_signed(dtype) ? 1 : 0))) - 1;
}

Quad float_value(DType dtype, uint64_t raw) {
  if (dtype == DType::F32) return wide_value<float>(raw);
  if (dtype == DType::F64) return wide_value<double>(raw);
  return narrow_value(dtype, raw);
}

uint64_t float_raw(DType dtype, Quad value) {
  if (dtype == DType::F32) return wide_raw<float>(value);
  if (dtype == DType::F64) return wide_raw<double>(value);
  if (dtype == DType::F8E8M0) {
    if (is_nan(value) || value < 0 || value == quad_infinity()) return 255;
  }
  uint64_t nan = dtype == DType::F8E8M0 ? 255 : format_of(dtype).nan;
  bool fnuz = nan == 0x80;
  if (is_nan(value)) return dtype == DType::F4E2M1 ? 7 : nan;
  uint64_t sign = dtype != DType::F8E8M0 && sign_of(value) ? uint64_t{1} << (bits(dtype) - 1) : 0;
  Quad size = value < 0 ? -value : value;
  const std::vector<Quad>& steps = ladder(dtype);
  uint64_t largest = steps.size() - 1;
  bool infinite = dtype != DType::F8E8M0 && format_of(dtype).infinity;
  bool saturates = dtype == DType::F8E8M0 || format_of(dtype).saturates;
  if (size == quad_infinity()) {
    if (infinite) return sign | (largest + 1);
    return dtype == DType::F4E2M1 ? sign | 7 : nan;
  }
  uint64_t code;
  if (size >= steps[largest]) {
    // As if the ladder had one step more.
    Quad next = steps[largest] + (steps[largest] - steps[largest - 1]);
    Quad down = size - steps[largest], up = next - size;
    bool beyond = up < down || (up == down && largest % 2 != 0);
    code = beyond && !saturates ? largest + 1 : largest;
  } else {
    auto above = std::upper_bound(steps.begin(), steps.end(), size);
    code = above == steps.begin() ? 0 : static_cast<uint64_t>(above - steps.begin()) - 1;
    if (above != steps.begin() && above != steps.end()) {
      Quad down = size - steps[code], up = steps[code + 1] - size;
      if (up < down || (up == down && code % 2 != 0)) code++;
    }
  }
  if (fnuz && code == 0) sign = 0;
  return sign | code;
}

bool same_float(DType dtype, uint64_t a, uint64_t b) {
  return a == b || (is_nan(float_value(dtype, a)) && is_nan(float_value(dtype, b)));
}

Int truncated(DType dtype, Quad value) {
  if (is_bool(dtype)) return value != 0;
  if (is_nan(value)) return 0;
  if (value <= static_cast<Quad>(lowest(dtype))) return lowest(dtype);
  if (value >= static_cast<Quad>(highest(dtype))) return highest(dtype);
  return static_cast<Int>(value);
}

std::vector<uint64_t> interesting(DType dtype) {
  std::vector<uint64_t> values;
  int width = bits(dtype);
  if (is_bool(dtype)) return {0, 1};
  if (width <= 8) {
    for (uint64_t code = 0; code < uint64_t{1} << width; code++) values.push_back(code);
    return values;
  }
  if (is_float(dtype)) {
    static const double numbers[] = {
        0,      1,     -1,     0.5,     1.5,          -2.5,          3,       1e-3,
        -7.25,  88.8,  -104,   1e-40,   -1e-40,       3.4e38,        -3.4e38, 65504,
        65520,  1e-8,  255.5,  -128.75, 2147483647.0, -2147483648.0, 4e9,     9.3e18,
        1.9e19, 1e300, 5e-324, 0x1p-24, 0x1p-25,      0x1p-133,      0x1p-14, 0x1.ffcp15};
    for (double number : numbers) values.push_back(float_raw(dtype, number));
    uint64_t sign = uint64_t{1} << (width - 1);
    values.push_back(sign); // -0
    values.push_back(float_raw(dtype, quad_infinity()));
    values.push_back(float_raw(dtype, -quad_infinity()));
    values.push_back(float_raw(dtype, quad_nan()));
    values.push_back(float_raw(dtype, quad_infinity()) + 1); // a NaN with its payload in the last bit
    values.push_back(1);                                     // smallest subnormal
    values.push_back(sign | 1);
    values.push_back(float_raw(dtype, quad_infinity()) - 1); // largest
    return values;
  }
  for (int bit = 0; bit < width; bit++)
    for (Int near : {-1, 0, 1}) {
      values.push_back(int_raw(dtype, (Int{1} << bit) + near));
      values.push_back(int_raw(dtype, -(Int{1} << bit) + near));
    }
  for (Int small : {0, 3, 5, 7, 10, -3, -7, 100}) values.push_back(int_raw(dtype, small));
  return values;
}

std::vector<uint64_t> random_raw(DType dtype, size_t count, uint64_t seed) {
  std::vector<uint64_t> values;
  uint64_t state = seed * 2 + 1;
  for (size_t i = 0; i < count; i++) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17; // xorshift64
    uint64_t raw = state * 0x2545f4914f6cdd1d;
    if (is_bool(dtype))
      raw &= 1;
    else if (bits(dtype) < 64)
      raw >>= 64 - bits(dtype);
    values.push_back(raw);
  }
  return values;
}

std::vector<DType> all_dtypes() {
  std::vector<DType> list;
  for (int code = 0; code < kDTypeCount; code++) list.push_back(static_cast<DType>(code));
  return list;
}

std::vector<DType> float_dtypes() {
  std::vector<DType> list = all_dtypes();
  std::erase_if(list, [](DType d) { return !is_float(d); });
  return list;
}

std::vector<DType> int_dtypes() {
  std::vector<DType> list = all_dtypes();
  std::erase_if(list, [](DType d) { return !is_int(d); });
  return list;
}

} // namespace tolk::test
