// What a run counts and prints: rows R-48, E-02.
#include <unistd.h>

#include <cstdio>
#include <regex>

#include <boost/test/unit_test.hpp>

#include "engine_support.h"
#include "test_backend.h"
#include "test_kernels.h"
#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/engine/run/run_linear.h"
#include "tolk/engine/run/statistics.h"

using namespace tolk;
using namespace tolk::engine;
using namespace tolk::test;

namespace {

// What `body` writes to standard error.
std::string stderr_of(const std::function<void()>& body) {
  std::fflush(stderr);
  int saved = dup(2);
  FILE* file = std::tmpfile();
  dup2(fileno(file), 2);
  body();
  std::fflush(stderr);
  dup2(saved, 2);
  close(saved);
  std::string text(size_t(std::ftell(file)), '\0');
  text.resize(size_t(lseek(fileno(file), 0, SEEK_END)));
  std::rewind(file);
  size_t got = std::fread(text.data(), 1, text.size(), file);
  text.resize(got);
  std::fclose(file);
  return text;
}

} // namespace

BOOST_AUTO_TEST_CASE(debug_2_waits_for_every_launch, *boost::unit_test::label("R-48")) {
  TestBackend& x = tb();
  x.reset();
  Device& d = x.open();
  UOp a = int_storage({1, 2}, d.name()), b = new_ints(2, d.name());
  UOp linear = linear_of({add_call(b, a, 5), add_call(a, b, 6)});
  BufferBinding binding(d);
  run_linear(binding, linear);
  for (const tb_record& r : x.launches()) BOOST_TEST(r.timed == 0U);
  Config verbose = Config::current();
  verbose.debug = 2;
  size_t before = x.launches().size();
  stderr_of([&] {
    ScopedConfig scope(verbose);
    run_linear(binding, linear);
  });
  std::vector<tb_record> launches = x.launches();
  BOOST_REQUIRE(launches.size() == before + 2);
  for (size_t i = before; i < launches.size(); ++i) BOOST_TEST(launches[i].timed == 1U);
}

BOOST_AUTO_TEST_CASE(statistics_count_launches_operations_and_bytes) {
  TestBackend& x = tb();
  std::string one = x.open_name(), two = x.open_name(), both = one + "," + two;
  UOp a = internal_ints(8, both), b = internal_ints(8, both), c = internal_ints(8, one), d = new_ints(8, two);
  BufferBinding binding(device(one));
  for (const BufferRef& shard : shards_of(binding, a)->shards()) shard->allocate();
  UOp linear = linear_of({add_call(b, a, 1), copy_call(d, c)});
  GlobalCounters::reset();
  run_linear(binding, linear);
  GlobalCounters now = GlobalCounters::get();
  BOOST_TEST(now.kernel_count == 3); // two positions and a copy
  BOOST_TEST(now.global_ops == 2 * 8);
  BOOST_TEST(now.global_mem == 2 * (32 + 32) + 32);
  BOOST_TEST(now.time_sum_s == 0.0);
  BOOST_TEST((now.mem_used_per_device.at(one) == 4 * 32 - 32 && now.mem_used_per_device.at(two) == 3 * 32));
  run_linear(binding, linear, {.update_stats = false});
  BOOST_TEST(GlobalCounters::get().kernel_count == 3);
  run_linear(binding, linear);
  BOOST_TEST(GlobalCounters::get().kernel_count == 6);
  GlobalCounters::reset();
  now = GlobalCounters::get();
  BOOST_TEST((now.kernel_count == 0 && now.global_ops == 0 && now.mem_used > 0));
  BOOST_TEST(count_kernels(linear) == 2U);
}

BOOST_AUTO_TEST_CASE(memory_returns_with_the_binding) {
  Device& d = tb().open();
  int64_t before = GlobalCounters::get().mem_used;
  {
    UOp a = internal_ints(100, d.name()), b = internal_ints(100, d.name());
    BufferBinding binding(d);
    resolve(binding, {}, a)->allocate();
    run_linear(binding, linear_of({add_call(b, a, 1)}));
    BOOST_TEST(GlobalCounters::get().mem_used == before + 800);
  }
  BOOST_TEST(GlobalCounters::get().mem_used == before);
}

BOOST_AUTO_TEST_CASE(debug_2_prints_a_line_for_each_launch_and_copy, *boost::unit_test::label("E-02")) {
  TestBackend& x = tb();
  std::string one = x.open_name(), two = x.open_name();
  UOp a = int_storage(std::vector<int32_t>(100, 1), one), b = new_ints(100, one), c = new_ints(100, two);
  UOp pair = internal_ints(100, one + "," + two), sum = internal_ints(100, one + "," + two);
  UOp linear = linear_of({add_call(b, a, 5), copy_call(c, b), add_call(sum, pair, 1)});
  BufferBinding binding(device(one));
  BOOST_TEST(stderr_of([&] { run_linear(binding, linear); }).empty());
  Config verbose = Config::current();
  verbose.debug = 2;
  setenv("NO_COLOR", "1", 1);
  std::string text = stderr_of([&] {
    ScopedConfig scope(verbose);
    GlobalCounters::reset();
    run_linear(binding, linear);
  });
  unsetenv("NO_COLOR");
  std::vector<std::string> lines;
  std::regex line(
      R"(\*\*\* (\S+) +(\d+) (.*?) +arg +(\d+) mem +[0-9.]+ GB tm +[0-9.]+us/ *[0-9.]+ms \(.*GFLOPS.*GB/s\))");
  size_t count = 0;
  std::vector<std::string> expected = {one, two, one, two};
  for (std::sregex_iterator it(text.begin(), text.end(), line), end; it != end; ++it, ++count) {
    BOOST_REQUIRE(count < expected.size());
    BOOST_TEST((*it)[1].str() == expected[count].substr(0, 7));
    BOOST_TEST((*it)[2].str() == std::to_string(count + 1));
    BOOST_TEST((*it)[4].str() == "2");
    if (count == 1) BOOST_TEST((*it)[3].str().rfind("copy      400", 0) == 0U, (*it)[3].str());
    if (count == 0) BOOST_TEST((*it)[3].str().rfind("e_", 0) == 0U, (*it)[3].str());
  }
  BOOST_TEST(count == 4U, text);
  // DEBUG=3 shows the opts of kernels that run for the first time in the binding.
  verbose.debug = 3;
  UOp d = new_ints(100, one);
  UOp fresh = linear_of({add_call(d, a, 5)});
  for (const char* expected_words : {"opts of e_", ""}) {
    text = stderr_of([&] {
      ScopedConfig scope(verbose);
      run_linear(binding, fresh);
    });
    BOOST_TEST(contains(text, "opts of e_") == (*expected_words != 0), text);
  }
}
