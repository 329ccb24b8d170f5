#include "exact.h"

#include <cstring>
#include <sstream>

namespace tolk::test {
namespace {

// exponent bits, fraction bits, bias; what lies above the largest finite code.
struct Format {
  int exponent, fraction, bias;
  enum { Ieee, OneNan, NegativeZeroNan, Scale } kind;
  bool saturates;
};

Format format_of(DType dtype) {
  switch (dtype) {
  case DType::F16:
    return {5, 10, 15, Format::Ieee, false};
  case DType::BF16:
    return {8, 7, 127, Format::Ieee, false};
  case DType::F32:
    return {8, 23, 127, Format::Ieee, false};
  case DType::F64:
    return {11, 52, 1023, Format::Ieee, false};
  case DType::F8E4M3:
    return {4, 3, 7, Format::OneNan, true};
  case DType::F8E4M3FNUZ:
    return {4, 3, 8, Format::NegativeZeroNan, true};
  case DType::F8E5M2:
    return {5, 2, 15, Format::Ieee, true};
  case DType::F8E5M2FNUZ:
    return {5, 2, 16, Format::NegativeZeroNan, true};
  default:
    return {8, 0, 127, Format::Scale, true}; // f8e8m0
  }
}

uint64_t width_mask(DType dtype) {
  return bits(dtype) == 64 ? ~uint64_t{0} : (uint64_t{1} << bits(dtype)) - 1;
}

int bit_length(u128 value) {
  int length = 0;
  while (value) ++length, value >>= 1;
  return length;
}

// value / 2^shift to the nearest integer, ties to even.
u128 shift_right_rounded(u128 value, int shift) {
  if (shift <= 0) return value << -shift;
  if (shift > 127) return 0;
  u128 kept = value >> shift, rest = value & ((u128{1} << shift) - 1), half = u128{1} << (shift - 1);
  return kept + (rest > half || (rest == half && (kept & 1)));
}

// Magnitude code of the largest finite value.
uint64_t largest(const Format& f) {
  uint64_t all = (uint64_t{1} << (f.exponent + f.fraction)) - 1;
  if (f.kind == Format::Ieee) return all - (uint64_t{1} << f.fraction);
  return f.kind == Format::NegativeZeroNan ? all : all - 1;
}

uint64_t encode_float(const Format& f, const Exact& v) {
  uint64_t sign = v.negative && f.kind != Format::Scale ? uint64_t{1} << (f.exponent + f.fraction) : 0;
  bool nan = v.kind == Exact::Kind::Nan || (f.kind == Format::Scale && v.negative && v.size != 0);
  if (v.kind == Exact::Kind::Infinity) {
    if (f.kind == Format::Ieee) return sign | (largest(f) + 1);
    nan = true;
  }
  if (nan) {
    if (f.kind == Format::NegativeZeroNan) return uint64_t{1} << (f.exponent + f.fraction);
    return sign | ((uint64_t{1} << (f.exponent + f.fraction)) - 1);
  }
  uint64_t code = 0;
  if (f.kind == Format::Scale) { // powers of two from 2^-127; ties to the even code
    if (v.size != 0) {
      int top = bit_length(v.size) - 1 + v.exponent; // 2^top <= value < 2^(top+1)
      if (top >= -127) {
        u128 rest = v.size - (u128{1} << (bit_length(v.size) - 1)),
             half = u128{1} << (bit_length(v.size) - 1);
        half >>= 1;
        int64_t c = top + 127;
        bool exactly_one_bit = bit_length(v.size) == 1;
        if (!exactly_one_bit && (rest > half || (rest == half && (c & 1)))) ++c;
        code = static_cast<uint64_t>(c);
      }
    }
  } else if (v.size != 0) {
    int top = bit_length(v.size) - 1 + v.exponent;
    int lowest = 1 - f.bias;                               // exponent of the smallest normal value
    int step = (top < lowest ? lowest : top) - f.fraction; // exponent of the last place
    u128 rounded = shift_right_rounded(v.size, step - v.exponent);
    // `rounded` counts last places; a carry to the next power of two moves into the exponent field by itself.
    code = static_cast<uint64_t>(rounded) + (static_cast<uint64_t>(step + f.fraction - lowest) << f.fraction);
  }
  if (code > largest(f)) code = f.saturates ? largest(f) : largest(f) + 1;
  if (code == 0 && f.kind == Format::NegativeZeroNan) return 0;
  return sign | code;
}

} // namespace

Exact decode(DType dtype, uint64_t bits) {
  bits &= width_mask(dtype);
  Exact v;
  if (!is_float(dtype)) {
    if (is_bool(dtype)) bits = bits != 0;
    bool negative = is_signed(dtype) && (bits >> (tolk::bits(dtype) - 1)) != 0;
    v.negative = negative;
    v.size = negative ? (u128{width_mask(dtype)} + 1 - bits) : u128{bits};
    return v;
  }
  Format f = format_of(dtype);
  if (f.kind == Format::Scale) {
    if (bits == 0xff) v.kind = Exact::Kind::Nan;
    v.size = 1;
    v.exponent = static_cast<int>(bits) - 127;
    return v;
  }
  uint64_t magnitude = bits & ((uint64_t{1} << (f.exponent + f.fraction)) - 1);
  v.negative = bits != magnitude;
  if (f.kind == Format::NegativeZeroNan && v.negative && magnitude == 0) v.kind = Exact::Kind::Nan;
  if (magnitude > largest(f))
    v.kind = f.kind == Format::Ieee && magnitude == largest(f) + 1 ? Exact::Kind::Infinity : Exact::Kind::Nan;
  uint64_t field = magnitude >> f.fraction, fraction = magnitude & ((uint64_t{1} << f.fraction) - 1);
  v.size = field ? fraction | uint64_t{1} << f.fraction : fraction;
  v.exponent = static_cast<int>(field ? field : 1) - f.bias - f.fraction;
  return v;
}

uint64_t encode(DType dtype, const Exact& v) {
  if (is_float(dtype)) return encode_float(format_of(dtype), v);
  if (is_bool(dtype)) return v.kind != Exact::Kind::Finite || v.size != 0;
  if (v.kind == Exact::Kind::Nan) return 0;
  uint64_t mask = width_mask(dtype);
  u128 limit = is_signed(dtype) ? (u128{mask} >> 1) + v.negative : (v.negative ? 0 : u128{mask});
  u128 size = 0;
  if (v.kind == Exact::Kind::Infinity)
    size = limit;
  else if (v.exponent < 0)
    size = v.exponent < -127 ? 0 : v.size >> -v.exponent;
  else if (v.size != 0)
    size = bit_length(v.size) + v.exponent > 100 ? limit : v.size << v.exponent;
  if (size > limit) size = limit;
  return static_cast<uint64_t>(v.negative ? ~size + 1 : size) & mask;
}

bool is_nan(DType dtype, uint64_t bits) {
  return is_float(dtype) && decode(dtype, bits).kind == Exact::Kind::Nan;
}
bool same(DType dtype, uint64_t a, uint64_t b) { return a == b || (is_nan(dtype, a) && is_nan(dtype, b)); }

uint64_t get(DType dtype, const void* data, size_t index) {
  uint64_t value = 0;
  size_t size = static_cast<size_t>(bits(dtype)) / 8;
  std::memcpy(&value, static_cast<const char*>(data) + index * size, size);
  return value;
}

void set(DType dtype, void* data, size_t index, uint64_t value) {
  size_t size = static_cast<size_t>(bits(dtype)) / 8;
  std::memcpy(static_cast<char*>(data) + index * size, &value, size);
}

uint64_t random_bits() {
  static uint64_t state = 42;
  state += 0x9e3779b97f4a7c15;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::vector<uint64_t> interesting(DType dtype) {
  std::vector<uint64_t> result;
  int width = bits(dtype);
  if (is_bool(dtype)) return {0, 1, 0, 1, 1, 0, 0, 1};
  if (width <= 16) {
    for (uint64_t code = 0; code < uint64_t{1} << width; ++code) result.push_back(code);
    return result;
  }
  uint64_t mask = width_mask(dtype), top = uint64_t{1} << (width - 1);
  for (uint64_t code : {uint64_t{0}, uint64_t{1}, top, top - 1, top + 1, mask, mask - 1})
    result.push_back(code);
  if (is_float(dtype)) {
    Format f = format_of(dtype);
    uint64_t infinity = largest(f) + 1;
    for (uint64_t code : {infinity, infinity - 1, infinity + 1, infinity | top, infinity | infinity >> 1,
                          (uint64_t{1} << f.fraction), (uint64_t{1} << f.fraction) - 1})
      result.push_back(code);
    // Around the midpoints between neighbouring codes of narrower formats, and around integers.
    for (DType narrow : {DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2, DType::F8E4M3FNUZ,
                         DType::F8E5M2FNUZ, DType::F8E8M0, DType::F32}) {
      if (bits(narrow) >= width) continue;
      for (int i = 0; i < 3000; ++i) {
        uint64_t code = random_bits() & width_mask(narrow);
        Exact v = decode(narrow, code);
        if (v.kind != Exact::Kind::Finite) continue;
        v.size = v.size * 2 + 1; // the midpoint to the next larger magnitude
        v.exponent -= 1;
        if (narrow == DType::F8E8M0) v.size = 3, v.exponent = static_cast<int>(code) - 128;
        uint64_t middle = encode(dtype, v);
        for (uint64_t offset : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}})
          result.push_back((middle + offset) & mask);
      }
    }
    for (int i = 0; i < 300; ++i) {
      Exact v;
      v.size = random_bits() >> (i % 64);
      v.negative = i & 1;
      v.exponent = -(i % 3);
      result.push_back(encode(dtype, v));
    }
  } else {
    for (int i = 0; i < 4000; ++i) { // values near midpoints of formats with few bits
      uint64_t head = (random_bits() >> 52 | 1) << (random_bits() % 52);
      for (uint64_t offset : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}})
        result.push_back((head + offset) & mask);
    }
  }
  for (int i = 0; i < 4000; ++i) result.push_back(random_bits() & mask);
  for (int i = 0; i < 2000; ++i) result.push_back((random_bits() & mask) >> (random_bits() % width));
  while (result.size() % 8) result.push_back(0);
  return result;
}

std::string show(DType dtype, uint64_t bits) {
  std::ostringstream text;
  Exact v = decode(dtype, bits);
  text << name(dtype) << " 0x" << std::hex << bits << std::dec << " (" << (v.negative ? "-" : "");
  if (v.kind == Exact::Kind::Nan)
    text << "nan";
  else if (v.kind == Exact::Kind::Infinity)
    text << "inf";
  else
    text << static_cast<uint64_t>(v.size) << "*2^" << v.exponent;
  text << ")";
  return text.str();
}

} // namespace tolk::test
