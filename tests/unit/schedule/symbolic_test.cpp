// Sizes that are known only when the schedule runs.
#include <boost/test/unit_test.hpp>

#include "schedule_support.h"

using namespace mini;
using namespace support;

namespace {
using V = std::vector<double>;

// The first n rows of a buffer of 8.
T rows(const T& x, const UOp& n) {
  Shape begin(x.shape().size(), SInt(0)), size = x.shape();
  size[0] = SInt(n);
  return shrink(x, begin, size);
}
} // namespace

BOOST_AUTO_TEST_CASE(a_variable_stays_a_parameter_of_the_kernel) {
  UOp n = tolk::variable("n", 1, 8);
  T x = buffer({8, 4}, DType::F64);
  auto s = schedule({sum(rows(x, tolk::bind(n, 5)), {0})});
  BOOST_TEST(s.linear.nsrc() == 1u);
  BOOST_TEST(s.vars.size() == 1u);
  BOOST_TEST(s.vars.at("n") == 5);
  BOOST_TEST(listing(s.linear) == "p0[L0] = reduce_ADD(p1[L0+R1*4]; R1:n)   END(L0:4)\n");
  host::Memory memory;
  memory.fill(storage(x), ramp(32));
  for (int64_t value : {1, 5, 8}) {
    host::run_linear(s.linear, memory, {{"n", value}});
    V want(4, 0);
    for (int64_t r = 0; r < value; ++r)
      for (int64_t c = 0; c < 4; ++c) want[size_t(c)] += double(r * 4 + c);
    BOOST_TEST(values(s.results[0], memory) == want, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(symbolic_results_are_dense_at_the_start_of_storage_for_the_largest) {
  UOp n = tolk::variable("n", 1, 8), bound = tolk::bind(n, 3);
  T x = buffer({8, 4}, DType::F64), y = rows(x, bound) + 1;
  auto s = schedule({y});
  BOOST_TEST((tolk::shape_of(s.results[0]) == y.shape()));
  UOp buffer = tolk::storage_of(s.results[0]);
  BOOST_TEST(tolk::elements_of(buffer) == 32);
  host::Memory memory;
  memory.fill(storage(x), ramp(32));
  host::run_linear(s.linear, memory, s.vars);
  BOOST_TEST(values(s.results[0], memory, s.vars) == ramp(12, 1), boost::test_tools::per_element());
  V start = values(buffer, memory);
  start.resize(12);
  BOOST_TEST(start == ramp(12, 1), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(symbolic_sizes_flow_through_the_usual_operations) {
  UOp n = tolk::variable("n", 1, 8);
  T x = buffer({8, 4}, DType::F64), w = buffer({4, 3}, DType::F64), q = buffer({8, 2}, DType::F64);
  for (int64_t value : {1, 3, 8}) {
    UOp b = tolk::bind(n, value);
    T r = rows(x, b), p = rows(q, b);
    std::vector<T> roots{matmul(r, w),
                         softmax(r),
                         layer_norm(r),
                         transpose(r) * 2.0,
                         flip(r, {0}),
                         mini::reshape(r, {SInt(b) * SInt(2), 2}),
                         concat({r, x}, 0),
                         mini::reshape(r * 3.0, {SInt(b) * SInt(4)}),
                         sum(r),
                         attention(p, p, p),
                         cast(arange(SInt(b)), DType::F64)};
    host::Memory memory;
    memory.fill(storage(x), ramp(32, -7)), memory.fill(storage(w), ramp(12)),
        memory.fill(storage(q), ramp(16, -3));
    std::vector<V> want;
    host::Variables vars{{"n", value}};
    for (const T& t : roots) want.push_back(values(t.u, memory, vars));
    auto s = schedule(roots);
    host::run_linear(s.linear, memory, s.vars);
    for (size_t i = 0; i < roots.size(); ++i) {
      BOOST_TEST_INFO("root " << i << " with n = " << value << "\n" << listing(s.linear));
      BOOST_TEST((tolk::shape_of(s.results[i]) == roots[i].shape()));
      BOOST_TEST(values(s.results[i], memory, vars) == want[i], boost::test_tools::tolerance(1e-9)
                                                                    << boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(only_variables_of_kernels_are_reported) {
  UOp n = tolk::variable("n", 1, 8), m = tolk::variable("m", 1, 8);
  T x = buffer({8, 4}), y = buffer({8, 4});
  auto s = schedule({sum(rows(x, tolk::bind(n, 7)), {0}), rows(y, tolk::bind(m, 2))});
  BOOST_TEST(s.vars.size() == 1u);
  BOOST_TEST(s.vars.at("n") == 7);
}

BOOST_AUTO_TEST_CASE(a_variable_is_also_a_number) {
  UOp n = tolk::variable("n", 1, 8);
  T x = buffer({4}, DType::F64);
  T scaled = x / T{tolk::cast(tolk::bind(n, 4), DType::F64)};
  auto s = schedule({scaled});
  host::Memory memory;
  memory.fill(storage(x), {4, 8, 12, 16});
  host::run_linear(s.linear, memory, s.vars);
  BOOST_TEST(values(s.results[0], memory) == (V{1, 2, 3, 4}), boost::test_tools::per_element());
}
