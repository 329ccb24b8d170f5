#include <atomic>
#include <chrono>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "tolk/base/config.h"
#include "tolk/base/thread_pool.h"

using namespace tolk;

BOOST_AUTO_TEST_CASE(every_index_runs_once_whatever_the_number_of_threads) {
  for (unsigned threads : {0U, 1U, 2U, 7U, 64U})
    for (size_t count : {size_t{0}, size_t{1}, size_t{3}, size_t{1000}}) {
      std::vector<std::atomic<int>> seen(count);
      parallel_for(count, threads, [&](size_t i) { ++seen[i]; });
      int wrong = 0;
      for (auto& n : seen) wrong += n != 1;
      BOOST_TEST(wrong == 0, threads << " threads, " << count << " items");
    }
}

BOOST_AUTO_TEST_CASE(bodies_do_run_side_by_side) {
  // Each of two bodies waits for the other: with one thread this would wait for the deadline.
  std::atomic<int> arrived = 0;
  std::atomic<bool> met = true;
  parallel_for(2, 2, [&](size_t) {
    ++arrived;
    auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (arrived < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    if (arrived < 2) met = false;
  });
  BOOST_TEST(met.load());
}

BOOST_AUTO_TEST_CASE(the_first_exception_reaches_the_caller_and_the_rest_is_skipped) {
  for (unsigned threads : {1U, 4U}) {
    std::atomic<int> begun = 0;
    BOOST_CHECK_THROW(parallel_for(100000, threads,
                                   [&](size_t i) {
                                     ++begun;
                                     if (i == 5) throw std::runtime_error("five");
                                   }),
                      std::runtime_error);
    BOOST_TEST(begun < 100000);
  }
}

BOOST_AUTO_TEST_CASE(nested_loops_finish) {
  std::atomic<int> sum = 0;
  parallel_for(8, 4, [&](size_t) { parallel_for(8, 4, [&](size_t) { ++sum; }); });
  BOOST_TEST(sum == 64);
}

BOOST_AUTO_TEST_CASE(workers_see_the_callers_settings) {
  Config config = Config::current();
  config.debug = 0;
  config.no_opt = 1;
  config.parallel = 3;
  ScopedConfig scope(config);
  BOOST_TEST(compile_threads() == 3u);
  std::atomic<int> wrong = 0;
  parallel_for(64, 4, [&](size_t) {
    if (Config::current().no_opt != 1) ++wrong;
    std::this_thread::yield();
  });
  BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_CASE(loops_from_many_threads_at_once_do_not_mix) {
  std::vector<std::thread> callers;
  std::atomic<int> wrong = 0;
  for (int c = 0; c < 6; ++c)
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        std::atomic<size_t> sum = 0;
        parallel_for(17, 3, [&](size_t i) { sum += i; });
        if (sum != 136) ++wrong;
      }
    });
  for (auto& caller : callers) caller.join();
  BOOST_TEST(wrong == 0);
}
