#include "tolk/render/emit/casts.h"

#include <cmath>

#include "tolk/base/check.h"
#include "tolk/dtype/narrow_float.h"
#include "tolk/dtype/scalar.h"

namespace tolk::emit {
namespace {

constexpr uint64_t kF32Infinity = 0x7f800000;
constexpr uint64_t kF32Magnitude = 0x7fffffff;

// Of f16 and the f8 kinds.
Value code_to_f32(Emitter& e, const FloatFormat& f, Value code) {
  Value bits = e.convert("zext", code, Kind::I32);
  if (!f.has_sign) { // f8e8m0: the exponent field itself, except at both ends
    Value normal = e.binary("shl", bits, 23);
    Value low = e.select(e.icmp("eq", bits, 0), 0x00400000, normal);
    return e.bitcast(e.select(e.icmp("eq", bits, 0xff), 0x7fc00000, low), Kind::F32);
  }
  Value magnitude = e.binary("and", bits, f.sign_bit() - 1);
  Value sign = e.binary("shl", e.binary("and", bits, f.sign_bit()), static_cast<uint64_t>(32 - f.width));
  Value wide = e.binary("add", e.binary("shl", magnitude, 23 - f.mantissa), uint64_t(127 - f.bias) << 23);
  // Below the smallest normal code the value is the code times the smallest step, an exact product.
  Value step = float_constant(magnitude.type.with(Kind::F32), std::ldexp(1.0, 1 - f.bias - f.mantissa));
  Value small = e.binary("fmul", e.convert("uitofp", magnitude, Kind::F32), step);
  Value is_small = e.icmp("ult", magnitude, uint64_t{1} << f.mantissa);
  Value result = e.select(is_small, e.bitcast(small, Kind::I32), wide);
  switch (f.specials) {
  case Specials::Ieee:
    result = e.select(e.icmp("eq", magnitude, f.max_code + 1), kF32Infinity, result);
    result = e.select(e.icmp("ugt", magnitude, f.max_code + 1), 0x7fc00000, result);
    break;
  case Specials::NanAllOnes:
    result = e.select(e.icmp("ugt", magnitude, f.max_code), 0x7fc00000, result);
    break;
  default:
    result = e.select(e.icmp("eq", bits, 0x80), 0x7fc00000, result);
  }
  return e.bitcast(e.binary("or", result, sign), Kind::F32);
}

Value f32_to_f8e8m0(Emitter& e, Value bits) {
  Value magnitude = e.binary("and", bits, kF32Magnitude);
  // Ties go to the even exponent field; below 2^-126 the midpoint is 1.5 * 2^-127 and zero is 2^-127.
  Value odd = e.binary("and", e.binary("lshr", magnitude, 23), 1);
  Value rounded = e.binary("lshr", e.binary("add", e.binary("add", magnitude, 0x3fffff), odd), 23);
  Value tiny = e.icmp("ule", magnitude, 0x00600000);
  Value code = e.select(tiny, 0, rounded);
  code = e.select(e.icmp("ugt", code, 0xfe), 0xfe, code);
  // NaN, infinity and everything below zero; minus zero is zero.
  Value bad = e.binary("or", e.icmp("uge", magnitude, kF32Infinity), e.icmp("ugt", bits, 0x80000000));
  return e.convert("trunc", e.select(bad, 0xff, code), Kind::I8);
}

// To f16 and the f8 kinds.
Value f32_to_code(Emitter& e, const FloatFormat& f, Value value) {
  Value bits = e.bitcast(value, Kind::I32);
  if (!f.has_sign) return f32_to_f8e8m0(e, bits);
  Value magnitude = e.binary("and", bits, kF32Magnitude);
  Value sign = e.binary("and", e.binary("lshr", bits, static_cast<uint64_t>(32 - f.width)), f.sign_bit());
  uint64_t shift = 23 - f.mantissa;
  Value odd = e.binary("and", e.binary("lshr", magnitude, shift), 1);
  Value biased = e.binary("add", magnitude, (uint64_t{1} << (shift - 1)) - 1);
  Value normal = e.binary("lshr", e.binary("add", biased, odd), shift);
  normal = e.binary("sub", normal, uint64_t(127 - f.bias) << f.mantissa);
  // Adding a number whose last bit is the format's smallest step rounds to that step, and the sum's low bits
  // count steps.
  Type f32 = magnitude.type.with(Kind::F32);
  Value magic = float_constant(f32, std::ldexp(1.0, 23 + 1 - f.bias - f.mantissa));
  Value sum = e.binary("fadd", e.bitcast(magnitude, Kind::F32), magic);
  Value small = e.binary("sub", e.bitcast(sum, Kind::I32), e.bitcast(magic, Kind::I32));
  Value is_small = e.icmp("ult", magnitude, uint64_t(127 + 1 - f.bias) << 23);
  Value code = e.select(is_small, small, normal);
  uint64_t largest = f.saturates ? f.max_code : f.max_code + 1; // or infinity
  code = e.select(e.icmp("ugt", code, largest), largest, code);
  if (f.specials == Specials::NanMinusZero) {
    Value negative = e.select(e.icmp("eq", code, 0), 0, e.binary("or", code, sign));
    code = e.select(e.icmp("uge", magnitude, kF32Infinity), 0x80, negative);
  } else {
    if (f.specials == Specials::Ieee)
      code = e.select(e.icmp("eq", magnitude, kF32Infinity), f.max_code + 1, code);
    const char* beyond = f.specials == Specials::Ieee ? "ugt" : "uge";
    Value nan = constant(code.type, f.sign_bit() - 1);
    if (f.width == 16) { // keeps the leading payload, as the conversion instructions do
      Value payload = e.binary("and", e.binary("lshr", magnitude, shift), (uint64_t{1} << f.mantissa) - 1);
      nan = e.binary("or", payload, f.max_code + 1 + (uint64_t{1} << (f.mantissa - 1)));
    }
    code = e.binary("or", e.select(e.icmp(beyond, magnitude, kF32Infinity), nan, code), sign);
  }
  return e.convert("trunc", code, int_kind(f.width));
}

Value f32_to_bf16(Emitter& e, Value value) {
  Value bits = e.bitcast(value, Kind::I32);
  Value odd = e.binary("and", e.binary("lshr", bits, 16), 1);
  Value rounded = e.binary("lshr", e.binary("add", e.binary("add", bits, 0x7fff), odd), 16);
  // A NaN keeps its leading payload; the quiet bit saves one whose payload is all in the low half.
  Value nan = e.binary("or", e.binary("lshr", bits, 16), 0x40);
  return e.convert("trunc", e.select(e.fcmp("uno", value, value), nan, rounded), Kind::I16);
}

// float of kind F32 or F64 to an integer: truncates, saturates, NaN gives 0. The intrinsic is good code for
// scalars, but vectors of it are taken apart, so those are spelled out.
Value float_to_int(Emitter& e, Value value, DType to) {
  bool sign = is_signed(to);
  Kind kind = register_type(to, 1).kind;
  if (Value result = e.saturating_cast(value, to)) return result;
  int width = tolk::bits(to);
  double low = sign ? -std::ldexp(1.0, width - 1) : 0;
  double high = std::ldexp(1.0, sign ? width - 1 : width);
  Kind work = width < 32 ? Kind::I32 : kind;
  Value inside = e.binary("and", e.fcmp("oge", value, low), e.fcmp("olt", value, high));
  Value safe = e.select(inside, value, float_constant(value.type, 0));
  Value result = e.convert(sign || width < 32 ? "fptosi" : "fptoui", safe, work);
  result = e.select(e.fcmp("oge", value, high), static_cast<uint64_t>(int_max(to)), result);
  if (sign) result = e.select(e.fcmp("olt", value, low), static_cast<uint64_t>(int_min(to)), result);
  return e.resize(result, kind, false);
}

// A 64-bit integer as f64 such that a later rounding to at most 24 bits is the rounding of the integer: the
// bits below 2^11 of large values are replaced by "something is there".
Value int64_to_f64_sticky(Emitter& e, Value value, bool sign) {
  Value rest = e.icmp("ne", e.binary("and", value, 0xfff), 0);
  Value sticky = e.binary("and", value, ~uint64_t{0xfff});
  sticky = e.binary("or", sticky, e.binary("shl", e.convert("zext", rest, Kind::I64), 11));
  constexpr uint64_t exact = uint64_t{1} << 53;
  Value is_exact =
      sign ? e.icmp("ult", e.binary("add", value, exact), 2 * exact) : e.icmp("ult", value, exact);
  return e.convert(sign ? "sitofp" : "uitofp", e.select(is_exact, value, sticky), Kind::F64);
}

Value int_to_small_float(Emitter& e, DType from, DType to, Value value) {
  bool sign = is_signed(from);
  const char* op = sign ? "sitofp" : "uitofp";
  // f32 holds the integers up to 2^24, and beyond that f16 and the f8 kinds with a fraction have no finite
  // values left; bf16 and f8e8m0 have.
  bool through_f64 = (to == DType::BF16 || to == DType::F8E8M0) && tolk::bits(from) > 16;
  if (!through_f64) return from_f32(e, to, e.convert(op, value, Kind::F32));
  Value wide = tolk::bits(from) == 64 ? int64_to_f64_sticky(e, value, sign) : e.convert(op, value, Kind::F64);
  return from_f32(e, to, f64_to_odd_f32(e, wide));
}

} // namespace

bool is_small_float(DType dtype) {
  return tolk::is_float(dtype) && (tolk::bits(dtype) == 16 || tolk::bits(dtype) == 8);
}

Value to_f32(Emitter& e, DType from, Value value) {
  if (from == DType::F32) return value;
  if (value.is_constant())
    return constant(value.type.with(Kind::F32), float_to_bits(DType::F32, float_from_bits(from, value.bits)));
  if (from == DType::F16 && e.converts_f16())
    return e.convert("fpext", e.bitcast(value, Kind::F16), Kind::F32);
  if (from == DType::BF16)
    return e.bitcast(e.binary("shl", e.convert("zext", value, Kind::I32), 16), Kind::F32);
  TOLK_CHECK(is_small_float(from), "not a small float");
  return code_to_f32(e, float_format(from), value);
}

Value from_f32(Emitter& e, DType to, Value value) {
  if (to == DType::F32) return value;
  if (to == DType::F16 && e.converts_f16())
    return e.bitcast(e.convert("fptrunc", value, Kind::F16), Kind::I16);
  if (to == DType::BF16) return f32_to_bf16(e, value);
  TOLK_CHECK(is_small_float(to), "not a small float");
  return f32_to_code(e, float_format(to), value);
}

Value f64_to_odd_f32(Emitter& e, Value value) {
  Value nearest = e.convert("fptrunc", value, Kind::F32);
  Value back = e.convert("fpext", nearest, Kind::F64);
  Value bits = e.bitcast(nearest, Kind::I32);
  // Step back to the value truncated toward zero, then set the last bit when anything was cut off. NaN:
  // neither.
  Value beyond = e.fcmp("ogt", e.intrinsic("fabs", {back}), e.intrinsic("fabs", {value}));
  Value truncated = e.binary("sub", bits, e.convert("zext", beyond, Kind::I32));
  Value inexact = e.convert("zext", e.fcmp("one", back, value), Kind::I32);
  return e.bitcast(e.binary("or", truncated, inexact), Kind::F32);
}

Value cast(Emitter& e, DType from, DType to, Value value) {
  if (from == to) return value;
  Kind kind = register_type(to, 1).kind;
  bool small_from = is_small_float(from), small_to = is_small_float(to);
  if (is_bool(to)) {
    if (!tolk::is_float(from)) return e.icmp("ne", value, 0);
    return e.fcmp("une", small_from ? to_f32(e, from, value) : value, 0.0);
  }
  if (is_bool(from)) {
    if (!tolk::is_float(to)) return e.convert("zext", value, kind);
    Type type = value.type.with(kind);
    return e.select(value, constant(type, float_to_bits(to, 1)), constant(type, float_to_bits(to, 0)));
  }
  if (!tolk::is_float(from) && !tolk::is_float(to)) return e.resize(value, kind, is_signed(from));
  if (!tolk::is_float(from)) {
    if (small_to) return int_to_small_float(e, from, to, value);
    return e.convert(is_signed(from) ? "sitofp" : "uitofp", value, kind);
  }
  if (small_from) value = to_f32(e, from, value);
  if (!tolk::is_float(to)) return float_to_int(e, value, to);
  if (value.type.kind == Kind::F64) {
    if (to == DType::F32) return e.convert("fptrunc", value, kind);
    return from_f32(e, to, f64_to_odd_f32(e, value));
  }
  return to == DType::F64 ? e.convert("fpext", value, kind) : from_f32(e, to, value);
}

Value small_float_mulacc(Emitter& e, DType dtype, Value a, Value b, Value c) {
  auto wide = [&](Value v) { return e.convert("fpext", to_f32(e, dtype, v), Kind::F64); };
  // The product is exact in f64. The sum's rounding error, by Knuth's TwoSum, decides on which side the exact
  // sum lies; moving an inexact sum to an odd last bit makes the second rounding the only one that counts.
  Value product = e.binary("fmul", wide(a), wide(b)), addend = wide(c);
  Value sum = e.binary("fadd", product, addend);
  Value part = e.binary("fsub", sum, product);
  Value error = e.binary("fadd", e.binary("fsub", product, e.binary("fsub", sum, part)),
                         e.binary("fsub", addend, part));
  Value bits = e.bitcast(sum, Kind::I64);
  Value inexact = e.fcmp("one", error, 0.0);
  Value even = e.icmp("eq", e.binary("and", bits, 1), 0);
  Value same_sign = e.icmp("eq", e.fcmp("ogt", error, 0.0), e.fcmp("ogt", sum, 0.0));
  Type i64 = bits.type;
  Value step = e.select(same_sign, constant(i64, 1), constant(i64, ~uint64_t{0}));
  Value odd = e.binary("add", bits, e.select(e.binary("and", inexact, even), step, constant(i64, 0)));
  return from_f32(e, dtype, f64_to_odd_f32(e, e.bitcast(odd, Kind::F64)));
}

} // namespace tolk::emit
