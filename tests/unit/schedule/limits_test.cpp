// Limits of kernels and the splitting of reductions.
#include <boost/test/unit_test.hpp>

#include "schedule_support.h"
#include "tolk/base/error.h"

using namespace mini;
using namespace support;

namespace {
size_t most_arguments(const UOp& linear) {
  size_t most = 0;
  for (const UOp& call : linear.src()) most = std::max(most, call.nsrc() - 1);
  return most;
}
} // namespace

BOOST_AUTO_TEST_CASE(kernels_respect_the_limit_of_buffers) {
  std::vector<T> parts;
  for (int i = 0; i < 41; ++i) parts.push_back(buffer({4}, DType::F64));
  T total = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) total = total + parts[i];
  BOOST_TEST(schedule({total}).linear.nsrc() == 1u);
  auto o = options();
  o.max_kernel_buffers = buffer_limit(31);
  auto s = schedule({total}, o);
  BOOST_TEST(s.linear.nsrc() == 2u);
  BOOST_TEST(most_arguments(s.linear) <= 31u);
  for (int limit : {4, 5, 8}) {
    o.max_kernel_buffers = buffer_limit(limit);
    auto t = schedule({total}, o);
    BOOST_TEST(most_arguments(t.linear) <= size_t(limit));
    host::Memory memory;
    double sum = 0;
    for (size_t i = 0; i < parts.size(); ++i)
      memory.fill(storage(parts[i]), std::vector<double>(4, double(i))), sum += double(i);
    host::run_linear(t.linear, memory);
    BOOST_TEST(values(t.results[0], memory)[0] == sum);
  }
}

// Sums of hundreds of buffers, in the order of a chain, of a tree, and with values in common.
BOOST_AUTO_TEST_CASE(wide_values_respect_the_limit_however_they_are_built) {
  constexpr size_t n = 500;
  for (int limit : {4, 8, 31})
    for (int form = 0; form < 4; ++form) {
      std::vector<T> parts, at;
      host::Memory memory;
      double sum = 0;
      for (size_t i = 0; i < n; ++i) {
        parts.push_back(buffer({2}, DType::F64));
        memory.fill(storage(parts[i]), {double(i), 1});
      }
      T total = parts[0];
      if (form == 0) { // a chain
        for (size_t i = 1; i < n; ++i) total = total + parts[i];
        sum = double(n * (n - 1) / 2);
      } else if (form == 1) { // a tree
        for (at = parts; at.size() > 1;) {
          std::vector<T> next;
          for (size_t i = 0; i + 1 < at.size(); i += 2) next.push_back(at[i] + at[i + 1]);
          if (at.size() % 2) next.push_back(at.back());
          at = next;
        }
        total = at[0], sum = double(n * (n - 1) / 2);
      } else if (form == 2) { // every step uses the one before twice
        for (size_t i = 1; i < n; ++i) total = maximum(total, parts[i]) + (total - total) * 3.0;
        sum = n - 1;
      } else { // sums of neighbours, summed again
        std::vector<double> v;
        for (size_t i = 0; i < n; ++i) v.push_back(double(i));
        at = parts;
        for (int round = 0; round < 6; ++round) {
          std::vector<T> next;
          std::vector<double> w;
          for (size_t i = 0; i + 3 < at.size(); ++i)
            next.push_back(where(less(at[i], at[i + 1]), at[i + 2] - at[i], at[i + 3])),
                w.push_back(v[i] < v[i + 1] ? v[i + 2] - v[i] : v[i + 3]);
          at = next, v = w;
        }
        total = at[0], sum = v[0];
        for (size_t i = 1; i < at.size(); ++i) total = total + at[i], sum += v[i];
      }
      auto o = options();
      o.max_kernel_buffers = buffer_limit(limit);
      auto s = schedule({total}, o);
      BOOST_TEST(most_arguments(s.linear) <= size_t(limit), "limit " << limit << ", form " << form);
      if (form == 0) BOOST_TEST(s.linear.nsrc() <= n / size_t(limit - 2) + 2);
      host::run_linear(s.linear, memory);
      BOOST_TEST(values(s.results[0], memory)[0] == sum);
    }
}

BOOST_AUTO_TEST_CASE(values_in_temporaries_of_stores_in_cycles_respect_the_limit) {
  // In place each of the two has four buffers; a temporary for the value would be the fifth.
  auto o = options();
  o.max_kernel_buffers = buffer_limit(4);
  std::vector<T> p;
  host::Memory memory;
  for (int i = 0; i < 4; ++i) {
    p.push_back(buffer({4}, DType::F64));
    memory.fill(storage(p.back()), ramp(4, 10 * i));
  }
  auto s =
      schedule({assign(p[0], p[0] * p[1] + p[2] * p[3]), assign(p[1], p[1] - p[0] + p[2] / (p[3] + 1))}, o);
  BOOST_TEST(most_arguments(s.linear) <= 4u, listing(s.linear));
  host::run_linear(s.linear, memory);
  std::vector<double> first, second;
  for (double i = 0; i < 4; ++i) {
    first.push_back(i * (10 + i) + (20 + i) * (30 + i));
    second.push_back(10 + (20 + i) / (31 + i));
  }
  BOOST_TEST(values(storage(p[0]), memory) == first, boost::test_tools::per_element());
  BOOST_TEST(values(storage(p[1]), memory) == second, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(limits_that_no_kernel_can_respect_are_refused) {
  auto o = options();
  o.max_kernel_buffers = buffer_limit(3);
  BOOST_TEST(schedule({buffer({4}) + buffer({4})}, o).linear.nsrc() == 1u);
  T four = buffer({4}) + buffer({4}) + buffer({4});
  BOOST_CHECK_EXCEPTION(schedule({four}, o), tolk::InvalidArgument, [&](const auto& e) {
    return std::string(e.what()).find("needs 4 buffers, and a kernel on CPU takes 3") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(index_arithmetic_is_never_stored_for_the_limit) {
  auto o = options();
  o.max_kernel_buffers = buffer_limit(4);
  auto s = schedule(
      {concat({buffer({4, 4}), buffer({4, 4}), buffer({4, 4}), buffer({4, 4}), buffer({4, 4})}, 0)}, o);
  BOOST_TEST(most_arguments(s.linear) <= 4u);
  for (const UOp& call : s.linear.src()) BOOST_TEST(call.nsrc() - 1 >= 2u);
}

BOOST_AUTO_TEST_CASE(large_reductions_are_split_by_the_rule) {
  auto parts_of = [](const T& x, const Axes& axes) -> int64_t {
    auto s = schedule({sum(x, axes)});
    if (s.linear.nsrc() < 2) return 1;
    BOOST_TEST(s.linear.nsrc() == 2u);
    return tolk::elements_of(s.linear.src(0).src(1));
  };
  BOOST_TEST(parts_of(buffer({256, 256}), {}) == 256);
  BOOST_TEST(parts_of(buffer({32768}), {}) == 256);
  BOOST_TEST(parts_of(buffer({32767}), {}) == 1);
  BOOST_TEST(parts_of(buffer({65537}), {}) == 1); // prime
  BOOST_TEST(parts_of(buffer({40000}), {}) == 250);
  BOOST_TEST(parts_of(buffer({16, 32768}), {1}) == 16 * 256);
  BOOST_TEST(parts_of(buffer({65536, 16}), {0}) == 16 * 256);
  auto o = options();
  o.split_reduce = false;
  BOOST_TEST(schedule({sum(buffer({256, 256}))}, o).linear.nsrc() == 1u);
}

BOOST_AUTO_TEST_CASE(axes_along_which_a_value_repeats_are_not_split) {
  T x = expand(mini::reshape(buffer({4}), {1, 4}), {100000, 4});
  BOOST_TEST(schedule({sum(x, {0})}).linear.nsrc() == 1u);
  // Of integers the loop vanishes: the bug of a view's index that overflows 32 bits.
  T wide = expand(mini::reshape(buffer({3}, DType::I64), {1, 3}), {(int64_t(1) << 30) + 1, 3});
  auto s = schedule({sum(wide, {0})});
  BOOST_TEST(listing(s.linear).find("reduce") == std::string::npos);
  host::Memory memory;
  for (const UOp& call : s.linear.src()) memory.fill(call.src(2), {0, 1, 2});
  host::run_linear(s.linear, memory);
  BOOST_TEST(values(s.results[0], memory) == (std::vector<double>{0, 1073741825, 2147483650}),
             boost::test_tools::per_element());
  T ones = expand(cast(full({1, 1}, 1, DType::U8), DType::I64), {70000, 70000});
  auto t = schedule({sum(ones)});
  host::run_linear(t.linear, memory);
  BOOST_TEST(values(t.results[0], memory)[0] == 4900000000.0);
}
