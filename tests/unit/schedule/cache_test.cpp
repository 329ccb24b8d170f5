#include <boost/test/unit_test.hpp>
#include <thread>

#include "schedule_support.h"
#include "tolk/base/error.h"

using namespace mini;
using namespace support;
using tolk::schedule::clear_schedule_cache;
using tolk::schedule::schedule_cache_counters;

namespace {
tolk::schedule::Options cached() {
  auto o = options();
  o.cache = true;
  return o;
}
using V = std::vector<double>;
} // namespace

BOOST_AUTO_TEST_CASE(an_equal_graph_is_found_and_computes_on_its_own_storage) {
  clear_schedule_cache();
  auto before = schedule_cache_counters();
  host::Memory memory;
  for (int i = 0; i < 3; ++i) {
    T x = buffer({4, 8}, DType::F64);
    memory.fill(storage(x), ramp(32, i));
    auto s = schedule({sum(x, {1}), softmax(x)}, cached());
    V want = values(softmax(x).u, memory);
    host::run_linear(s.linear, memory);
    BOOST_TEST(values(s.results[1], memory) == want, boost::test_tools::tolerance(1e-12)
                                                         << boost::test_tools::per_element());
  }
  auto after = schedule_cache_counters();
  BOOST_TEST(after.hits - before.hits == 2u);
  BOOST_TEST(after.misses - before.misses == 1u);
  BOOST_TEST(after.entries == 1u);
}

BOOST_AUTO_TEST_CASE(hits_and_misses_give_the_same_kernels) {
  clear_schedule_cache();
  T x = buffer({4, 8}), y = buffer({4, 8});
  auto miss = schedule({layer_norm(x)}, cached()), hit = schedule({layer_norm(y)}, cached()),
       none = schedule({layer_norm(y)});
  BOOST_REQUIRE_EQUAL(hit.linear.nsrc(), miss.linear.nsrc());
  for (size_t i = 0; i < hit.linear.nsrc(); ++i) {
    BOOST_TEST((hit.linear.src(i).src(0) == miss.linear.src(i).src(0)));
    BOOST_TEST((hit.linear.src(i).src(0) == none.linear.src(i).src(0)));
  }
}

BOOST_AUTO_TEST_CASE(the_setting_turns_it_off) {
  clear_schedule_cache();
  auto before = schedule_cache_counters();
  schedule({buffer({3}) + 1}, options());
  auto after = schedule_cache_counters();
  BOOST_TEST(after.entries == 0u);
  BOOST_TEST(after.hits + after.misses == before.hits + before.misses);
}

BOOST_AUTO_TEST_CASE(a_graph_that_is_refused_is_not_kept) {
  clear_schedule_cache();
  T a = buffer({1, 3});
  BOOST_CHECK_THROW(schedule({assign(expand(a, {2, 3}), full({2, 3}, 1))}, cached()), tolk::InvalidArgument);
  BOOST_TEST(schedule_cache_counters().entries == 0u);
}

BOOST_AUTO_TEST_CASE(two_runs_of_one_entry_share_no_temporaries) {
  T x = buffer({4, 8});
  auto a = schedule({softmax(x)}, cached()), b = schedule({softmax(x)}, cached());
  UOp arena_a = a.linear.src(0).src(1).src(0), arena_b = b.linear.src(0).src(1).src(0);
  BOOST_TEST((arena_a != arena_b));
}

BOOST_AUTO_TEST_CASE(nothing_is_left_behind_but_the_entries) {
  clear_schedule_cache();
  size_t nodes = tolk::global_node_count();
  {
    T x = buffer({4, 8});
    schedule({softmax(x)}, cached());
    schedule({softmax(x), sum(x)}, options());
  }
  clear_schedule_cache();
  // Shared constants live forever; nothing else may.
  size_t first = tolk::global_node_count();
  {
    T x = buffer({4, 8});
    schedule({softmax(x)}, cached());
    schedule({softmax(x), sum(x)}, options());
  }
  clear_schedule_cache();
  BOOST_TEST(tolk::global_node_count() == first);
  BOOST_TEST(first >= nodes);
}

BOOST_AUTO_TEST_CASE(threads_schedule_at_once) {
  clear_schedule_cache();
  std::vector<std::thread> threads;
  std::vector<std::string> texts(4);
  for (size_t i = 0; i < texts.size(); ++i)
    threads.emplace_back([&texts, i] {
      for (int n = 0; n < 20; ++n)
        texts[i] = listing(schedule({layer_norm(buffer({4, 8}))}, n % 2 ? cached() : options()).linear);
    });
  for (std::thread& t : threads) t.join();
  for (const std::string& text : texts) BOOST_TEST(text == texts[0]);
}
