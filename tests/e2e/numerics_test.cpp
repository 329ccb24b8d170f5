// What float functions give: sweeps against double precision, in units in the last place, and the special
// values. Every case runs on the CPU plugin and on the interpreter. Bounds are those that docs/numerics.md
// promises.
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "device_runs.h"
#include "tolk/tensor/tensor.h"

using namespace tolk;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr int kPoints = 65536;

// Distance of `got` from the exact value, in units in the last place of the float nearest to it.
double ulps(float got, double want) {
  auto nearest = float(want);
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e30;
  if (std::isinf(nearest) || std::isinf(got)) return got == nearest ? 0 : 1e30;
  int exponent;
  std::frexp(nearest, &exponent);
  double unit = std::ldexp(1.0, std::max(exponent - 24, -149));
  return std::abs(double(got) - want) / unit;
}

using Fn = std::function<Tensor(const Tensor&)>;
using Ref = std::function<double(double)>;

struct Row {
  const char* name;
  Fn function;
  Ref reference;
  double low, high; // of the sweep
  bool logarithmic; // points spread over the exponents of low..high
  double bound;     // units in the last place; 0: see absolute
  double absolute;  // allowed beside the bound, times max(1, |x|)
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) {
  return std::isinf(x) && x > 0 ? x : std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}
double gelu(double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double mish(double x) { return x * std::tanh(softplus(x)); }
double elu(double x) { return x < 0 ? std::expm1(x) : x; }

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {"exp", [](const Tensor& x) { return x.exp(); }, [](double x) { return std::exp(x); }, -87, 88, false,
       2, 0},
      {"log", [](const Tensor& x) { return x.log(); }, [](double x) { return std::log(x); }, 1e-38, 3e38,
       true, 2, 0},
      {"sin", [](const Tensor& x) { return x.sin(); }, [](double x) { return std::sin(x); }, -1e4, 1e4, false,
       4, 0},
      {"cos", [](const Tensor& x) { return x.cos(); }, [](double x) { return std::cos(x); }, -1e4, 1e4, false,
       4, 0},
      {"tan", [](const Tensor& x) { return x.tan(); }, [](double x) { return std::tan(x); }, -1e3, 1e3, false,
       5, 0},
      {"sqrt", [](const Tensor& x) { return x.sqrt(); }, [](double x) { return std::sqrt(x); }, 1e-38, 3e38,
       true, 0.5, 0},
      {"reciprocal", [](const Tensor& x) { return x.reciprocal(); }, [](double x) { return 1 / x; }, 1e-37,
       1e37, true, 0.5, 0},
      {"tanh", [](const Tensor& x) { return x.tanh(); }, [](double x) { return std::tanh(x); }, -10, 10,
       false, 6, 0},
      {"sigmoid", [](const Tensor& x) { return x.sigmoid(); }, sigmoid, -68, 80, false, 4, 0},
      {"erf", [](const Tensor& x) { return x.erf(); }, [](double x) { return std::erf(x); }, -4, 4, false, 4,
       0},
      {"asin", [](const Tensor& x) { return x.asin(); }, [](double x) { return std::asin(x); }, -1, 1, false,
       4, 0},
      {"acos", [](const Tensor& x) { return x.acos(); }, [](double x) { return std::acos(x); }, -1, 1, false,
       4, 0},
      {"atan", [](const Tensor& x) { return x.atan(); }, [](double x) { return std::atan(x); }, -1e3, 1e3,
       false, 5, 0},
      {"sinh", [](const Tensor& x) { return x.sinh(); }, [](double x) { return std::sinh(x); }, -80, 80,
       false, 4, 0},
      {"cosh", [](const Tensor& x) { return x.cosh(); }, [](double x) { return std::cosh(x); }, -80, 80,
       false, 4, 0},
      {"asinh", [](const Tensor& x) { return x.asinh(); }, [](double x) { return std::asinh(x); }, -1e3, 1e3,
       false, 4, 0},
      {"acosh", [](const Tensor& x) { return x.acosh(); }, [](double x) { return std::acosh(x); }, 1, 1e3,
       false, 4, 0},
      {"atanh", [](const Tensor& x) { return x.atanh(); }, [](double x) { return std::atanh(x); }, -.999,
       .999, false, 5, 0},
      {"softplus", [](const Tensor& x) { return x.softplus(); }, softplus, -80, 80, false, 4, 0},
      {"softsign", [](const Tensor& x) { return x / (x.abs() + 1.0); },
       [](double x) { return x / (1 + std::abs(x)); }, -1e3, 1e3, false, 2.5, 0},
      {"expm1", [](const Tensor& x) { return x.expm1(); }, [](double x) { return std::expm1(x); }, -20, 80,
       false, 4, 0},
      {"log1p", [](const Tensor& x) { return x.log1p(); }, [](double x) { return std::log1p(x); }, -.999, 1e3,
       false, 4, 0},
      {"elu", [](const Tensor& x) { return (x < 0).where(x.expm1(), x); }, elu, -20, 20, false, 4, 0},
      {"gelu", [](const Tensor& x) { return x * 0.5 * ((x * std::sqrt(0.5)).erf() + 1.0); }, gelu, -5, 10,
       false, 0, 2e-7},
      {"mish", [](const Tensor& x) { return x * x.softplus().tanh(); }, mish, -20, 20, false, 0, 5e-7},
  };
  return all;
}

std::vector<float> points(const Row& row) {
  std::mt19937 random(20);
  std::vector<float> x;
  std::uniform_real_distribution<double> spread(row.logarithmic ? std::log(row.low) : row.low,
                                                row.logarithmic ? std::log(row.high) : row.high);
  for (int i = 0; i < kPoints; ++i) {
    double v = spread(random);
    x.push_back(float(row.logarithmic ? std::exp(v) : v));
  }
  // Near zero as well, where relative errors hide from a uniform sweep.
  if (row.low < 0)
    for (double e = -40; e < 0; e += 0.05)
      x.push_back(float(std::pow(10.0, e))), x.push_back(float(-std::pow(10.0, e)));
  return x;
}

std::vector<float> run(const Fn& f, const std::vector<float>& x) {
  return f(Tensor::from(x, {int64_t(x.size())})).values<float>();
}

const float kSpecial[] = {0.f,     -0.f,           1.f,     -1.f,     kInf,  -kInf,  kNaN, 1e-40f,
                          -1e-40f, 1.1754944e-38f, 3.4e38f, -3.4e38f, 88.8f, -104.f, 0.5f, -2.5f};

bool same_sign_of_zero(float a, float b) { return a != 0 || b != 0 || std::signbit(a) == std::signbit(b); }

} // namespace

BOOST_AUTO_TEST_CASE(float_functions_stay_within_their_bounds) {
  on_each_device([](const std::string& device) {
    for (const Row& row : rows()) {
      std::vector<float> x = points(row), y = run(row.function, x);
      double worst = 0;
      size_t at = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        double want = row.reference(double(x[i])), error = ulps(y[i], want);
        // Results below the normal range have fewer bits than the bound counts.
        if (std::abs(want) < 1.2e-38 && std::abs(double(y[i]) - want) < 3e-45) error = 0;
        if (row.absolute > 0)
          error = std::abs(double(y[i]) - want) / (row.absolute * std::max(1.0, std::abs(double(x[i]))));
        if (error > worst) worst = error, at = i;
      }
      double allowed = row.absolute > 0 ? 1 : row.bound;
      BOOST_TEST_MESSAGE(device << " " << row.name << ": worst " << worst << " of " << allowed << " at "
                                << x[at]);
      BOOST_CHECK_MESSAGE(worst <= allowed, device << " " << row.name << "(" << x[at] << ") = " << y[at]
                                                   << ", exact " << row.reference(double(x[at])) << ": "
                                                   << worst << " units, allowed " << allowed);
    }
  });
}

BOOST_AUTO_TEST_CASE(special_values_of_functions_are_those_of_ieee) {
  on_each_device([](const std::string& device) {
    std::vector<float> x(std::begin(kSpecial), std::end(kSpecial));
    for (const Row& row : rows()) {
      std::vector<float> y = run(row.function, x);
      for (size_t i = 0; i < x.size(); ++i) {
        double want = row.reference(double(x[i]));
        if (std::string(row.name) == "gelu" && x[i] == -kInf) continue; // inf * 0
        if (std::string(row.name) == "mish" && x[i] == -kInf) continue;
        if (std::string(row.name) == "softsign" && std::isinf(x[i])) want = kNaN; // inf / inf
        double tolerance = row.absolute > 0 ? row.absolute * std::max(1.0, std::abs(double(x[i]))) : 0;
        bool good = ulps(y[i], want) <= std::max(row.bound, 1.0) ||
                    std::abs(double(y[i]) - want) <= std::max(tolerance, 3e-45);
        // Far out the reduction of sine and cosine is exact only to 1e4.
        if (std::abs(x[i]) > 1e4f && std::isfinite(x[i]) &&
            (std::string(row.name) == "sin" || std::string(row.name) == "cos" ||
             std::string(row.name) == "tan"))
          good = std::abs(double(y[i]) - want) < 1e-5 * std::max(1.0, std::abs(want));
        BOOST_CHECK_MESSAGE(good, device << " " << row.name << "(" << x[i] << ") = " << y[i] << ", expected "
                                         << want);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(rounding_and_signs_of_special_values_are_exact) {
  struct Exact {
    const char* name;
    Fn function;
    float (*reference)(float);
  };
  static const Exact table[] = {
      {"round", [](const Tensor& t) { return t.round(); }, [](float v) { return std::nearbyint(v); }},
      {"floor", [](const Tensor& t) { return t.floor(); }, [](float v) { return std::floor(v); }},
      {"ceil", [](const Tensor& t) { return t.ceil(); }, [](float v) { return std::ceil(v); }},
      {"trunc", [](const Tensor& t) { return t.trunc(); }, [](float v) { return std::trunc(v); }},
      {"neg", [](const Tensor& t) { return t.neg(); }, [](float v) { return -v; }},
      {"abs", [](const Tensor& t) { return t.abs(); }, [](float v) { return std::abs(v); }},
      {"identity", [](const Tensor& t) { return t * 1.0; }, [](float v) { return v; }},
  };
  on_each_device([](const std::string& device) {
    std::vector<float> x(std::begin(kSpecial), std::end(kSpecial));
    for (float v :
         {-1.5f, -.5f, 1.5f, 2.5f, 3.5f, 8388609.f, -8388609.f, 8388607.5f, 0.49999997f, -0.2f, 16777216.f})
      x.push_back(v);
    for (const Exact& row : table) {
      std::vector<float> y = run(row.function, x);
      for (size_t i = 0; i < x.size(); ++i) {
        float want = row.reference(x[i]);
        bool good = (std::isnan(want) && std::isnan(y[i])) || (y[i] == want && same_sign_of_zero(y[i], want));
        BOOST_CHECK_MESSAGE(good, device << " " << row.name << "(" << x[i] << ") = " << y[i] << ", expected "
                                         << want);
      }
    }
    std::vector<float> s = run([](const Tensor& t) { return t.sign(); }, {kNaN, -2, 0, 3, kInf, -kInf});
    BOOST_TEST(std::isnan(s[0]));
    BOOST_TEST((s[1] == -1 && s[2] == 0 && s[3] == 1 && s[4] == 1 && s[5] == -1));
    std::vector<float> r = run([](const Tensor& t) { return t.relu(); }, {kNaN, -1, 2, -kInf, kInf});
    BOOST_TEST(std::isnan(r[0]));
    BOOST_TEST((r[1] == 0 && r[2] == 2 && r[3] == 0 && r[4] == kInf));
  });
}

BOOST_AUTO_TEST_CASE(special_values_of_binary_operations_are_those_of_ieee) {
  const std::vector<float> a = {0,       -0.f, kInf, kInf, kNaN, 1, 1,     -1,  1e-40f,
                                3.4e38f, -2,   -2,   0,    kNaN, 1, -5.5f, 5.5f};
  const std::vector<float> b = {0, 0, kInf, 0, 1, kNaN, 0, 0, 1, 10, .5f, 3, -1, 0, kInf, 2, -2};
  using Two = std::function<Tensor(const Tensor&, const Tensor&)>;
  struct Binary {
    const char* name;
    Two function;
    double (*reference)(double, double);
    double bound;
  };
  static const Binary table[] = {
      {"add", [](const Tensor& x, const Tensor& y) { return x + y; },
       [](double x, double y) { return double(float(x) + float(y)); }, 0},
      {"sub", [](const Tensor& x, const Tensor& y) { return x - y; },
       [](double x, double y) { return double(float(x) - float(y)); }, 0},
      {"mul", [](const Tensor& x, const Tensor& y) { return x * y; },
       [](double x, double y) { return double(float(x) * float(y)); }, 0},
      {"div", [](const Tensor& x, const Tensor& y) { return x / y; },
       [](double x, double y) { return double(float(x) / float(y)); }, 0},
      {"pow", [](const Tensor& x, const Tensor& y) { return x.pow(y); },
       [](double x, double y) { return std::pow(x, y); }, 0.5},
      {"max", [](const Tensor& x, const Tensor& y) { return x.maximum(y); },
       [](double x, double y) { return std::isnan(x) || std::isnan(y) ? std::nan("") : std::max(x, y); }, 0},
      {"min", [](const Tensor& x, const Tensor& y) { return x.minimum(y); },
       [](double x, double y) { return std::isnan(x) || std::isnan(y) ? std::nan("") : std::min(x, y); }, 0},
      {"fmod", [](const Tensor& x, const Tensor& y) { return x.fmod(y); },
       [](double x, double y) { return double(std::fmod(float(x), float(y))); }, 0},
  };
  on_each_device([&](const std::string& device) {
    Tensor x = Tensor::from(a, {int64_t(a.size())}), y = Tensor::from(b, {int64_t(b.size())});
    for (const Binary& row : table) {
      std::vector<float> got = row.function(x, y).values<float>();
      for (size_t i = 0; i < a.size(); ++i) {
        double want = row.reference(a[i], b[i]);
        BOOST_CHECK_MESSAGE(ulps(got[i], want) <= row.bound, device << " " << row.name << "(" << a[i] << ", "
                                                                    << b[i] << ") = " << got[i]
                                                                    << ", expected " << want);
      }
    }
    std::vector<bool> eq = equal(x, y).values<bool>(), lt = (x < y).values<bool>(),
                      ge = (x >= y).values<bool>(), le = (x <= y).values<bool>(),
                      ne = not_equal(x, y).values<bool>();
    for (size_t i = 0; i < a.size(); ++i) {
      BOOST_CHECK_MESSAGE(eq[i] == (a[i] == b[i]), device << " == at " << i);
      BOOST_CHECK_MESSAGE(lt[i] == (a[i] < b[i]), device << " < at " << i);
      BOOST_CHECK_MESSAGE(ge[i] == (a[i] >= b[i]), device << " >= at " << i);
      BOOST_CHECK_MESSAGE(le[i] == (a[i] <= b[i]), device << " <= at " << i);
      BOOST_CHECK_MESSAGE(ne[i] == (a[i] != b[i]), device << " != at " << i);
    }
  });
}

BOOST_AUTO_TEST_CASE(pow_and_division_sweeps_stay_within_their_bounds) {
  on_each_device([](const std::string& device) {
    std::mt19937 random(4);
    std::uniform_real_distribution<float> base(-6.9f, 6.9f), exponent(-10, 10), wide(-1e3f, 1e3f),
        divisor(.1f, 1e3f);
    std::vector<float> x, y, p, q;
    for (int i = 0; i < kPoints; ++i) {
      x.push_back(std::exp(base(random))), y.push_back(exponent(random));
      p.push_back(wide(random)), q.push_back(divisor(random));
    }
    Shape n{kPoints};
    std::vector<float> powers = Tensor::from(x, n).pow(Tensor::from(y, n)).values<float>(),
                       quotients = (Tensor::from(p, n) / Tensor::from(q, n)).values<float>();
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      worst = std::max(worst, ulps(powers[i], std::pow(double(x[i]), double(y[i]))));
      if (quotients[i] != p[i] / q[i])
        BOOST_ERROR(device << " " << p[i] << " / " << q[i] << " = " << quotients[i]);
    }
    BOOST_CHECK_MESSAGE(worst <= 16, device << " pow: worst " << worst);
    // Integer powers of small integers, exactly.
    std::vector<float> bases, exps;
    for (int b = -9; b <= 9; ++b)
      for (int e = 0; e <= 7; ++e) bases.push_back(float(b)), exps.push_back(float(e));
    std::vector<float> exact = Tensor::from(bases, {int64_t(bases.size())})
                                   .pow(Tensor::from(exps, {int64_t(exps.size())}))
                                   .values<float>();
    for (size_t i = 0; i < bases.size(); ++i)
      BOOST_CHECK_MESSAGE(exact[i] == float(std::pow(double(bases[i]), double(exps[i]))),
                          device << " " << bases[i] << "^" << exps[i]);
    // fmod is exact for any quotient.
    std::vector<float> m = Tensor::from(x, n).fmod(Tensor::from(q, n)).values<float>();
    for (size_t i = 0; i < x.size(); ++i)
      if (m[i] != std::fmod(x[i], q[i]))
        BOOST_ERROR(device << " fmod(" << x[i] << ", " << q[i] << ") = " << m[i]);
  });
}

BOOST_AUTO_TEST_CASE(casts_truncate_saturate_and_round_once) {
  on_each_device([](const std::string& device) {
    std::vector<float> v = {1.9f, -1.9f, 300, -1, 3e9f, kNaN, kInf, 65520, 65504, 1e-8f, -kInf};
    Tensor x = Tensor::from(v, {int64_t(v.size())});
    auto check = [&](DType dtype, std::vector<double> want) {
      std::vector<double> got = x.cast(dtype).values<double>();
      for (size_t i = 0; i < want.size(); ++i)
        BOOST_CHECK_MESSAGE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i])),
                            device << " " << v[i] << " as " << name(dtype) << " is " << got[i]
                                   << ", expected " << want[i]);
    };
    check(DType::I32, {1, -1, 300, -1, 2147483647, 0, 2147483647, 65520, 65504, 0, -2147483648.0});
    check(DType::U8, {1, 0, 255, 0, 255, 0, 255, 255, 255, 0, 0});
    check(DType::I8, {1, -1, 127, -1, 127, 0, 127, 127, 127, 0, -128});
    check(DType::I64,
          {1, -1, 300, -1, 3e9, 0, 9223372036854775807.0, 65520, 65504, 0, -9223372036854775808.0});
    check(DType::BOOL, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
    check(DType::F16, {1.900390625, -1.900390625, 300, -1, kInf, kNaN, kInf, kInf, 65504, 0, -kInf});
    // f64 to f16 rounds once: by way of f32 this would be 1.
    std::vector<double> tie = {1 + std::ldexp(1, -11) + std::ldexp(1, -40)};
    BOOST_TEST(Tensor::from(tie, {1}).cast(DType::F16).values<double>()[0] == 1.0009765625);
    // A NaN whose payload sits in the low bits stays a NaN in bf16.
    std::vector<uint32_t> low = {0x7f800001u};
    BOOST_TEST(std::isnan(Tensor::from(low, {1}).bitcast(DType::F32).cast(DType::BF16).values<float>()[0]));
  });
}

BOOST_AUTO_TEST_CASE(integer_division_and_shifts_never_trap) {
  on_each_device([](const std::string& device) {
    const int32_t least = std::numeric_limits<int32_t>::min();
    std::vector<int32_t> a = {7, -7, 7, -7, 5, least, 0}, b = {2, 2, -2, -2, 0, -1, 0};
    Tensor x = Tensor::from(a, {7}), y = Tensor::from(b, {7});
    BOOST_TEST((x.cdiv(y).values<int32_t>() == std::vector<int32_t>{3, -3, -3, 3, 0, least, 0}), device);
    std::vector<int32_t> mod = x.floormod(y).values<int32_t>();
    BOOST_TEST((mod[0] == 1 && mod[1] == 1 && mod[2] == -1 && mod[3] == -1 && mod[5] == 0), device);
    std::vector<uint32_t> one = {1, 0x80000000u, 3, 3}, by = {31, 1, 32, 40};
    Tensor u = Tensor::from(one, {4}), s = Tensor::from(by, {4});
    BOOST_TEST((u.shl(s).values<uint32_t>() == std::vector<uint32_t>{0x80000000u, 0, 0, 0}), device);
    BOOST_TEST((u.shr(s).values<uint32_t>() == std::vector<uint32_t>{0, 0x40000000u, 0, 0}), device);
    std::vector<int32_t> neg = {-8, -8}, amount = {1, 99};
    BOOST_TEST((Tensor::from(neg, {2}).shr(Tensor::from(amount, {2})).values<int32_t>() ==
                std::vector<int32_t>{-4, -1}),
               device);
  });
}

BOOST_AUTO_TEST_CASE(reductions_keep_nan_handle_empty_axes_and_sum_accurately) {
  on_each_device([](const std::string& device) {
    for (int n = 1; n <= 65; ++n)
      for (int at : {0, n / 2, n - 1}) {
        std::vector<float> v(size_t(n), 1.f);
        v[size_t(at)] = kNaN;
        Tensor x = Tensor::from(v, {n});
        BOOST_CHECK_MESSAGE(std::isnan(x.max().item()) && std::isnan(x.min().item()) &&
                                std::isnan(x.sum().item()),
                            device << " NaN at " << at << " of " << n);
      }
    Tensor empty = Tensor::zeros({0, 3});
    BOOST_TEST(empty.sum().item() == 0);
    BOOST_TEST(empty.prod().item() == 1);
    BOOST_TEST(empty.max().item() == -kInf);
    BOOST_TEST(empty.min().item() == kInf);
    BOOST_TEST(std::isnan(empty.mean().item()));
    BOOST_TEST(Tensor::zeros({0}, DType::I32).max().item() == double(std::numeric_limits<int32_t>::min()));
    // f16 sums accumulate in f32.
    BOOST_TEST(Tensor::ones({4096}, DType::F16).contiguous().sum().item() == 4096);
    // NaN positions count as the largest value for argmax, the first one wins.
    BOOST_TEST(Tensor::from(std::vector<float>{1, kNaN, 2, kNaN}, {4}).argmax(0).item() == 1);
    BOOST_TEST(Tensor::from(std::vector<float>{3, 1, 3}, {3}).argmax(0).item() == 0);
    // A row of -inf has no softmax; a large pair does.
    std::vector<float> s =
        Tensor::from(std::vector<float>{1000, 1000, -kInf, -kInf}, {2, 2}).softmax(1).values<float>();
    BOOST_TEST((s[0] == .5f && s[1] == .5f && std::isnan(s[2]) && std::isnan(s[3])), device);
  });
  // Long sums: relative error at most 1e-6 log2 n against double.
  DeviceScope scope("CPU");
  std::mt19937 random(3);
  std::uniform_real_distribution<float> spread(0, 1);
  for (int n : {1000, 70000, 1 << 22}) {
    std::vector<float> v;
    double want = 0;
    for (int i = 0; i < n; ++i) v.push_back(spread(random)), want += v.back();
    double got = Tensor::from(v, {n}).sum().item();
    BOOST_CHECK_MESSAGE(std::abs(got - want) <= 1e-6 * std::log2(n) * want,
                        "sum of " << n << ": " << got << " for " << want);
  }
}
