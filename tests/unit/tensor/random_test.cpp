// Random numbers: the published vectors of the cipher, the numbers against a second implementation of it,
// distributions within fixed bounds, and what draws share.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <thread>

#include <boost/test/unit_test.hpp>

#include "device_runs.h"
#include "tolk/base/error.h"
#include "tolk/device/registry.h"
#include "tolk/tensor/random.h"
#include "tolk/uop/build.h"

using namespace tolk;

namespace {

// Written from the paper's description, word by word, apart from the library's.
uint64_t reference_threefry(uint64_t counter, uint64_t key) {
  uint32_t x0 = uint32_t(counter), x1 = uint32_t(counter >> 32), k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  uint32_t k2 = 0x1BD11BDAu ^ k0 ^ k1;
  x0 += k0, x1 += k1;
  auto four = [&](int a, int b, int c, int d) {
    for (int r : {a, b, c, d}) x0 += x1, x1 = std::rotl(x1, r) ^ x0;
  };
  four(13, 15, 26, 6), x0 += k1, x1 += k2 + 1;
  four(17, 29, 16, 24), x0 += k2, x1 += k0 + 2;
  four(13, 15, 26, 6), x0 += k0, x1 += k1 + 3;
  four(17, 29, 16, 24), x0 += k1, x1 += k2 + 4;
  four(13, 15, 26, 6), x0 += k2, x1 += k0 + 5;
  return uint64_t(x1) << 32 | x0;
}

uint64_t reference(uint64_t seed, uint32_t device, uint32_t draw, uint32_t i) {
  return reference_threefry(uint64_t(draw) << 32 | i, reference_threefry(device, seed));
}

std::vector<std::string> devices() {
  std::vector<std::string> names{"INTERP"};
#ifdef TOLK_TEST_CPU
  names.emplace_back("CPU");
#endif
  return names;
}

template <typename F> std::string refusal(F f) {
  try {
    f();
  } catch (const InvalidArgument& e) {
    return e.what();
  }
  return "not refused";
}

// chi-squared of counts against equal probabilities, in standard deviations from its mean.
double chi_deviation(const std::vector<int64_t>& counts) {
  double total = 0, chi = 0;
  for (int64_t c : counts) total += double(c);
  double expected = total / double(counts.size());
  for (int64_t c : counts) chi += (double(c) - expected) * (double(c) - expected) / expected;
  double freedom = double(counts.size()) - 1;
  return (chi - freedom) / std::sqrt(2 * freedom);
}

} // namespace

BOOST_AUTO_TEST_SUITE(random_numbers)

// Random123's kat_vectors, threefry 2x32 with 20 rounds.
BOOST_AUTO_TEST_CASE(the_cipher_gives_the_published_answers) {
  struct Vector {
    uint32_t counter[2], key[2], result[2];
  };
  for (const Vector& v :
       {Vector{{0, 0}, {0, 0}, {0x6b200159, 0x99ba4efe}},
        Vector{{0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}, {0x1cb996fc, 0xbb002be7}},
        Vector{{0x243f6a88, 0x85a308d3}, {0x13198a2e, 0x03707344}, {0xc4923a9c, 0x483df7a0}}}) {
    auto joined = [](const uint32_t* w) { return uint64_t(w[1]) << 32 | w[0]; };
    BOOST_TEST(reference_threefry(joined(v.counter), joined(v.key)) == joined(v.result));
    for (const std::string& device : devices()) {
      // Seven elements, so that vectors and what is left over are both used.
      Tensor counter = Tensor::from(std::vector<uint64_t>(7, joined(v.counter)), {7}, device),
             key = Tensor::from(std::vector<uint64_t>(7, joined(v.key)), {7}, device);
      for (uint64_t got : Tensor(alu(Op::THREEFRY, counter.node(), key.node())).values<uint64_t>())
        BOOST_TEST(got == joined(v.result), device);
    }
  }
}

BOOST_AUTO_TEST_CASE(draws_are_the_cipher_of_element_and_draw) {
  for (uint64_t seed : {uint64_t(0), uint64_t(42), uint64_t(0xfedcba9876543210)})
    for (const std::string& device : devices()) {
      manual_seed(seed);
      for (uint32_t draw : {0U, 1U, 2U}) {
        std::vector<uint64_t> got = random_bits({5, 3}, device).values<uint64_t>();
        for (uint32_t i = 0; i < 15; ++i)
          BOOST_TEST(got[i] == reference(seed, 0, draw, i), device << " " << draw);
      }
      std::vector<uint64_t> second = random_bits({4}, device + ":1").values<uint64_t>();
      for (uint32_t i = 0; i < 4; ++i) BOOST_TEST(second[i] == reference(seed, 1, 0, i), device);
    }
}

BOOST_AUTO_TEST_CASE(every_kind_of_number_follows_from_the_bits) {
  for (const std::string& device : devices()) {
    manual_seed(5);
    auto block = [&](uint32_t draw, uint32_t i) { return reference(5, 0, draw, i); };
    std::vector<float> f32 = rand({40}, DType::F32, device).values<float>();
    std::vector<double> f64 = rand({40}, DType::F64, device).values<double>();
    std::vector<float> f16 = rand({40}, DType::F16, device).values<float>();
    std::vector<float> bf16 = rand({40}, DType::BF16, device).values<float>();
    std::vector<float> f8 = rand({40}, DType::F8E4M3, device).values<float>();
    std::vector<int32_t> dice = randint({40}, 1, 7, DType::I32, device).values<int32_t>();
    std::vector<int64_t> wide =
        randint({40}, -4611686018427387904, 4611686018427387905, DType::I64, device).values<int64_t>();
    for (uint32_t i = 0; i < 40; ++i) {
      BOOST_TEST(f32[i] == std::ldexp(float(block(0, i) >> 40), -24));
      BOOST_TEST(f64[i] == std::ldexp(double(block(1, i) >> 11), -53));
      BOOST_TEST(f16[i] == std::ldexp(float(block(2, i) >> 53), -11));
      BOOST_TEST(bf16[i] == std::ldexp(float(block(3, i) >> 56), -8));
      BOOST_TEST(f8[i] == std::ldexp(float(block(4, i) >> 60), -4));
      BOOST_TEST(dice[i] == 1 + int32_t((unsigned __int128)block(5, i) * 6 >> 64));
      unsigned __int128 values = 9223372036854775809u;
      BOOST_TEST(wide[i] ==
                 -4611686018427387904 + int64_t(uint64_t((unsigned __int128)block(6, i) * values >> 64)));
    }
    // Box and Muller in double, against what the device computes.
    std::vector<float> normal = randn({40}, DType::F32, device).values<float>();
    std::vector<double> normal64 = randn({40}, DType::F64, device).values<double>();
    for (uint32_t i = 0; i < 40; ++i) {
      uint64_t b = block(7, i);
      double u = (double(b >> 40) + 0.5) * 0x1p-24, turn = double((b & 0xffffffff) >> 8) * 0x1p-24;
      BOOST_TEST(std::abs(normal[i] - std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * turn)) < 3e-6,
                 device);
      u = (double(block(8, i) >> 11) + 0.5) * 0x1p-53, turn = double(block(8, 40 + i) >> 11) * 0x1p-53;
      BOOST_TEST(std::abs(normal64[i] - std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * turn)) < 1e-13,
                 device);
    }
  }
}

BOOST_AUTO_TEST_CASE(devices_agree_bit_for_bit) {
  std::vector<std::vector<double>> all;
  for (const std::string& device : devices()) {
    manual_seed(11);
    std::vector<double> values;
    for (DType dtype : {DType::F16, DType::BF16, DType::F32, DType::F64, DType::F8E5M2})
      for (double v : uniform({9, 7}, -3, 5, dtype, device).values<double>()) values.push_back(v);
    for (double v : randint({33}, -100, 1000, DType::I16, device).values<double>()) values.push_back(v);
    all.push_back(values);
  }
  for (const auto& values : all) BOOST_TEST((values == all[0]));
}

BOOST_AUTO_TEST_CASE(uniform_numbers_are_uniform) {
  manual_seed(1);
  constexpr int64_t n = 40000;
  std::vector<double> v = rand({n}, DType::F32, "INTERP").values<double>();
  double sum = 0, square = 0, lag = 0;
  std::vector<int64_t> bins(64), pairs(256);
  for (size_t i = 0; i < v.size(); ++i) {
    BOOST_REQUIRE((v[i] >= 0 && v[i] < 1));
    sum += v[i], square += v[i] * v[i];
    ++bins[size_t(v[i] * 64)];
    if (i) lag += (v[i] - 0.5) * (v[i - 1] - 0.5), ++pairs[size_t(v[i] * 16) * 16 + size_t(v[i - 1] * 16)];
  }
  double sigma = std::sqrt(1.0 / 12 / n);
  BOOST_TEST(std::abs(sum / n - 0.5) < 4 * sigma);
  BOOST_TEST(std::abs(square / n - 1.0 / 3) < 4 * std::sqrt(4.0 / 45 / n));
  BOOST_TEST(std::abs(lag / (n - 1)) < 4.0 / 12 / std::sqrt(double(n)));
  BOOST_TEST(std::abs(chi_deviation(bins)) < 4);
  BOOST_TEST(std::abs(chi_deviation(pairs)) < 4);
}

BOOST_AUTO_TEST_CASE(every_bit_is_fair_and_draws_are_independent) {
  manual_seed(2);
  constexpr int64_t n = 8192;
  std::vector<uint64_t> a = random_bits({n}, "INTERP").values<uint64_t>(),
                        b = random_bits({n}, "INTERP").values<uint64_t>();
  double bound = 4.5 * std::sqrt(double(n)) / 2; // of 64 * 3 counts
  for (int bit = 0; bit < 64; ++bit) {
    int64_t ones = 0, equal_to_next = 0, equal_across = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      ones += a[i] >> bit & 1;
      equal_to_next += (a[i] >> bit & 1) == (a[i] >> ((bit + 1) % 64) & 1);
      equal_across += (a[i] >> bit & 1) == (b[i] >> bit & 1);
    }
    BOOST_TEST(std::abs(double(ones) - n / 2.0) < bound, bit);
    BOOST_TEST(std::abs(double(equal_to_next) - n / 2.0) < bound, bit);
    BOOST_TEST(std::abs(double(equal_across) - n / 2.0) < bound, bit);
  }
}

BOOST_AUTO_TEST_CASE(normal_numbers_are_normal) {
  manual_seed(3);
  constexpr int64_t n = 40000;
  for (DType dtype : {DType::F32, DType::F64}) {
    std::vector<double> v = randn({n}, dtype, "INTERP").values<double>();
    double m[5] = {};
    std::vector<int64_t> bins(50);
    for (double x : v) {
      for (int k = 1; k < 5; ++k) m[k] += std::pow(x, k) / n;
      double p = 0.5 * std::erfc(-x / std::sqrt(2.0));
      ++bins[std::min<size_t>(size_t(p * 50), 49)];
    }
    BOOST_TEST(std::abs(m[1]) < 4 * std::sqrt(1.0 / n));
    BOOST_TEST(std::abs(m[2] - 1) < 4 * std::sqrt(2.0 / n));
    BOOST_TEST(std::abs(m[3]) < 4 * std::sqrt(15.0 / n));
    BOOST_TEST(std::abs(m[4] - 3) < 4 * std::sqrt(96.0 / n));
    BOOST_TEST(std::abs(chi_deviation(bins)) < 4);
  }
}

BOOST_AUTO_TEST_CASE(integers_cover_their_range) {
  manual_seed(4);
  std::vector<int64_t> counts(7);
  for (int64_t v : randint({21000}, -3, 4, DType::I8, "INTERP").values<int64_t>()) {
    BOOST_REQUIRE((v >= -3 && v < 4));
    ++counts[size_t(v + 3)];
  }
  BOOST_TEST(std::abs(chi_deviation(counts)) < 4);
  for (int64_t v : randint({10}, 5, 6, DType::U8, "INTERP").values<int64_t>()) BOOST_TEST(v == 5);
  std::vector<int64_t> ends = randint({1000}, std::numeric_limits<int64_t>::min(),
                                      std::numeric_limits<int64_t>::max(), DType::I64, "INTERP")
                                  .values<int64_t>();
  BOOST_TEST(*std::min_element(ends.begin(), ends.end()) < std::numeric_limits<int64_t>::min() / 2);
  BOOST_TEST(*std::max_element(ends.begin(), ends.end()) > std::numeric_limits<int64_t>::max() / 2);
}

BOOST_AUTO_TEST_CASE(uniform_stays_below_its_upper_end) {
  manual_seed(6);
  // Seven of eight numbers would round to 1 in bf16.
  for (double v : uniform({4096}, 0.998, 1.0, DType::BF16, "INTERP").values<double>()) BOOST_REQUIRE(v < 1);
  for (double v : uniform({4096}, -2, 3, DType::F16, "INTERP").values<double>())
    BOOST_REQUIRE((v >= -2 && v < 3));
}

BOOST_AUTO_TEST_CASE(numbers_do_not_depend_on_when_they_are_computed) {
  manual_seed(8);
  Tensor a = random_bits({3}, "INTERP"), b = random_bits({3}, "INTERP"), dropped = random_bits({3}, "INTERP"),
         c = random_bits({3}, "INTERP");
  std::vector<uint64_t> got_c = c.values<uint64_t>(), got_a = a.values<uint64_t>(),
                        got_b = b.values<uint64_t>();
  for (uint32_t i = 0; i < 3; ++i) {
    BOOST_TEST(got_a[i] == reference(8, 0, 0, i));
    BOOST_TEST(got_b[i] == reference(8, 0, 1, i));
    BOOST_TEST(got_c[i] == reference(8, 0, 3, i));
  }
  // Computed again, a lazy draw is what it was; a second use of it is no second draw.
  BOOST_TEST((a.values<uint64_t>() == got_a));
  BOOST_TEST((equal(a, a).all().item() == 1));
}

BOOST_AUTO_TEST_CASE(seeds_start_anew_and_differ) {
  auto sequence = [](uint64_t seed) {
    manual_seed(seed);
    std::vector<float> v = rand({4}, DType::F32, "INTERP").values<float>(),
                       w = rand({4}, DType::F32, "INTERP").values<float>();
    v.insert(v.end(), w.begin(), w.end());
    return v;
  };
  BOOST_TEST((sequence(1) == sequence(1)));
  BOOST_TEST((sequence(1) != sequence(2)));
  std::vector<float> v = sequence(1);
  BOOST_TEST((std::set<float>(v.begin(), v.end()).size() == v.size()));
}

BOOST_AUTO_TEST_CASE(threads_share_a_sequence_without_repeating) {
  manual_seed(9);
  std::vector<std::vector<uint64_t>> got(4);
  std::vector<std::thread> threads;
  for (auto& out : got)
    threads.emplace_back([&out] {
      for (int i = 0; i < 8; ++i)
        for (uint64_t v : random_bits({4}, "INTERP").values<uint64_t>()) out.push_back(v);
    });
  for (std::thread& t : threads) t.join();
  std::set<uint64_t> seen, want;
  for (const auto& out : got) seen.insert(out.begin(), out.end());
  for (uint32_t draw = 0; draw < 32; ++draw)
    for (uint32_t i = 0; i < 4; ++i) want.insert(reference(9, 0, draw, i));
  BOOST_TEST((seen == want));
}

BOOST_AUTO_TEST_CASE(dropout_scales_what_it_keeps) {
  manual_seed(10);
  Tensor x = Tensor::from(std::vector<float>(10000, 3.f), {100, 100}, "INTERP");
  std::vector<float> v = dropout(x, 0.25).values<float>();
  int64_t dropped = 0;
  for (float e : v) {
    BOOST_REQUIRE((e == 0 || e == 4));
    dropped += e == 0;
  }
  BOOST_TEST(std::abs(double(dropped) - 2500) < 4 * std::sqrt(10000 * 0.25 * 0.75));
  BOOST_TEST((dropout(x, 0).values<float>() == std::vector<float>(10000, 3.f)));
  BOOST_TEST((dropout(x, 1).values<float>() == std::vector<float>(10000, 0.f)));
}

BOOST_AUTO_TEST_CASE(refusals_say_what_was_wrong) {
  auto contains = [](const std::string& text, const char* part) {
    BOOST_TEST(text.find(part) != std::string::npos, text << " does not contain " << part);
  };
  contains(refusal([] { rand({2}, DType::I32, "INTERP"); }), "i32");
  contains(refusal([] { randint({2}, 3, 3, DType::I32, "INTERP"); }), "low < high, got 3 and 3");
  contains(refusal([] { randint({2}, 0, 300, DType::U8, "INTERP"); }), "does not fit into u8");
  contains(refusal([] { randint({2}, -1, 3, DType::U64, "INTERP"); }), "does not fit into u64");
  contains(refusal([] { randint({2}, 0, 3, DType::F32, "INTERP"); }), "f32");
  contains(refusal([] { uniform({2}, 1, 1, DType::F32, "INTERP"); }), "low < high");
  contains(refusal([] { random_bits({int64_t(1) << 33}, "INTERP"); }), "2^32");
  contains(refusal([] { dropout(Tensor::ones({2}), 1.5); }), "0 to 1");
  // A refused draw does not count.
  manual_seed(12);
  refusal([] { randint({2}, 3, 3, DType::I32, "INTERP"); });
  BOOST_TEST(random_bits({1}, "INTERP").values<uint64_t>()[0] == reference(12, 0, 0, 0));
}

BOOST_AUTO_TEST_CASE(a_device_that_is_not_there_does_not_break_later_seeds) {
  BOOST_CHECK_THROW(rand({2}, DType::F32, "NOPE"), Error);
  BOOST_CHECK_NO_THROW(manual_seed(3));
  BOOST_CHECK_THROW(rand({2}, DType::F32, "HOST"), DeviceError);
}

BOOST_AUTO_TEST_CASE(a_list_of_devices_gets_the_first_ones_numbers) {
  manual_seed(11);
  std::vector<float> one = rand({6}, DType::F32, "INTERP").values<float>();
  manual_seed(11);
  Tensor both = rand({6}, DType::F32, "INTERP,INTERP:1");
  BOOST_TEST(both.device() == "INTERP,INTERP:1");
  BOOST_TEST(both.values<float>() == one, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(uniform_refuses_a_range_that_the_type_cannot_span) {
  BOOST_TEST(refusal([] { uniform({4}, -3e38, 3e38, DType::F32, "INTERP"); }).find("f32 can hold") !=
             std::string::npos);
  BOOST_TEST(refusal([] { uniform({4}, -40000, 40000, DType::F16, "INTERP"); }).find("f16 can hold") !=
             std::string::npos);
  for (double v : uniform({64}, -30000, 30000, DType::F16, "INTERP").values<double>())
    BOOST_REQUIRE(v >= -30000 && v < 30000);
}

BOOST_AUTO_TEST_SUITE_END()
