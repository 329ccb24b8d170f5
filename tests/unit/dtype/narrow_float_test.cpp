#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include <boost/test/unit_test.hpp>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "reference_format.h"
#include "tolk/dtype/scalar.h"

using namespace tolk;
using reference::Format;
using reference::Ladder;

namespace {

const double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

bool same(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

bool is_fnuz(const Format& f) { return f.dtype == DType::F8E4M3FNUZ || f.dtype == DType::F8E5M2FNUZ; }

// What encoding a finite x must give, by search.
unsigned expected_code(const Format& f, const Ladder& ladder, double x) {
  if (!f.is_signed && std::signbit(x) && x != 0) return 255;
  auto [code, beyond] = ladder.nearest(std::fabs(x));
  if (beyond && f.overflow == reference::Overflow::Infinity) ++code;
  unsigned sign = f.is_signed && std::signbit(x) ? 1u << (width(f) - 1) : 0;
  if (is_fnuz(f) && code == 0) sign = 0;
  return code | sign;
}

struct Mismatch {
  uint64_t count = 0;
  double first = 0;
  uint64_t got = 0, wanted = 0;
  void compare(double x, uint64_t g, uint64_t w) {
    if (g == w) return;
    if (count++ == 0) first = x, got = g, wanted = w;
  }
  void report(const char* name) const {
    BOOST_TEST(count == 0u,
               name << ": " << count << " wrong, first " << first << " gives " << got << " not " << wanted);
  }
};

} // namespace

BOOST_AUTO_TEST_CASE(every_code_of_8_and_16_bits_decodes_to_its_published_value) {
  for (const Format& f : reference::formats()) {
    unsigned wrong = 0;
    for (unsigned code = 0; code < (1u << width(f)); ++code)
      if (!same(float_from_bits(f.dtype, code), reference::value_of(f, code))) ++wrong;
    BOOST_TEST(wrong == 0u, f.name);
  }
}

BOOST_AUTO_TEST_CASE(every_value_encodes_to_its_own_code) {
  for (const Format& f : reference::formats()) {
    Mismatch mismatch;
    for (unsigned code = 0; code < (1u << width(f)); ++code) {
      double value = reference::value_of(f, code);
      if (!std::isfinite(value)) continue;
      mismatch.compare(value, float_to_bits(f.dtype, value), code);
    }
    mismatch.report(f.name);
  }
}

BOOST_AUTO_TEST_CASE(midpoints_and_their_neighbours_round_as_a_search_over_all_codes_says) {
  for (const Format& f : reference::formats()) {
    Ladder ladder(f);
    Mismatch mismatch;
    auto check = [&](double x) {
      for (double y : {x, std::nextafter(x, kInf), std::nextafter(x, -kInf)})
        for (double z : {y, -y}) mismatch.compare(z, float_to_bits(f.dtype, z), expected_code(f, ladder, z));
    };
    for (size_t i = 0; i + 1 < ladder.steps.size(); ++i) {
      double low = ladder.steps[i].first, high = ladder.steps[i + 1].first;
      check(low);
      check(low + (high - low) / 2);
      check(low + (high - low) / 4);
    }
    double last = ladder.steps.back().first, step = last - (ladder.steps.end() - 2)->first;
    check(last);
    check(last + step / 2);
    check(last + step);
    check(last * 1000);
    check(1e300);
    mismatch.report(f.name);
  }
}

BOOST_AUTO_TEST_CASE(random_doubles_round_as_a_search_over_all_codes_says) {
  std::mt19937_64 random(7);
  for (const Format& f : reference::formats()) {
    Ladder ladder(f);
    Mismatch mismatch;
    int low = static_cast<int>(std::floor(std::log2(ladder.steps[1].first))) - 4;
    int high = static_cast<int>(std::log2(ladder.steps.back().first)) + 3;
    for (int i = 0; i < 200000; ++i) {
      double fraction = 1.0 + static_cast<double>(random() >> 12) * 0x1p-52;
      int exponent = low + static_cast<int>(random() % static_cast<unsigned>(high - low));
      double x = std::ldexp(random() & 1 ? fraction : -fraction, exponent);
      mismatch.compare(x, float_to_bits(f.dtype, x), expected_code(f, ladder, x));
    }
    mismatch.report(f.name);
  }
}

BOOST_AUTO_TEST_CASE(f32_rounds_as_the_processor_does) {
  std::mt19937_64 random(11);
  Mismatch mismatch;
  auto check = [&](double x) {
    mismatch.compare(x, float_to_bits(DType::F32, x), std::bit_cast<uint32_t>(static_cast<float>(x)));
    BOOST_REQUIRE(same(round_to(DType::F32, x), static_cast<double>(static_cast<float>(x))));
  };
  for (int i = 0; i < 300000; ++i) {
    auto code = static_cast<uint32_t>(random());
    float low = std::bit_cast<float>(code), high = std::bit_cast<float>(code + 1);
    if (!std::isfinite(low) || !std::isfinite(high)) continue;
    BOOST_REQUIRE(same(float_from_bits(DType::F32, code), static_cast<double>(low)));
    double middle = (static_cast<double>(low) + static_cast<double>(high)) / 2;
    for (double x :
         {static_cast<double>(low), middle, std::nextafter(middle, kInf), std::nextafter(middle, -kInf)})
      check(x);
  }
  for (double x : {0.0, -0.0, kInf, -kInf, 0x1p-149, 0x1p-150, 0x1.8p-150, 0x1p-126, 0x1.fffffefp127,
                   0x1.ffffffp127, 5e-324})
    check(x);
  mismatch.report("f32");
}

BOOST_AUTO_TEST_CASE(f64_to_narrow_rounds_once) {
  // Through f32 this would become a tie and round down to 1.
  BOOST_TEST(round_to(DType::F16, 1 + 0x1p-11 + 0x1p-40) == 1.0009765625);
  BOOST_TEST(round_to(DType::BF16, 1 + 0x1p-8 + 0x1p-40) == 1.0078125);
  BOOST_TEST(round_to(DType::F8E4M3, 1 + 0x1p-4 + 0x1p-40) == 1.125);
  BOOST_TEST(round_to(DType::F8E5M2, 1 + 0x1p-3 + 0x1p-40) == 1.25);
}

BOOST_AUTO_TEST_CASE(documented_limits_of_each_format_hold) {
  BOOST_TEST(round_to(DType::F16, 65519.99) == 65504.0);
  BOOST_TEST(round_to(DType::F16, 65520.0) == kInf);
  BOOST_TEST(round_to(DType::F16, -65520.0) == -kInf);
  BOOST_TEST(round_to(DType::F16, 0x1p-25) == 0.0);
  BOOST_TEST(round_to(DType::BF16, 3.4e38) == kInf);
  BOOST_TEST(float_to_bits(DType::F8E4M3, 1e6) == 0x7eu);
  BOOST_TEST(float_to_bits(DType::F8E4M3, -449.0) == 0xfeu);
  BOOST_TEST(float_to_bits(DType::F8E4M3, kInf) == 0x7fu);
  BOOST_TEST(float_to_bits(DType::F8E4M3, -kInf) == 0xffu);
  BOOST_TEST(float_to_bits(DType::F8E4M3, 0x1p-10) == 0u);
  BOOST_TEST(float_to_bits(DType::F8E4M3, std::nextafter(0x1p-10, 1.0)) == 1u);
  BOOST_TEST(float_to_bits(DType::F8E4M3, -0.0) == 0x80u);
  BOOST_TEST(float_to_bits(DType::F8E5M2, 65536.0) == 0x7bu);
  BOOST_TEST(float_to_bits(DType::F8E5M2, kInf) == 0x7cu);
  BOOST_TEST(float_to_bits(DType::F8E5M2, kNan) == 0x7fu);
  for (DType fnuz : {DType::F8E4M3FNUZ, DType::F8E5M2FNUZ}) {
    for (double x : {kInf, -kInf, kNan}) BOOST_TEST(float_to_bits(fnuz, x) == 0x80u);
    BOOST_TEST(float_to_bits(fnuz, -0.0) == 0u);
    BOOST_TEST(float_to_bits(fnuz, -1e-30) == 0u);
    BOOST_TEST(float_to_bits(fnuz, 1e30) == 0x7fu);
  }
  BOOST_TEST(round_to(DType::F8E4M3FNUZ, 1e30) == 240.0);
  BOOST_TEST(round_to(DType::F8E5M2FNUZ, -1e30) == -57344.0);
  BOOST_TEST(round_to(DType::F4E2M1, 100.0) == 6.0);
  BOOST_TEST(round_to(DType::F4E2M1, kNan) == 6.0);
  BOOST_TEST(round_to(DType::F4E2M1, -kInf) == -6.0);
  BOOST_TEST(float_to_bits(DType::F8E8M0, 0.0) == 0u);
  for (double x : {-1.0, kInf, -kInf, kNan}) BOOST_TEST(float_to_bits(DType::F8E8M0, x) == 255u);
  BOOST_TEST(round_to(DType::F8E8M0, 1e300) == 0x1p127);
}

BOOST_AUTO_TEST_CASE(nan_stays_nan_whatever_its_payload) {
  for (uint64_t payload : {uint64_t{1}, uint64_t{1} << 20, uint64_t{1} << 51, (uint64_t{1} << 52) - 1})
    for (uint64_t sign : {uint64_t{0}, uint64_t{1} << 63}) {
      double x = std::bit_cast<double>(sign | uint64_t{0x7ff} << 52 | payload);
      for (DType dtype : {DType::F16, DType::BF16, DType::F32, DType::F8E4M3, DType::F8E5M2,
                          DType::F8E4M3FNUZ, DType::F8E8M0})
        BOOST_TEST(std::isnan(float_from_bits(dtype, float_to_bits(dtype, x))), name(dtype));
    }
}

#if defined(__x86_64__)
BOOST_AUTO_TEST_CASE(results_do_not_depend_on_the_threads_flush_to_zero_and_rounding_mode) {
  unsigned before = _mm_getcsr();
  auto results = [](bool odd_mode, unsigned base) {
    std::vector<uint64_t> out;
    if (odd_mode) _mm_setcsr(base | 0x8040 | 0x6000); // flush to zero, denormals are zero, round toward zero
    for (double x : {1e-40, 0x1p-149, 0x1.8p-133, 1e-7, 0.1})
      for (DType dtype : {DType::F16, DType::BF16, DType::F8E4M3}) {
        out.push_back(float_to_bits(dtype, x));
        out.push_back(std::bit_cast<uint64_t>(float_from_bits(dtype, out.back())));
      }
    for (double x : {1e-40, 0x1p-149}) out.push_back(float_to_bits(DType::F32, x));
    out.push_back(std::bit_cast<uint64_t>(round_to(DType::F32, 1e-40)));
    if (odd_mode) _mm_setcsr(base);
    return out;
  };
  BOOST_TEST((results(false, before) == results(true, before)));
}
#endif
