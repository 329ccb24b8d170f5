// Folding a constant gives what a device computes.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "random_expr.h"
#include "tolk/base/error.h"
#include "tolk/uop/build.h"
#include "tolk/uop/eval.h"
#include "tolk/uop/symbolic/symbolic.h"

using namespace tolk;
using namespace tolk::testing;

namespace {

const double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

UOp f32(double v) { return constant(DType::F32, v); }
UOp folded(Op op, const UOp& a, const UOp& b) {
  return fold_constants(op, ops::Compare.has(op) ? DType::BOOL : a.dtype(), std::vector<UOp>{a, b});
}
UOp folded(Op op, const UOp& a) { return fold_constants(op, a.dtype(), std::vector<UOp>{a}); }
UOp folded_cast(const UOp& a, DType to) { return fold_constants(Op::CAST, to, std::vector<UOp>{a}); }

template <typename T> T random_bits(std::mt19937_64& engine) {
  uint64_t word = engine();
  T value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

// The processor's own arithmetic in T against folding in `dtype`, on random bit patterns and on special
// values.
template <typename T> void floats_match(DType dtype) {
  std::mt19937_64 engine(test_seed());
  std::vector<T> special = {T(0),
                            T(-0.0),
                            T(1),
                            T(-1),
                            T(0.1),
                            T(0.2),
                            T(kInf),
                            T(-kInf),
                            std::numeric_limits<T>::denorm_min(),
                            std::numeric_limits<T>::max(),
                            std::numeric_limits<T>::min(),
                            T(16777217.0),
                            T(1e-40)};
  auto check = [&](T a, T b) {
    struct Case {
      Op op;
      T value;
    };
    volatile T x = a, y = b; // no folding by the compiler
    for (const Case& c : {Case{Op::ADD, T(x + y)}, Case{Op::SUB, T(x - y)}, Case{Op::MUL, T(x * y)},
                          Case{Op::FDIV, T(x / y)}}) {
      UOp got = folded(c.op, constant(dtype, double(a)), constant(dtype, double(b)));
      BOOST_REQUIRE(got);
      BOOST_REQUIRE_MESSAGE(got == constant(dtype, double(c.value)), name(c.op) << " of " << a << " and " << b
                                                                                << ": " << got.const_float()
                                                                                << " against " << c.value);
    }
    if (!std::isnan(a)) {
      T root = std::sqrt(T(x));
      BOOST_REQUIRE((folded(Op::SQRT, constant(dtype, double(a))) == constant(dtype, double(root))));
    }
  };
  for (T a : special)
    for (T b : special) check(a, b);
  for (int i = 0; i < 20000; ++i) {
    T a = random_bits<T>(engine), b = random_bits<T>(engine);
    if (!std::isnan(a) && !std::isnan(b)) check(a, b);
  }
}

template <typename T> void integers_match(DType dtype) {
  using U = std::make_unsigned_t<T>;
  std::mt19937_64 engine(test_seed() + 1);
  constexpr T low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  std::vector<T> special = {0, 1, T(-1), 2, low, high, T(low + 1), 7, T(-7), 100};
  auto make_const = [&](T v) { return constant(dtype, int64_t(v)); };
  auto check = [&](T a, T b) {
    auto is = [&](Op op, T value) {
      BOOST_REQUIRE_MESSAGE(folded(op, make_const(a), make_const(b)) == make_const(value),
                            name(op) << " " << name(dtype) << " of " << int64_t(a) << " and " << int64_t(b));
    };
    is(Op::ADD, T(U(U(a) + U(b))));
    is(Op::SUB, T(U(U(a) - U(b))));
    is(Op::MUL, T(U(uint64_t(a) * uint64_t(b))));
    is(Op::AND, T(a & b)), is(Op::OR, T(a | b)), is(Op::XOR, T(a ^ b)), is(Op::MAX, std::max(a, b));
    bool overflow = std::is_signed_v<T> && a == low && b == T(-1);
    T quotient = b == 0 ? T(0) : overflow ? low : T(a / b), rest = b == 0 || overflow ? T(0) : T(a % b);
    is(Op::CDIV, quotient), is(Op::CMOD, rest);
    bool below = b != 0 && rest != 0 && (rest < 0) != (b < 0);
    is(Op::FLOORDIV, T(U(U(quotient) - U(below)))), is(Op::FLOORMOD, below ? T(rest + b) : rest);
    BOOST_REQUIRE(folded(Op::CMPLT, make_const(a), make_const(b)).const_int() == (a < b));
    BOOST_REQUIRE(folded(Op::CMPEQ, make_const(a), make_const(b)).const_int() == (a == b));
  };
  for (T a : special)
    for (T b : special) check(a, b);
  for (int i = 0; i < 2000; ++i) check(random_bits<T>(engine), random_bits<T>(engine));
}

} // namespace

BOOST_AUTO_TEST_CASE(float_arithmetic_folds_to_the_processors_bits) {
  floats_match<float>(DType::F32);
  floats_match<double>(DType::F64);
}

BOOST_AUTO_TEST_CASE(integer_arithmetic_wraps_as_the_processors) {
  integers_match<int8_t>(DType::I8), integers_match<uint8_t>(DType::U8);
  integers_match<int16_t>(DType::I16), integers_match<uint16_t>(DType::U16);
  integers_match<int32_t>(DType::I32), integers_match<uint32_t>(DType::U32);
  integers_match<int64_t>(DType::I64), integers_match<uint64_t>(DType::U64);
}

BOOST_AUTO_TEST_CASE(sums_are_folded_in_their_type_and_not_in_double) {
  UOp sum = folded(Op::ADD, f32(0.1), f32(0.2));
  BOOST_TEST(sum.const_float() == double(0.1f + 0.2f));
  BOOST_TEST(sum.const_float() != 0.1 + 0.2);
  // A half rounds after every step: 2048 + 1 stays 2048.
  UOp h = constant(DType::F16, 2048.0);
  BOOST_TEST((folded(Op::ADD, h, constant(DType::F16, 1.0)) == h));
  BOOST_TEST(folded(Op::MUL, constant(DType::F16, 300.0), constant(DType::F16, 300.0)).const_float() == kInf);
}

BOOST_AUTO_TEST_CASE(shifts_by_the_width_or_more) {
  auto c = [](DType d, int64_t v) { return constant(d, v); };
  BOOST_TEST((folded(Op::SHL, c(DType::I32, 1), c(DType::I32, 31)) == c(DType::I32, INT32_MIN)));
  BOOST_TEST((folded(Op::SHL, c(DType::I32, 1), c(DType::I32, 32)) == c(DType::I32, 0)));
  BOOST_TEST((folded(Op::SHR, c(DType::I32, -8), c(DType::I32, 1)) == c(DType::I32, -4)));
  BOOST_TEST((folded(Op::SHR, c(DType::I32, -8), c(DType::I32, 40)) == c(DType::I32, -1)));
  BOOST_TEST((folded(Op::SHR, c(DType::I32, 8), c(DType::I32, 40)) == c(DType::I32, 0)));
  BOOST_TEST((folded(Op::SHR, c(DType::U32, 0x80000000ll), c(DType::U32, 31)) == c(DType::U32, 1)));
  BOOST_TEST((folded(Op::SHR, c(DType::U64, -1), c(DType::U64, 63)) == c(DType::U64, 1)));
  BOOST_TEST((folded(Op::SHR, c(DType::U64, -1), c(DType::U64, 64)) == c(DType::U64, 0)));
}

BOOST_AUTO_TEST_CASE(casts_follow_the_one_rule) {
  auto to_int = [](double v, DType d) { return folded_cast(constant(DType::F64, v), d).const_int(); };
  BOOST_TEST(to_int(1.9, DType::I32) == 1);
  BOOST_TEST(to_int(-1.9, DType::I32) == -1);
  BOOST_TEST(to_int(300, DType::U8) == 255);
  BOOST_TEST(to_int(-1, DType::U8) == 0);
  BOOST_TEST(to_int(3e9, DType::I32) == INT32_MAX);
  BOOST_TEST(to_int(kNan, DType::I32) == 0);
  BOOST_TEST(to_int(-kInf, DType::I64) == INT64_MIN);
  BOOST_TEST(to_int(kNan, DType::BOOL) == 1);
  BOOST_TEST(to_int(1e-8, DType::BOOL) == 1);
  BOOST_TEST(to_int(-0.0, DType::BOOL) == 0);
  BOOST_TEST(folded_cast(constant(DType::I32, 300), DType::U8).const_int() == 44);
  BOOST_TEST(folded_cast(constant(DType::F64, 65520.0), DType::F16).const_float() == kInf);
  BOOST_TEST(folded_cast(constant(DType::F64, 65519.99), DType::F16).const_float() == 65504.0);
  // One rounding from double to half: by way of float this would be 1.
  BOOST_TEST(folded_cast(constant(DType::F64, 1 + std::ldexp(1, -11) + std::ldexp(1, -40)), DType::F16)
                 .const_float() == 1.0009765625);
  std::mt19937_64 engine(test_seed());
  for (int i = 0; i < 20000; ++i) {
    auto v = int64_t(engine()) >> (engine() % 60);
    volatile int64_t x = v;
    BOOST_REQUIRE(int_to_float(DType::F32, v) == double(float(x)));
    BOOST_REQUIRE(int_to_float(DType::F64, v) == double(x));
    volatile uint64_t u = uint64_t(v);
    BOOST_REQUIRE(int_to_float(DType::F32, __int128(uint64_t(v))) == double(float(u)));
    BOOST_REQUIRE(int_to_float(DType::F64, __int128(uint64_t(v))) == double(u));
  }
}

BOOST_AUTO_TEST_CASE(comparisons_with_nan_are_false_but_for_unequal) {
  for (Op op : {Op::CMPLT, Op::CMPEQ}) {
    BOOST_TEST(folded(op, f32(kNan), f32(1)).const_int() == 0);
    BOOST_TEST(folded(op, f32(1), f32(kNan)).const_int() == 0);
  }
  BOOST_TEST(folded(Op::CMPNE, f32(kNan), f32(kNan)).const_int() == 1);
  BOOST_TEST(folded(Op::CMPEQ, f32(0.0), f32(-0.0)).const_int() == 1);
  BOOST_TEST(std::isnan(folded(Op::MAX, f32(kNan), f32(1)).const_float()));
  BOOST_TEST(std::isnan(folded(Op::MAX, f32(1), f32(kNan)).const_float()));
}

BOOST_AUTO_TEST_CASE(what_is_not_certain_is_left_to_the_device) {
  BOOST_TEST(!folded(Op::EXP, f32(0.3)));
  BOOST_TEST(!folded(Op::EXP2, f32(3)));
  BOOST_TEST(!folded(Op::SIN, f32(1)));
  BOOST_TEST(!folded(Op::LOG2, f32(8)));
  BOOST_TEST((folded(Op::EXP, f32(0)) == f32(1)));
  BOOST_TEST((folded(Op::SIN, f32(-0.0)) == f32(-0.0)));
  BOOST_TEST((folded(Op::LOG, f32(1)) == f32(0)));
  BOOST_TEST(!folded(Op::MAX, f32(0.0), f32(-0.0)));
  BOOST_TEST(!folded(Op::ADD, constant(DType::F8E4M3, 1.0), constant(DType::F8E4M3, 1.0)));
  UOp u64 = constant(DType::U64, 5);
  BOOST_TEST(!folded(Op::THREEFRY, u64, u64));
  // A NaN's payload would be lost on the way through a float constant.
  UOp payload = constant(DType::I32, 0x7FC01234);
  BOOST_TEST(!fold_constants(Op::BITCAST, DType::F32, std::vector<UOp>{payload}));
  BOOST_TEST((fold_constants(Op::BITCAST, DType::F32, std::vector<UOp>{constant(DType::I32, 0x3F800000)}) ==
              f32(1)));
  BOOST_TEST((fold_constants(Op::BITCAST, DType::I32, std::vector<UOp>{f32(-0.0)}) ==
              constant(DType::I32, INT32_MIN)));
  // Index is unbounded: beyond 64 bits there is no constant.
  UOp big = index_const(int64_t(1) << 62);
  BOOST_TEST(!folded(Op::MUL, big, big));
  BOOST_TEST(!folded(Op::ADD, index_const(INT64_MAX), index_const(1)));
}

BOOST_AUTO_TEST_CASE(simplify_folds_no_more_than_fold_constants) {
  BOOST_TEST((simplify(alu(Op::ADD, f32(0.1), f32(0.2))) == f32(double(0.1f + 0.2f))));
  UOp e = alu(Op::EXP, f32(0.3));
  BOOST_TEST((simplify(e) == e));
}

BOOST_AUTO_TEST_CASE(vectors_of_one_constant_fold_lane_by_lane) {
  UOp a = constant(DType::F32, 0.5, 4), b = constant(DType::F32, 0.25, 4);
  BOOST_TEST((fold_constants(Op::ADD, DType::F32, std::vector<UOp>{a, b}) == constant(DType::F32, 0.75, 4)));
}

BOOST_AUTO_TEST_CASE(an_unbound_leaf_is_an_error) {
  UOp n = variable("n", 0, 3), m = variable("m", 0, 3);
  Binding one{n, {2, 0}};
  BOOST_TEST(int64_t(evaluate(n * 3 + 1, std::span(&one, 1)).i) == 7);
  BOOST_CHECK_THROW(evaluate(n + m, std::span(&one, 1)), InvalidArgument);
}
