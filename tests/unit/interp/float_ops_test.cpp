// Operations on floats. Sums, products, quotients and roots of any of these types are exact in 113 bits or
// cannot come near enough to a tie, so rounding the 113-bit result gives the only right answer.
#include <cmath>
#include <limits>

#include <tolk/plugin/target.h>

#include "bulk.h"
#include "float_functions.h"

using namespace tolk;
using namespace tolk::test;

namespace {

auto same_as(DType dtype) {
  return [dtype](uint64_t a, uint64_t b) { return same_float(dtype, a, b); };
}
constexpr auto equal = [](uint64_t a, uint64_t b) { return a == b; };

uint64_t f32(float value) { return std::bit_cast<uint32_t>(value); }
uint64_t f64(double value) { return std::bit_cast<uint64_t>(value); }

uint64_t one(uint16_t opcode, DType dtype, std::vector<uint64_t> raw) {
  std::vector<Argument> arguments;
  for (uint64_t r : raw) arguments.push_back({dtype, {r}});
  return apply(opcode, dtype, arguments)[0];
}

// Square root in 113 bits: two Newton steps from the long double root.
Quad quad_sqrt(Quad value) {
  if (is_nan(value) || value < 0) return quad_nan();
  if (value == 0 || value == quad_infinity()) return value;
  Quad scale = 1;
  while (value < 1e-300) value *= 4, scale /= 2;
  while (value > 1e300) value /= 4, scale *= 2;
  Quad root = std::sqrt(static_cast<long double>(value));
  for (int i = 0; i < 2; i++) root = (root + value / root) / 2;
  return root * scale;
}

Quad reference(uint16_t opcode, Quad a, Quad b) {
  switch (opcode) {
  case TOLK_IR_ADD:
    return a + b;
  case TOLK_IR_SUB:
    return a - b;
  case TOLK_IR_MUL:
    return a * b;
  case TOLK_IR_FDIV:
    return a / b;
  case TOLK_IR_NEG:
    return -a;
  case TOLK_IR_SQRT:
    return quad_sqrt(a);
  case TOLK_IR_MAX:
    return is_nan(a) || is_nan(b) ? quad_nan() : a < b ? b : a;
  case TOLK_IR_TRUNC: {
    if (is_nan(a) || a > 1e20 || a < -1e20) return a;
    Quad whole = static_cast<Quad>(static_cast<Int>(a));
    return whole == 0 ? a * 0 : whole; // keeps the sign
  }
  default:
    throw std::logic_error("no reference");
  }
}

// a * b + c so that rounding it to at most 24 bits gives the right result: products have 48 bits at most, and
// a part below 2^-60 of the other only says on which side of a tie the sum lies, which any such part does.
Quad multiply_add(Quad a, Quad b, Quad c) {
  auto size = [](Quad x) { return x < 0 ? -x : x; };
  Quad product = a * b;
  if (is_nan(product) || is_nan(c) || product == 0 || c == 0) return product + c;
  if (size(product) == quad_infinity() || size(c) == quad_infinity()) return product + c;
  Quad tiny = 0x1p-60;
  if (size(c) < size(product) * tiny) c = size(product) * tiny * (c < 0 ? -1 : 1);
  if (size(product) < size(c) * tiny) product = size(c) * tiny * (product < 0 ? -1 : 1);
  return product + c;
}

std::vector<uint64_t> joined(std::vector<uint64_t> a, const std::vector<uint64_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

} // namespace

BOOST_AUTO_TEST_SUITE(float_ops)

BOOST_AUTO_TEST_CASE(arithmetic_of_every_float_type_is_rounded_once) {
  for (DType dtype : float_dtypes()) {
    std::vector<uint64_t> a = interesting(dtype), b = a;
    cross(a, b);
    a = joined(a, random_raw(dtype, 2000, 1));
    b = joined(b, random_raw(dtype, 2000, 2));
    for (uint16_t opcode : {TOLK_IR_ADD, TOLK_IR_SUB, TOLK_IR_MUL, TOLK_IR_FDIV, TOLK_IR_MAX}) {
      for (size_t lanes : {1, 4}) {
        if (lanes > 1 && bits(dtype) <= 8) continue; // a long list; vectors differ only in the loop
        pad(a, lanes), pad(b, lanes);
        std::vector<Argument> arguments = {{dtype, a}, {dtype, b}};
        auto got = apply(opcode, dtype, arguments, static_cast<uint16_t>(lanes));
        auto want = [&](size_t i) {
          return float_raw(dtype, reference(opcode, float_value(dtype, a[i]), float_value(dtype, b[i])));
        };
        // Which zero a maximum of two zeros is, is free.
        auto same = [&](uint64_t x, uint64_t y) {
          return same_float(dtype, x, y) ||
                 (opcode == TOLK_IR_MAX && float_value(dtype, x) == 0 && float_value(dtype, y) == 0);
        };
        check_all(ir_op_name(opcode), dtype, got, arguments, want, same);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(negation_root_and_truncation_of_every_float_type) {
  for (DType dtype : float_dtypes()) {
    std::vector<uint64_t> a = joined(interesting(dtype), random_raw(dtype, 2000, 3));
    if (bits(dtype) == 16)
      for (uint64_t raw = 0; raw < 65536; raw++) a.push_back(raw);
    for (uint16_t opcode : {TOLK_IR_NEG, TOLK_IR_SQRT, TOLK_IR_TRUNC}) {
      std::vector<Argument> arguments = {{dtype, a}};
      check_all(
          ir_op_name(opcode), dtype, apply(opcode, dtype, arguments), arguments,
          [&](size_t i) { return float_raw(dtype, reference(opcode, float_value(dtype, a[i]), 0)); },
          same_as(dtype));
    }
  }
}

BOOST_AUTO_TEST_CASE(comparisons_of_every_float_type) {
  for (DType dtype : float_dtypes()) {
    std::vector<uint64_t> a = interesting(dtype), b = a;
    cross(a, b);
    for (uint16_t opcode : {TOLK_IR_CMPLT, TOLK_IR_CMPEQ, TOLK_IR_CMPNE}) {
      std::vector<Argument> arguments = {{dtype, a}, {dtype, b}};
      check_all(
          ir_op_name(opcode), dtype, apply(opcode, DType::BOOL, arguments), arguments,
          [&](size_t i) -> uint64_t {
            Quad x = float_value(dtype, a[i]), y = float_value(dtype, b[i]);
            if (is_nan(x) || is_nan(y)) return opcode == TOLK_IR_CMPNE;
            return opcode == TOLK_IR_CMPLT ? x < y : opcode == TOLK_IR_CMPEQ ? x == y : x != y;
          },
          equal);
    }
  }
}

BOOST_AUTO_TEST_CASE(multiply_add_rounds_once) {
  for (DType dtype : float_dtypes()) {
    std::vector<Argument> arguments;
    for (uint64_t seed : {11, 12, 13}) arguments.push_back({dtype, random_raw(dtype, 4000, seed)});
    if (bits(dtype) > 8) // close to each other, so that digits meet
      for (size_t i = 0; i < 2000; i++)
        for (Argument& argument : arguments)
          argument.values[i] = float_raw(dtype, 1 + static_cast<Quad>(argument.values[i] & 4095) / 4096);
    auto value = [&](size_t k, size_t i) { return float_value(dtype, arguments[k].values[i]); };
    if (dtype == DType::F64) continue; // needs more than 113 bits; see the cases below
    check_all(
        "MULACC", dtype, apply(TOLK_IR_MULACC, dtype, arguments), arguments,
        [&](size_t i) { return float_raw(dtype, multiply_add(value(0, i), value(1, i), value(2, i))); },
        same_as(dtype));
  }
  // (1 + 2^-30)^2 - 1 keeps 2^-60, which a rounded product loses.
  BOOST_TEST(one(TOLK_IR_MULACC, DType::F64, {f64(1 + 0x1p-30), f64(1 + 0x1p-30), f64(-1)}) ==
             f64(0x1p-29 + 0x1p-60));
  BOOST_TEST(one(TOLK_IR_MULACC, DType::F32, {f32(1 + 0x1p-12f), f32(1 + 0x1p-12f), f32(-1)}) ==
             f32(0x1p-11f + 0x1p-24f));
  BOOST_TEST(one(TOLK_IR_MULACC, DType::F32, {f32(3e38f), f32(2), f32(-3e38f)}) == f32(3e38f));
}

BOOST_AUTO_TEST_CASE(multiply_add_of_narrow_floats_survives_ties_that_double_hides) {
  auto bf16 = [](Quad value) { return float_raw(DType::BF16, value); };
  // 1.5 * (1 + 2^-7) lies between two bf16 numbers; a term far below what double can hold must decide.
  uint64_t a = bf16(1.5), b = bf16(1 + 0x1p-7);
  BOOST_TEST(one(TOLK_IR_MULACC, DType::BF16, {a, b, bf16(-0x1p-100)}) == bf16(1.5 + 0x1p-7));
  BOOST_TEST(one(TOLK_IR_MULACC, DType::BF16, {a, b, bf16(0)}) == bf16(1.5 + 0x1p-6));
  BOOST_TEST(one(TOLK_IR_MULACC, DType::BF16, {a, b, bf16(0x1p-100)}) == bf16(1.5 + 0x1p-6));
  uint64_t c = bf16(1 + 0x3p-7);
  BOOST_TEST(one(TOLK_IR_MULACC, DType::BF16, {a, c, bf16(0)}) == bf16(1.5 + 0x4p-7));
  BOOST_TEST(one(TOLK_IR_MULACC, DType::BF16, {a, c, bf16(0x1p-100)}) == bf16(1.5 + 0x5p-7));
  uint64_t minus = bf16(-1.5);
  BOOST_TEST(one(TOLK_IR_MULACC, DType::BF16, {minus, c, bf16(-0x1p-100)}) == bf16(-1.5 - 0x5p-7));
}

BOOST_AUTO_TEST_CASE(elementwise_product_and_sum_are_not_fused) {
  KernelIR k = kernel("param buffer f32 rw 3\n"
                      "%0 = PARAM f32 [0]\n%1 = CONST i32 0\n%2 = CONST i32 1\n%3 = CONST i32 2\n"
                      "%4 = LOAD f32 %0 %1\n%5 = LOAD f32 %0 %2\n"
                      "%6 = MUL f32 %4 %4\n%7 = ADD f32 %6 %5\n%8 = STORE f32 %0 %3 %7\n");
  std::vector<Bytes> buffers = {bytes_of<float>({1 + 0x1p-12f, -1, 0})};
  run(k, buffers);
  BOOST_TEST(values_of<float>(buffers[0])[2] == 0x1p-11f);
}

BOOST_AUTO_TEST_CASE(functions_are_within_their_bounds) {
  for (DType dtype : {DType::F32, DType::F64, DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2}) {
    std::vector<uint64_t> a = joined(interesting(dtype), random_raw(dtype, 5000, 21));
    for (int i = -4000; i < 4000; i++) a.push_back(float_raw(dtype, static_cast<Quad>(i) * 0.0273L));
    // SQRT, TRUNC and MULACC are exact, and have tests of their own.
    const uint64_t inexact =
        TOLK_FEATURE_ALL & ~(TOLK_FEATURE_SQRT | TOLK_FEATURE_TRUNC | TOLK_FEATURE_MULACC);
    for (uint16_t opcode = 0; opcode < 64; opcode++) {
      if (!(inexact >> opcode & 1)) continue;
      auto got = apply(opcode, dtype, {{dtype, a}});
      size_t wrong = 0, first = 0;
      for (size_t i = 0; i < a.size(); i++) {
        auto x = static_cast<long double>(float_value(dtype, a[i]));
        Quad exact = float_function(ir_op_name(opcode), x).value();
        bool power = opcode == TOLK_IR_EXP || opcode == TOLK_IR_EXP2;
        if (power && std::isfinite(x) && exact == quad_infinity())
          exact = std::numeric_limits<long double>::max();
        bool ok = same_float(dtype, got[i], float_raw(dtype, exact));
        if (!ok && dtype == DType::F64) // libm: within one unit in the last place
          ok = float_raw(dtype, exact) - got[i] == 1 || got[i] - float_raw(dtype, exact) == 1;
        if (!ok && wrong++ == 0) first = i;
      }
      BOOST_TEST(wrong == 0u, ir_op_name(opcode) << " " << name(dtype) << ": " << wrong << " wrong, first at "
                                                 << static_cast<double>(float_value(dtype, a[first])));
    }
  }
}

BOOST_AUTO_TEST_CASE(special_values_of_functions) {
  const float inf = std::numeric_limits<float>::infinity();
  auto at = [](uint16_t opcode, float x) {
    return std::bit_cast<float>(static_cast<uint32_t>(one(opcode, DType::F32, {f32(x)})));
  };
  BOOST_TEST(at(TOLK_IR_EXP, 88.8f) == inf);
  BOOST_TEST(f32(at(TOLK_IR_EXP, -103.0f)) == 1u);
  BOOST_TEST(f32(at(TOLK_IR_EXP, -104.0f)) == 0u);
  BOOST_TEST(at(TOLK_IR_EXP, -inf) == 0);
  BOOST_TEST(at(TOLK_IR_LOG, 0.0f) == -inf);
  BOOST_TEST(at(TOLK_IR_LOG, -0.0f) == -inf);
  BOOST_TEST(std::isnan(at(TOLK_IR_LOG, -1.0f)));
  BOOST_TEST(std::isnan(at(TOLK_IR_SIN, inf)));
  BOOST_TEST(std::isnan(at(TOLK_IR_COS, -inf)));
  BOOST_TEST(at(TOLK_IR_COS, 0.0f) == 1);
  BOOST_TEST(f32(at(TOLK_IR_SIN, -0.0f)) == 0x80000000u);
  BOOST_TEST(at(TOLK_IR_SIN, 3.4e38f) == static_cast<float>(std::sin(static_cast<double>(3.4e38f))));
  BOOST_TEST(std::isnan(at(TOLK_IR_SQRT, -1.0f)));
  BOOST_TEST(f32(at(TOLK_IR_SQRT, -0.0f)) == 0x80000000u);
  BOOST_TEST(f32(at(TOLK_IR_TRUNC, -0.5f)) == 0x80000000u);
  BOOST_TEST(at(TOLK_IR_EXP2, -149.0f) == 0x1p-149f); // a subnormal result is kept
  BOOST_TEST(at(TOLK_IR_LOG2, 0x1p-149f) == -149);
  BOOST_TEST(at(TOLK_IR_NEG, 1e-40f) == -1e-40f);
}

BOOST_AUTO_TEST_SUITE_END()
