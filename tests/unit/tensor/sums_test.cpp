// The bounds that docs/numerics.md gives for float sums, relative to the sum of magnitudes, against sums in
// double or long double. TOLK_LONG_SUMS=1 takes 10^8 elements on CPU, and 10^9 where a kernel generates them.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "device_runs.h"
#include "tolk/dtype/scalar.h"
#include "tolk/tensor/gradient.h"
#include "tolk/tensor/tensor.h"

using namespace tolk;

namespace {

using Doubles = std::vector<double>;

// Per doubling of the number of terms.
constexpr double kSum = 1e-6, kProducts = 2e-6, kDoubleSum = 2e-15;
constexpr unsigned kSeed = 7;

double doublings(double terms) { return std::max(1.0, std::log2(terms)); }

// Values of each kind that sums drift or cancel on; every one is a float of the dtype.
std::vector<std::pair<std::string, Doubles>> kinds(size_t n, DType dtype) {
  std::vector<std::pair<std::string, Doubles>> all;
  auto add = [&](const char* name, const std::function<double(size_t)>& f) {
    Doubles v(n);
    for (size_t i = 0; i < n; ++i) v[i] = round_to(dtype, f(i));
    all.emplace_back(name, std::move(v));
  };
  std::mt19937 random(kSeed);
  std::normal_distribution<double> normal;
  Doubles drawn(n);
  for (double& v : drawn) v = normal(random);
  add("constant", [](size_t) { return 0.1; });
  add("ramp", [&](size_t i) { return double(i + 1) / double(n); });
  add("alternating", [&](size_t i) { return (i % 2 ? -1 : 1) * (1 + double(i) / double(n)); });
  add("random", [&](size_t i) { return drawn[i]; });
  std::sort(drawn.begin(), drawn.end());
  add("sorted", [&](size_t i) { return drawn[i]; });
  return all;
}

// Kahan's compensated summation: what 10^9 equal terms lose is carried along.
struct Exact {
  long double sum = 0, magnitude = 0;
  void add(long double v) {
    long double term = v + rest, next = sum + term;
    rest = term - (next - sum);
    sum = next;
    magnitude += std::abs(v);
  }

private:
  long double rest = 0;
};

// Sums over the middle axis of (outer, n, inner).
std::vector<Exact> exact_sums(const Doubles& v, size_t outer, size_t n, size_t inner) {
  std::vector<Exact> out(outer * inner);
  for (size_t o = 0; o < outer; ++o)
    for (size_t i = 0; i < n; ++i)
      for (size_t k = 0; k < inner; ++k) out[o * inner + k].add(v[(o * n + i) * inner + k]);
  return out;
}

void check_sums(const std::string& what, const Tensor& got, const std::vector<Exact>& want, double terms,
                double bound, double result_error = 0) {
  Doubles values = got.values<double>();
  BOOST_REQUIRE_EQUAL(values.size(), want.size());
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    auto error = double(std::abs(values[i] - want[i].sum) - result_error * std::abs(want[i].sum));
    double allowed = bound * doublings(terms) * double(want[i].magnitude);
    if (!(error <= worst * allowed)) worst = error / allowed, at = i;
  }
  BOOST_CHECK_MESSAGE(worst <= 1, what << ": " << values[at] << ", exact " << double(want[at].sum) << ": "
                                       << worst << " times the bound, seed " << kSeed);
}

Tensor tensor(const Doubles& v, const Shape& shape, DType dtype = DType::F32) {
  return Tensor::from(v, shape).cast(dtype).contiguous().realize();
}

// The most elements of a test: on INTERP, on CPU, and on CPU with TOLK_LONG_SUMS.
size_t at_most(const std::string& device, size_t interp, size_t cpu, size_t patient) {
  if (device == "INTERP") return interp;
  return std::getenv("TOLK_LONG_SUMS") ? patient : cpu;
}

// What results of a dtype add to the bounds: their own rounding. Small floats are summed in f32 and rounded once.
double rounding_of(DType dtype) { return dtype == DType::F16 ? 0x1p-11 : dtype == DType::BF16 ? 0x1p-8 : 0; }
double sum_bound(DType dtype) { return dtype == DType::F64 ? kDoubleSum : kSum; }

} // namespace

BOOST_AUTO_TEST_CASE(sums_keep_their_bound_on_every_kind_of_data_along_every_axis) {
  on_each_device([](const std::string& device) {
    struct Layout {
      size_t outer, inner;
    };
    for (DType dtype : {DType::F32, DType::F64, DType::F16, DType::BF16})
      for (size_t count : {at_most(device, 60000, 1000000, 100000000),
                           size_t(device == "INTERP" ? 9973 : 199999), size_t(300)})
        for (const auto& [name, values] : kinds(count, dtype))
          for (Layout l : {Layout{1, 1}, Layout{8, 1}, Layout{1, 8}, Layout{4, 5}}) {
            if (dtype != DType::F32 && (l.outer != 1 || count == 300)) continue;
            size_t n = count / l.outer / l.inner;
            Doubles v(values.begin(), values.begin() + std::ptrdiff_t(n * l.outer * l.inner));
            Tensor x = tensor(v, {l.outer, n, l.inner}, dtype);
            std::string what = device + " " + tolk::name(dtype) + " " + name + " " + to_string(x.shape());
            double rounding = rounding_of(dtype);
            if (dtype == DType::F16 && n > 60000) { // a sum of that many overflows f16, a mean does not
              std::vector<Exact> want = exact_sums(v, l.outer, n, l.inner);
              for (Exact& e : want) e.sum /= (long double)n, e.magnitude /= (long double)n;
              check_sums(what + " mean", x.mean({1}), want, double(n), kSum, rounding);
              continue;
            }
            check_sums(what, x.sum({1}), exact_sums(v, l.outer, n, l.inner), double(n), sum_bound(dtype),
                       rounding);
          }
  });
}

BOOST_AUTO_TEST_CASE(equal_values_that_no_memory_holds_are_summed_as_exactly_as_others) {
  on_each_device([](const std::string& device) {
    BOOST_TEST(Tensor::ones({int64_t(1) << 25}).mean().item() == 1);
    BOOST_TEST(Tensor::ones({int64_t(1) << 30}).sum().item() == 1073741824.0);
    BOOST_TEST(Tensor::ones({70000}, DType::F16).mean().item() == 1);
    BOOST_TEST(Tensor::ones({1000, 1000}, DType::BF16).sum().item() == round_to(DType::BF16, 1e6));
    double tenth = double(0.1f);
    BOOST_CHECK_LE(std::abs(Tensor::constant(DType::F32, 0.1, {1000000}).mean().item() - tenth),
                   2e-7 * tenth);
    Tensor rows = tensor({0.1, 0.2, 0.3}, {3, 1});
    Doubles sums = rows.expand({3, 30000000}).sum({1}).values<double>();
    for (size_t i = 0; i < 3; ++i)
      BOOST_CHECK_LE(std::abs(sums[i] / (3e7 * double(0.1f * float(i + 1))) - 1), 3e-7);
    Doubles parts = Tensor::constant(DType::F32, 0.5, {1 << 24}).softmax(0).narrow(0, 0, 3).values<double>();
    for (double p : parts) BOOST_TEST(p == 0x1p-24);
    // Infinities, NaN and the sign of zero are those of a sum.
    BOOST_TEST(Tensor::constant(DType::F32, INFINITY, {100000}).sum().item() == INFINITY);
    BOOST_TEST(std::isnan(Tensor::constant(DType::F32, std::nan(""), {100000}).sum().item()));
    BOOST_TEST(!std::signbit(Tensor::constant(DType::F32, -0.0, {100}).sum().item()));
    BOOST_TEST(Tensor::constant(DType::F32, 3e38, {2}).sum().item() == INFINITY);
    // Masked parts of a constant.
    Tensor masked = (Tensor::arange(1000000) < 900000)
                        .where(Tensor::constant(DType::F32, 0.1), Tensor::constant(DType::F32, 0));
    if (device == "CPU")
      BOOST_CHECK_LE(std::abs(masked.sum().item() / (9e5 * tenth) - 1), kSum * doublings(1e6));
  });
}

// What is computed with sums, of each kind of data.
static void check_functions_of_sums(const std::string& device, DType dtype, size_t n) {
  const double rounding = rounding_of(dtype), sums = sum_bound(dtype), products = 2 * sums;
  const double own = dtype == DType::F64 ? 1e-8 : 1;      // of the functions' own errors
  const double least = dtype == DType::F16 ? 0x1p-25 : 0; // subnormal results
  for (const auto& [name, v] : kinds(n, dtype)) {
    std::string what = device + " " + tolk::name(dtype) + " " + name;
    Tensor x = tensor(v, {n}, dtype);
    Exact all_terms, all_squares, deviations, powers;
    long double largest = v[0];
    for (double e : v)
      all_terms.add(e), all_squares.add((long double)e * e), largest = std::max<long double>(largest, e);
    long double squares = all_squares.sum, mean = all_terms.sum / (long double)n;
    for (double e : v)
      deviations.add((e - mean) * (e - mean)), powers.add(std::exp((long double)e - largest));
    long double spread = deviations.sum, total = powers.sum;
    double log_n = doublings(double(n));
    auto near = [&](const char* of, double got, long double want, double allowed) {
      allowed += rounding * std::abs(double(want)) + least;
      BOOST_CHECK_MESSAGE(std::abs(got - want) <= allowed, what << " " << of << " " << got << ", exact "
                                                                << double(want) << ", allowed " << allowed);
    };
    auto size = double(std::sqrt(squares / (long double)n));
    near("mean", x.mean().item(), mean, sums * log_n * size);
    // The mean's own error is squared, and differences are rounded.
    double variance = double(spread / (long double)n);
    near("var", x.var().item(), variance,
         2 * sums * log_n * variance + std::pow(2 * sums * log_n * size, 2) +
             own * 1e-6 * size * std::sqrt(variance));
    near("norm", x.square().sum().sqrt().item(), std::sqrt(squares),
         (products * log_n + rounding) * double(std::sqrt(squares)));
    near("logsumexp", x.logsumexp().item(), largest + std::log(total),
         sums * log_n + own * 2e-7 * double(std::log(total) + std::abs(largest)));
    Doubles shares = x.softmax(0).values<double>();
    Exact all;
    for (double s : shares) all.add(s);
    near("softmax's sum", double(all.sum), 1, sums * log_n + own * 5e-7 + double(n) * least);
    near("softmax", shares[n / 2], std::exp(v[n / 2] - largest) / total,
         (sums * log_n + own * 2e-6) * double(std::exp(v[n / 2] - largest) / total));
    Doubles running = x.cumsum(0).values<double>();
    Exact prefix;
    double worst = 0;
    for (size_t i = 0; i < n; ++i) {
      prefix.add(v[i]);
      worst = std::max(worst, double(std::abs(running[i] - prefix.sum) / prefix.magnitude));
    }
    BOOST_CHECK_MESSAGE(worst <= sums * log_n + rounding,
                        what << " cumsum: " << worst << " of " << sums * log_n);
  }
}

BOOST_AUTO_TEST_CASE(what_is_made_of_sums_keeps_their_bounds) {
  on_each_device([](const std::string& device) {
    // The sums of more elements overflow f16.
    for (auto [dtype, n] : {std::pair(DType::F32, at_most(device, 20000, 500000, 100000000)),
                            std::pair(DType::F64, at_most(device, 20000, 500000, 100000000)),
                            std::pair(DType::F16, size_t(20000)), std::pair(DType::BF16, size_t(20000))})
      check_functions_of_sums(device, dtype, n);
  });
}

// Matrix products, convolutions and a gradient that is one.
static void check_products(const std::string& device, DType dtype, size_t k) {
  const double bound = 2 * sum_bound(dtype), rounding = rounding_of(dtype);
  for (const auto& [name, v] : kinds(4 * k, dtype)) {
    std::string what = device + " " + tolk::name(dtype) + " " + name;
    // (2, k) times (k, 2), and as a convolution over k channels of one pixel.
    Doubles a(v.begin(), v.begin() + std::ptrdiff_t(2 * k)), b(v.begin() + std::ptrdiff_t(2 * k), v.end());
    std::vector<Exact> want(4);
    for (size_t i = 0; i < 2; ++i)
      for (size_t j = 0; j < 2; ++j)
        for (size_t l = 0; l < k; ++l) want[i * 2 + j].add((long double)a[i * k + l] * b[l * 2 + j]);
    Tensor x = tensor(a, {2, k}, dtype), y = tensor(b, {k, 2}, dtype);
    check_sums(what + " matmul", x.matmul(y), want, double(k), bound, rounding);
    check_sums(what + " conv", x.reshape({2, k, 1}).conv(y.transpose(0, 1).reshape({2, k, 1}), {}, {}), want,
               double(k), bound, rounding);
    // The gradient of the first factor of y * x is such a product again.
    std::vector<Tensor> wrt{
        Tensor::from(std::vector<float>{1, 1, 1, 1}, {2, 2}).cast(dtype).contiguous().realize()};
    Tensor loss = (wrt[0].matmul(x) * y.transpose(0, 1)).sum();
    std::vector<Exact> transposed(4);
    for (size_t i = 0; i < 4; ++i) transposed[i] = want[i % 2 * 2 + i / 2];
    check_sums(what + " gradient", gradient(loss, wrt)[0], transposed, double(k), bound, rounding);
  }
}

BOOST_AUTO_TEST_CASE(products_and_gradients_keep_their_bounds) {
  on_each_device([](const std::string& device) {
    // The products of more elements overflow f16.
    for (auto [dtype, k] : {std::pair(DType::F32, at_most(device, 5003, 100003, 25000003)),
                            std::pair(DType::F64, at_most(device, 5003, 100003, 25000003)),
                            std::pair(DType::F16, size_t(5003)), std::pair(DType::BF16, size_t(5003))})
      check_products(device, dtype, k);
    auto rows = int64_t(at_most(device, 50000, 1000000, 25000000));
    std::vector<Tensor> bias{Tensor::from(std::vector<float>{0.5f, -1, 2, 0.25f}, {4}).realize()};
    Tensor x = tensor(Doubles(size_t(rows) * 4, 0.1), {rows, 4});
    for (double g : gradient((x + bias[0]).mean(), bias)[0].values<double>())
      BOOST_CHECK_LE(std::abs(g - 0.25), 0.25 * 2e-7);
    Doubles g = gradient((x + bias[0]).square().mean(), bias)[0].values<double>();
    const float shift[] = {0.5f, -1, 2, 0.25f};
    for (size_t i = 0; i < 4; ++i) {
      double want = 2.0 * double(0.1f + shift[i]) / 4;
      BOOST_CHECK_LE(std::abs(g[i] - want), std::abs(want) * (kSum * doublings(double(rows)) + 5e-7));
    }
  });
}

BOOST_AUTO_TEST_CASE(a_billion_elements_keep_the_bound) {
  if (!std::getenv("TOLK_LONG_SUMS")) {
    BOOST_TEST_MESSAGE("set TOLK_LONG_SUMS=1 to run it");
    return;
  }
  DeviceScope scope("CPU");
  constexpr int64_t n = 1000000000;
  struct Generated {
    const char* name;
    std::function<Tensor(const Tensor&)> of;
    float (*exact)(int64_t);
  };
  auto f = [](const Tensor& i) { return i.cast(DType::F32); };
  const Generated all[] = {
      {"constant", [&](const Tensor& i) { return (i >= 0).where(Tensor::constant(DType::F32, 0.1), f(i)); },
       [](int64_t) { return 0.1f; }},
      {"step",
       [&](const Tensor& i) {
         return (i < n / 3).where(Tensor::constant(DType::F32, 0.1), Tensor::constant(DType::F32, 0.7));
       },
       [](int64_t i) { return i < n / 3 ? 0.1f : 0.7f; }},
      {"ramp", [&](const Tensor& i) { return f(i) * 1e-9; }, [](int64_t i) { return float(i) * 1e-9f; }},
      {"period", [&](const Tensor& i) { return f(i.floormod(Tensor::constant(DType::I64, 17))) * 0.1; },
       [](int64_t i) { return float(i % 17) * 0.1f; }},
      {"alternating", [&](const Tensor& i) { return f((i & Tensor::constant(DType::I64, 1)) * 2 - 1) * 0.3; },
       [](int64_t i) { return float((i & 1) * 2 - 1) * 0.3f; }},
  };
  for (const Generated& g : all) {
    Exact whole;
    std::vector<Exact> columns(8);
    for (int64_t i = 0; i < n; ++i) {
      float v = g.exact(i);
      whole.add(v), columns[size_t(i % 8)].add(v);
    }
    Tensor x = g.of(Tensor::arange(n));
    check_sums(std::string("all, ") + g.name, x.sum(), {whole}, double(n), kSum);
    check_sums(std::string("columns, ") + g.name, x.reshape({n / 8, 8}).sum({0}), columns, double(n) / 8,
               kSum);
    check_sums(std::string("products, ") + g.name, (x * (x * 0.0 + 1.0)).sum(), {whole}, double(n),
               kProducts);
  }
}
