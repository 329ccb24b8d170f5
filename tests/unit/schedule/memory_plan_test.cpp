// Plans of whole LINEARs.
#include "tolk/schedule/memory/memory_plan.h"

#include <boost/test/unit_test.hpp>
#include <ctime>
#include <random>

#include "graph_kernels.h"
#include "schedule_support.h"
#include "tolk/base/error.h"

using namespace mini;
using namespace support;
using tolk::schedule::MemoryPlanStats;
using tolk::schedule::plan_memory;

namespace {

UOp kernel(const std::vector<UOp>& arguments) { return add_kernel(arguments); }
UOp copy(const UOp& to, const UOp& from) { return copy_call(to, from); }
UOp list(const std::vector<UOp>& calls) { return tolk::linear(calls); }

} // namespace

BOOST_AUTO_TEST_CASE(temporaries_become_slices_and_user_buffers_stay) {
  UOp x = user(100), a = internal(100), b = internal(100), out = user(100);
  UOp planned = plan_memory(list({kernel({a, x}), kernel({b, a}), kernel({out, b})}));
  BOOST_TEST((planned.src(0).src(2) == x));
  BOOST_TEST((planned.src(2).src(1) == out));
  UOp slice = planned.src(0).src(1);
  BOOST_REQUIRE(slice.is(Op::SLICE));
  BOOST_TEST(tolk::elements_of(slice) == 100);
  BOOST_TEST((slice.dtype() == DType::F32));
  BOOST_TEST((planned.src(1).src(2) == slice));
  BOOST_TEST((planned.src(0).src(0) == list({kernel({a, x})}).src(0).src(0)));
}

BOOST_AUTO_TEST_CASE(a_chain_needs_two_places) {
  std::vector<UOp> calls;
  UOp at = user(1000);
  for (int i = 0; i < 6; ++i) {
    UOp next = internal(1000);
    calls.push_back(kernel({next, at}));
    at = next;
  }
  calls.push_back(kernel({user(1000), at}));
  MemoryPlanStats stats;
  plan_memory(list(calls), {}, &stats);
  BOOST_TEST(stats.buffers == 6u);
  BOOST_TEST(stats.arenas == 1u);
  BOOST_TEST(stats.bytes_before == 24000);
  BOOST_TEST(stats.bytes_after == 2 * 4096);
}

BOOST_AUTO_TEST_CASE(held_buffers_are_compared_by_identity) {
  UOp x = user(8), a = internal(8), b = internal(8);
  UOp planned = plan_memory(list({kernel({a, x}), kernel({b, a}), kernel({x, b})}), std::span(&a, 1));
  BOOST_TEST((planned.src(0).src(1) == a));
  BOOST_TEST(planned.src(1).src(1).is(Op::SLICE));
  std::vector<UOp> all{a, b};
  UOp same = list({kernel({a, x}), kernel({b, a})});
  BOOST_TEST((plan_memory(same, all) == same));
  UOp other = kernel({a, x});
  BOOST_TEST((plan_memory(other) == other));
}

BOOST_AUTO_TEST_CASE(contents_from_elsewhere_are_kept) {
  UOp state = internal(8), out = user(8);
  UOp planned = plan_memory(list({kernel({out, state}), kernel({state, out})}));
  BOOST_TEST((planned.src(0).src(2) == state));
}

BOOST_AUTO_TEST_CASE(devices_and_copies_have_lanes_of_their_own) {
  UOp x = user(64), a = internal(64), there = internal(64, "CPU:1"), b = internal(64, "CPU:1"),
      out = user(64, "CPU:1");
  MemoryPlanStats stats;
  UOp planned =
      plan_memory(list({kernel({a, x}), copy(there, a), kernel({b, there}), kernel({out, b})}), {}, &stats);
  BOOST_TEST(stats.arenas == 3u); // CPU copies, CPU:1 copies, CPU:1 kernels
  UOp arena = planned.src(1).src(1).src(0);
  BOOST_TEST(tolk::device_text(arena) == "CPU:1");
  BOOST_TEST((arena != planned.src(2).src(1).src(0)));
}

BOOST_AUTO_TEST_CASE(a_copied_buffer_is_not_reused_at_once) {
  std::vector<UOp> calls;
  UOp out = user(64, "CPU:1");
  std::vector<UOp> staged;
  for (int i = 0; i < 6; ++i) {
    UOp x = user(64), there = internal(64, "CPU:1");
    staged.push_back(there);
    calls.push_back(copy(there, x));
    calls.push_back(kernel({out, there}));
  }
  UOp planned = plan_memory(list(calls));
  // In use at 2i and 2i+1, then two more calls.
  for (size_t i = 0; i + 1 < staged.size(); ++i)
    BOOST_TEST(planned.src(2 * i).src(1).arg().i(0) != planned.src(2 * i + 2).src(1).arg().i(0));
  BOOST_TEST(planned.src(0).src(1).arg().i(0) == planned.src(4).src(1).arg().i(0));
}

BOOST_AUTO_TEST_CASE(buffers_filled_from_the_host_are_left_to_the_device) {
  UOp host = user(64, "HOST"), here = internal(64), out = user(64);
  UOp linear = list({copy(here, host), kernel({out, here})});
  BOOST_TEST((plan_memory(linear) == linear));
}

BOOST_AUTO_TEST_CASE(slices_of_temporaries_are_moved_with_them) {
  UOp x = user(64), a = internal(64), b = internal(64);
  UOp part = tolk::slice_node(a, DType::F32, 128, 16);
  UOp planned = plan_memory(list({kernel({b, x}), kernel({a, b}), kernel({x, part})}));
  UOp whole = planned.src(1).src(1), moved = planned.src(2).src(2);
  BOOST_TEST((moved.src(0) == whole.src(0)));
  BOOST_TEST(moved.arg().i(0) == whole.arg().i(0) + 128);
  BOOST_TEST(tolk::elements_of(moved) == 16);
}

BOOST_AUTO_TEST_CASE(sizes_that_do_not_fit_are_refused) {
  UOp x = user(1), a = internal(int64_t(1) << 61), b = internal(int64_t(1) << 62);
  BOOST_CHECK_THROW(plan_memory(list({kernel({b, x})})), tolk::InvalidArgument);
  BOOST_CHECK_THROW(plan_memory(list({kernel({a, x})})), tolk::InvalidArgument);
  UOp big = internal(int64_t(1) << 43);
  BOOST_CHECK_NO_THROW(plan_memory(list({kernel({big, x})})));
}

BOOST_AUTO_TEST_CASE(plans_are_deterministic_and_values_survive_them) {
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    std::vector<UOp> calls, made{user(4)};
    size_t count = 3 + random() % 20;
    for (size_t i = 0; i < count; ++i) {
      UOp next = i + 1 == count ? user(4) : internal(int64_t(random() % 200) + 4);
      std::vector<UOp> arguments{next};
      for (int k = 0; k < 3; ++k)
        arguments.push_back(made[made.size() - 1 - random() % std::min<size_t>(made.size(), 4)]);
      calls.push_back(kernel(arguments));
      made.push_back(next);
    }
    UOp plain = list(calls), planned = plan_memory(plain), again = plan_memory(plain);
    host::Memory a, b;
    a.fill(made[0], {1, 2, 3, 4}), b.fill(made[0], {1, 2, 3, 4});
    host::run_linear(plain, a), host::run_linear(planned, b);
    BOOST_REQUIRE_EQUAL(a.get(made.back(), 0).f, b.get(made.back(), 0).f);
    for (size_t i = 0; i < calls.size(); ++i)
      if (planned.src(i).src(1).is(Op::SLICE))
        BOOST_REQUIRE((planned.src(i).src(1).arg() == again.src(i).src(1).arg()));
  }
}

BOOST_AUTO_TEST_CASE(planning_grows_with_the_number_of_calls) {
  auto seconds = [](int count) {
    std::mt19937 random(5);
    std::vector<UOp> calls, made{user(4)};
    for (int i = 0; i < count; ++i) {
      UOp next = internal(int64_t(random() % 5000) + 1);
      calls.push_back(
          kernel({next, made.back(), made[made.size() - 1 - random() % std::min<size_t>(made.size(), 20)]}));
      made.push_back(next);
    }
    UOp linear = list(calls);
    double best = 1e9;
    for (int i = 0; i < 3; ++i) {
      std::clock_t begin = std::clock(); // of the processor, not of the clock on the wall
      plan_memory(linear);
      best = std::min(best, double(std::clock() - begin) / CLOCKS_PER_SEC);
    }
    return best;
  };
  double few = seconds(1000), many = seconds(10000);
  BOOST_TEST_MESSAGE("1000 calls " << few * 1e3 << " ms, 10000 calls " << many * 1e3 << " ms");
  BOOST_TEST(many < 25 * few);
}
