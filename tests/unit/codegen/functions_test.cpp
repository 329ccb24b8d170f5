// Accuracy of the decomposed float functions, run on the interpreter by a target that has none of them,
// against the C library in a wider type. Bounds are those of the numerics chapter, in units in the last
// place.
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include <boost/test/unit_test.hpp>
#include <tolk/plugin/target.h>

#include "harness.h"
#include "samples.h"
#include "tolk/dtype/scalar.h"

using namespace tolk_test;
using namespace tolk;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// With and without a fused multiply-add: what a CPU has, and what nobody lacks.
codegen::Target target_with(bool fused) {
  codegen::Target t = bare_target();
  if (fused) t.features = TOLK_FEATURE_MULACC;
  return t;
}

std::vector<double> compute(Op op, DType dtype, const std::vector<double>& inputs, bool fused) {
  std::vector<Data> buffers(2);
  buffers[0].dtype = buffers[1].dtype = dtype;
  buffers[0].floats.assign(inputs.size(), 0);
  buffers[1].floats = inputs;
  run(codegen::compile(unary(op, int64_t(inputs.size()), dtype), target_with(fused), {.threads = 2}),
      buffers);
  return buffers[0].floats;
}

// Distance in units in the last place of `want` in the dtype; subnormals have the unit of the least normal.
double ulps(DType dtype, double got, long double want) {
  int mantissa = dtype == DType::F64 ? 52 : dtype == DType::F16 ? 10 : dtype == DType::BF16 ? 7 : 23;
  int least = dtype == DType::F64 ? -1022 : dtype == DType::F16 ? -14 : -126;
  if (std::isnan(want)) return std::isnan(got) ? 0 : kInf;
  double rounded = round_to(dtype, double(want));
  if (std::isinf(rounded) || std::isinf(got))
    return got == rounded ? 0 : std::isinf(rounded) && std::abs(got) > 0x1.fffffep+127 * 0.999 ? 1 : kInf;
  int exponent = std::max(want == 0 ? least : std::ilogb(want), least);
  return double(std::abs((long double)got - want) / std::ldexp(1.0L, exponent - mantissa));
}

struct Sweep {
  Op op;
  std::function<long double(long double)> reference;
  double low, high; // uniform, and log-uniform in magnitude down to the least normal when `low` is positive
  double bound;
};

void sweep(DType dtype, const Sweep& s, size_t count) {
  std::mt19937_64 random(uint64_t(s.op) * 31 + uint64_t(dtype));
  std::vector<double> inputs;
  auto unit = [&] { return double(random() >> 11) * 0x1p-53; };
  for (size_t i = 0; i < count; ++i) {
    double x = s.low + (s.high - s.low) * unit();
    if (s.low > 0) x = std::exp(std::log(s.low) + (std::log(s.high) - std::log(s.low)) * unit());
    inputs.push_back(round_to(dtype, x));
  }
  // Near multiples of pi/2 and powers of two, where reductions are hardest.
  for (int k = 1; k < 6400; k += 7) {
    double x = round_to(dtype, k * M_PI_2);
    if (x > s.low && x < s.high) inputs.push_back(x);
  }
  for (int e = -20; e < 20; ++e)
    for (double d : {-0x1p-22, -0x1p-23, 0.0, 0x1p-23, 0x1p-22}) {
      double x = round_to(dtype, std::ldexp(1.0 + d, e));
      if (x > s.low && x < s.high) inputs.push_back(x);
    }
  for (bool fused : {false, true}) {
    std::vector<double> got = compute(s.op, dtype, inputs, fused);
    double worst = 0, at = 0;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (double u = ulps(dtype, got[i], s.reference(inputs[i])); !(u <= worst)) worst = u, at = inputs[i];
    BOOST_TEST_MESSAGE(name(s.op) << " " << name(dtype) << (fused ? " fused: " : ": ") << worst << " ulp at "
                                  << at);
    BOOST_CHECK_MESSAGE(worst <= s.bound, name(s.op) << " of " << name(dtype) << (fused ? " fused: " : ": ")
                                                     << worst << " ulp at " << at);
  }
}

long double exp_(long double x) { return std::exp(x); }
long double exp2_(long double x) { return std::exp2(x); }
long double log_(long double x) { return std::log(x); }
long double log2_(long double x) { return std::log2(x); }
long double sin_(long double x) { return std::sin(x); }
long double cos_(long double x) { return std::cos(x); }
long double sqrt_(long double x) { return std::sqrt(x); }

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

void specials(Op op, DType dtype, const std::vector<std::pair<double, double>>& cases) {
  std::vector<double> inputs;
  for (auto [x, y] : cases) inputs.push_back(x);
  for (bool fused : {false, true}) {
    std::vector<double> got = compute(op, dtype, inputs, fused);
    for (size_t i = 0; i < cases.size(); ++i)
      BOOST_CHECK_MESSAGE(same(got[i], cases[i].second), name(op) << " of " << name(dtype) << " "
                                                                  << cases[i].first << ": got " << got[i]
                                                                  << ", want " << cases[i].second);
  }
}

} // namespace

BOOST_AUTO_TEST_SUITE(functions)

BOOST_AUTO_TEST_CASE(f32_functions_keep_their_bounds) {
  constexpr size_t n = 100000;
  sweep(DType::F32, {Op::EXP, exp_, -104, 88.8, 2}, n);
  sweep(DType::F32, {Op::EXP2, exp2_, -150, 128, 2}, n);
  sweep(DType::F32, {Op::LOG, log_, 1e-38, 3e38, 2}, n);
  sweep(DType::F32, {Op::LOG, log_, 0.5, 2, 2}, n);
  sweep(DType::F32, {Op::LOG, log_, 1.5e-45, 1e-37, 2}, n / 10);
  sweep(DType::F32, {Op::LOG2, log2_, 1e-38, 3e38, 2}, n);
  sweep(DType::F32, {Op::LOG2, log2_, 0.5, 2, 2}, n);
  sweep(DType::F32, {Op::SIN, sin_, -1e4, 1e4, 4}, n);
  sweep(DType::F32, {Op::COS, cos_, -1e4, 1e4, 4}, n);
  sweep(DType::F32, {Op::SIN, sin_, -4, 4, 4}, n);
  sweep(DType::F32, {Op::COS, cos_, -4, 4, 4}, n);
  sweep(DType::F32, {Op::SIN, sin_, 1e-38, 3.4e38, 4}, n);
  sweep(DType::F32, {Op::COS, cos_, 1e-38, 3.4e38, 4}, n);
  sweep(DType::F32, {Op::SQRT, sqrt_, 1e-38, 3e38, 0.501}, n);
}

BOOST_AUTO_TEST_CASE(f64_functions_keep_their_bounds) {
  constexpr size_t n = 20000;
  sweep(DType::F64, {Op::EXP, exp_, -744, 709.7, 2}, n);
  sweep(DType::F64, {Op::EXP2, exp2_, -1073, 1023.9, 2}, n);
  sweep(DType::F64, {Op::LOG, log_, 1e-307, 1e308, 2}, n);
  sweep(DType::F64, {Op::LOG, log_, 0.5, 2, 2}, n);
  sweep(DType::F64, {Op::LOG2, log2_, 1e-307, 1e308, 2}, n);
  sweep(DType::F64, {Op::LOG2, log2_, 0.5, 2, 2}, n);
  sweep(DType::F64, {Op::SIN, sin_, -1e6, 1e6, 4}, n);
  sweep(DType::F64, {Op::COS, cos_, -1e6, 1e6, 4}, n);
  sweep(DType::F64, {Op::SQRT, sqrt_, 1e-307, 1e308, 0.501}, n);
}

BOOST_AUTO_TEST_CASE(small_floats_round_once) {
  for (DType t : {DType::F16, DType::BF16}) {
    sweep(t, {Op::EXP, exp_, -10, 10, 0.51}, 5000);
    sweep(t, {Op::LOG, log_, 1e-4, 6e4, 0.51}, 5000);
    sweep(t, {Op::SIN, sin_, -100, 100, 0.51}, 5000);
  }
}

BOOST_AUTO_TEST_CASE(special_values_are_exact) {
  const double max = std::numeric_limits<float>::max();
  specials(Op::EXP, DType::F32,
           {{0, 1},
            {-0.0, 1},
            {kInf, kInf},
            {-kInf, 0},
            {kNan, kNan},
            {1e-40, 1},
            {max, kInf},
            {-max, 0},
            {round_to(DType::F32, 88.8), kInf},
            {-104, 0},
            {-103, 0x1p-149}});
  specials(Op::EXP2, DType::F32,
           {{0, 1},
            {1, 2},
            {-1, 0.5},
            {kInf, kInf},
            {-kInf, 0},
            {kNan, kNan},
            {128, kInf},
            {127, 0x1p127},
            {-149, 0x1p-149},
            {-150, 0},
            {-126, 0x1p-126},
            {-max, 0},
            {10, 1024}});
  specials(Op::LOG, DType::F32,
           {{0, -kInf},
            {-0.0, -kInf},
            {1, 0},
            {-1, kNan},
            {kInf, kInf},
            {-kInf, kNan},
            {kNan, kNan},
            {round_to(DType::F32, -1e-40), kNan}});
  specials(Op::LOG2, DType::F32,
           {{0, -kInf},
            {-0.0, -kInf},
            {1, 0},
            {2, 1},
            {8, 3},
            {0.25, -2},
            {-1, kNan},
            {kInf, kInf},
            {-kInf, kNan},
            {kNan, kNan},
            {0x1p-149, -149}});
  double tiny = round_to(DType::F32, 1e-40);
  specials(Op::SIN, DType::F32,
           {{0, 0}, {-0.0, -0.0}, {kInf, kNan}, {-kInf, kNan}, {kNan, kNan}, {tiny, tiny}, {-tiny, -tiny}});
  specials(Op::COS, DType::F32, {{0, 1}, {-0.0, 1}, {kInf, kNan}, {-kInf, kNan}, {kNan, kNan}, {tiny, 1}});
  specials(Op::SQRT, DType::F32,
           {{0, 0}, {-0.0, -0.0}, {kInf, kInf}, {-1, kNan}, {kNan, kNan}, {4, 2}, {0x1p-148, 0x1p-74}});
  specials(Op::TRUNC, DType::F32,
           {{0, 0},
            {-0.0, -0.0},
            {-0.5, -0.0},
            {1.9, 1},
            {-1.9, -1},
            {8388609, 8388609},
            {kInf, kInf},
            {-kInf, -kInf},
            {kNan, kNan},
            {max, max},
            {3000000.25, 3000000}});
  specials(Op::TRUNC, DType::F64, {{-0.5, -0.0}, {1e15 + 0.5, 1e15}, {-1e300, -1e300}, {kNan, kNan}});
  specials(Op::RECIPROCAL, DType::F32,
           {{0, kInf}, {-0.0, -kInf}, {kInf, 0}, {-kInf, -0.0}, {2, 0.5}, {kNan, kNan}});
  specials(Op::EXP, DType::F64, {{0, 1}, {kInf, kInf}, {-kInf, 0}, {kNan, kNan}, {710, kInf}, {-746, 0}});
  specials(Op::LOG, DType::F64, {{0, -kInf}, {1, 0}, {-1, kNan}, {kInf, kInf}, {kNan, kNan}});
  specials(Op::SIN, DType::F64, {{0, 0}, {-0.0, -0.0}, {kInf, kNan}, {kNan, kNan}});
}

BOOST_AUTO_TEST_SUITE_END()
