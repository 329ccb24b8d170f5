// Work-group sizes by timing: rows, RG-03, RG-04.
#include <algorithm>
#include <map>
#include <set>

#include <boost/test/unit_test.hpp>

#include "engine_support.h"
#include "test_backend.h"
#include "test_kernels.h"
#include "tolk/base/error.h"
#include "tolk/engine/compile/local_size.h"
#include "tolk/engine/run/run_linear.h"

using namespace tolk;
using namespace tolk::engine;
using namespace tolk::test;

namespace {

using Size = std::array<int64_t, 3>;

LocalSizeProblem problem(std::vector<int64_t> global, bool non_uniform = true, uint64_t seed = 7) {
  LocalSizeProblem p;
  p.global = std::move(global);
  p.non_uniform_groups = non_uniform;
  p.seed = seed;
  return p;
}

std::vector<Size> tried(const LocalSizeProblem& p) {
  std::vector<Size> log;
  optimize_local_size(p, [&](std::span<const BufferRef>, Size, Size local) -> std::optional<double> {
    log.push_back(local);
    return 1.0;
  });
  return log;
}

int64_t product(const Size& s) { return s[0] * s[1] * s[2]; }

} // namespace

BOOST_AUTO_TEST_CASE(the_sizes_that_are_tried, *boost::unit_test::label("R-02")) {
  std::vector<Size> log = tried(problem({12, 5, 1}));
  std::set<Size> sizes(log.begin(), log.end()), expected;
  for (int64_t x : {1, 2, 4, 8, 12})
    for (int64_t y : {1, 2, 4, 5}) expected.insert({x, y, 1});
  BOOST_TEST((sizes == expected));
  // The product is at most 1024, and so is every axis.
  for (const Size& s : tried(problem({4096, 4096, 64}))) BOOST_REQUIRE(product(s) <= 1024);
  // Without non-uniform groups only sizes that divide are launched.
  std::vector<Size> dividing = tried(problem({12, 5, 1}, false));
  std::set<Size> uniform(dividing.begin(), dividing.end()), wanted;
  for (int64_t x : {1, 2, 4, 12})
    for (int64_t y : {1, 5}) wanted.insert({x, y, 1});
  BOOST_TEST((uniform == wanted));
}

BOOST_AUTO_TEST_CASE(each_size_twice_in_a_reproducible_random_order, *boost::unit_test::label("R-03")) {
  std::vector<Size> log = tried(problem({64, 8, 1})), again = tried(problem({64, 8, 1}));
  std::map<Size, int> counts;
  for (const Size& s : log) ++counts[s];
  for (const auto& [size, n] : counts) BOOST_TEST(n == 2);
  BOOST_TEST((log == again));
  std::vector<Size> sorted = log;
  std::sort(sorted.begin(), sorted.end());
  BOOST_TEST((log != sorted));
  BOOST_TEST((tried(problem({64, 8, 1}, true, 8)) != log));
}

BOOST_AUTO_TEST_CASE(the_fastest_wins, *boost::unit_test::label("R-04")) {
  // A table with one minimum, which shows in the first or the second try only.
  for (int good : {1, 2})
    for (uint64_t seed : {7U, 8U, 9U}) {
      std::map<Size, int> seen;
      auto trial = [&](std::span<const BufferRef>, Size, Size local) -> std::optional<double> {
        int nth = ++seen[local];
        if (local == Size{4, 2, 1}) return nth == good ? 0.5 : 9.0;
        return 1.0 + double(product(local)) / 1000;
      };
      BOOST_TEST((optimize_local_size(problem({16, 8}, true, seed), trial) == std::vector<int64_t>{4, 2}));
    }
  // Ties go to the larger product, then to the smaller axes.
  auto equal = [](std::span<const BufferRef>, Size, Size) -> std::optional<double> { return 1.0; };
  BOOST_TEST((optimize_local_size(problem({2, 2, 1}), equal) == std::vector<int64_t>{2, 2, 1}));
  BOOST_TEST((optimize_local_size(problem({1024, 2}), equal) == std::vector<int64_t>{512, 2}));
  BOOST_TEST(optimize_local_size(problem({}), equal).empty());
}

BOOST_AUTO_TEST_CASE(the_output_is_scratch_when_it_occurs_again, *boost::unit_test::label("R-05")) {
  Device& d = tb().open();
  BufferRef a = int_buffer(d, {1, 2, 3, 4}), b = int_buffer(d, {5, 6, 7, 8});
  LocalSizeProblem p = problem({4});
  p.buffers = {a, b, a};
  int trials = 0;
  optimize_local_size(p, [&](std::span<const BufferRef> used, Size, Size) -> std::optional<double> {
    ++trials;
    BOOST_TEST((used[0]->base_id() != a->base_id() && used[1] == b && used[2] == a));
    BOOST_TEST((used[0]->count() == 4 && used[0]->dtype() == DType::I32 && &used[0]->device() == &d));
    fill_buffer(*used[0], 0, 4);
    return 1.0;
  });
  BOOST_TEST(trials > 0);
  BOOST_TEST((ints(*a) == std::vector<int32_t>{1, 2, 3, 4}));
  // A view of the same base counts as the same buffer.
  p.buffers = {a, view_buffer(a, DType::I32, 2, 8)};
  optimize_local_size(p, [&](std::span<const BufferRef> used, Size, Size) -> std::optional<double> {
    BOOST_TEST(used[0]->base_id() != a->base_id());
    return 1.0;
  });
}

BOOST_AUTO_TEST_CASE(what_the_kernel_writes_is_scratch, *boost::unit_test::label("R-06")) {
  Device& d = tb().open();
  ProgramRef bump = load_kernel(d, "kernel bump\nparam buffer i32 rw 0\n%0 = PARAM i32 [0]\n"
                                   "%1 = SPECIAL i32 [0, 0]\n%2 = LOAD i32 %0 %1\n%3 = CONST i32 1\n"
                                   "%4 = ADD i32 %2 %3\n%5 = STORE i32 %0 %1 %4\n");
  BufferRef a = int_buffer(d, {1, 2, 3, 4});
  LocalSizeProblem p = problem({4});
  p.buffers = {a};
  p.written = {0};
  uint64_t live = d.memory().live_bytes;
  optimize_local_size(p, [&](std::span<const BufferRef> used, Size, Size) -> std::optional<double> {
    launch(bump, {used[0]});
    return 1.0;
  });
  BOOST_TEST((ints(*a) == std::vector<int32_t>{1, 2, 3, 4}));
  BOOST_TEST(d.memory().live_bytes == live);
}

BOOST_AUTO_TEST_CASE(when_every_trial_fails, *boost::unit_test::label("R-07")) {
  auto fails = [](std::span<const BufferRef>, Size, Size) -> std::optional<double> {
    throw DeviceError("boom");
  };
  auto no_time = [](std::span<const BufferRef>, Size, Size) -> std::optional<double> { return {}; };
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { optimize_local_size(problem({8}), fails); }),
                      "all optimize_local_size exec failed"));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { optimize_local_size(problem({8}), no_time); }),
                      "all optimize_local_size exec failed"));
}

BOOST_AUTO_TEST_CASE(sizes_that_fail_lose, *boost::unit_test::label("R-08")) {
  auto odd_fail = [](std::span<const BufferRef>, Size, Size local) -> std::optional<double> {
    if (product(local) % 2 == 1) throw DeviceError("odd");
    return product(local) == 2 ? 0.1 : 1.0;
  };
  BOOST_TEST((optimize_local_size(problem({8, 3}), odd_fail) == std::vector<int64_t>{2, 1} ||
              optimize_local_size(problem({8, 3}), odd_fail) == std::vector<int64_t>{1, 2}));
  BOOST_TEST((optimize_local_size(problem({8}), odd_fail) == std::vector<int64_t>{2}));
}

namespace {

// a[i] = a[i] + 1 for every work-item i.
const char* const kBump = "kernel bump_items\nparam buffer i32 rw 0\n%0 = PARAM i32 [0]\n"
                          "%1 = SPECIAL i32 [0, 0]\n%2 = SPECIAL i32 [256, 0]\n%3 = CONST i32 LOCAL\n"
                          "%4 = MUL i32 %1 %3\n%5 = ADD i32 %4 %2\n%6 = LOAD i32 %0 %5\n%7 = CONST i32 1\n"
                          "%8 = ADD i32 %6 %7\n%9 = STORE i32 %0 %5 %8\n";

} // namespace

BOOST_AUTO_TEST_CASE(tuning_leaves_data_alone, *boost::unit_test::label("RG-03")) {
  TestBackend& x = tb();
  x.reset();
  clear_caches();
  Device& d = x.open();
  // One work-item of a group works: what the group's size is does not matter to the result.
  UOp program = flat_program(d, {.text = "kernel bump_groups\nparam buffer i32 rw 12\n%0 = PARAM i32 [0]\n"
                                         "%1 = SPECIAL i32 [0, 0]\n%2 = LOAD i32 %0 %1\n%3 = CONST i32 1\n"
                                         "%4 = ADD i32 %2 %3\n%5 = STORE i32 %0 %1 %4\n",
                                 .grid = {12, 1, 1},
                                 .local_free = true});
  LaunchTimes times(x, [](const tb_record& r) { return r.local[0] == 1 ? 10U : 100U + r.local[0]; });
  UOp a = int_storage(std::vector<int32_t>(12, 5), d.name());
  UOp compiled = compile_linear(d, {}, linear_of({call_of(program, {a})}));
  BOOST_TEST(x.counters(d).launches > 1U); // it was tuned
  BOOST_TEST((ints_of(a) == std::vector<int32_t>(12, 5)));
  const ProgramEntry& entry = program_entry(compiled.src(0).src(0));
  BOOST_TEST((!entry.local_free && entry.info.local[0] == 1 && entry.info.grid[0] == 12));
  BufferBinding binding(d);
  run_linear(binding, compiled);
  BOOST_TEST((ints_of(a) == std::vector<int32_t>(12, 6)));
  // The result is kept: compiling the original again launches nothing, and compiling twice changes nothing.
  uint64_t launches = x.counters(d).launches;
  BOOST_TEST((compile_linear(d, {}, linear_of({call_of(program, {a})})) == compiled));
  BOOST_TEST((compile_linear(d, {}, compiled) == compiled));
  BOOST_TEST(x.counters(d).launches == launches);
}

// Sizes that depend on variables are never tuned, because they differ by run: such a kernel takes groups of
// one, which no extent can be cut off by. A fixed local size with symbolic groups: R_45 of graph_runner_test.
BOOST_AUTO_TEST_CASE(a_symbolic_extent_is_not_truncated, *boost::unit_test::label("RG-04")) {
  TestBackend& x = tb();
  x.reset();
  Device& d = x.open();
  UOp n = variable("n", 1, 64);
  std::string text = kBump;
  text.replace(text.find("LOCAL"), 5, "1");
  text.replace(text.find("rw 0"), 4, "rw 64");
  UOp program = flat_program(d, {.text = text, .grid = {64, 1, 1}, .symbolic = {n}, .local_free = true});
  UOp a = int_storage(std::vector<int32_t>(64, 0), d.name());
  UOp linear = linear_of({call_of(program, {a})});
  BufferBinding binding(d);
  for (int64_t extent : {12, 13}) {
    run_linear(binding, linear, {.var_vals = {{"n", extent}}});
    tb_record last = x.launches().back();
    BOOST_TEST((last.grid[0] == extent && last.local[0] == 1));
  }
  std::vector<int32_t> expected(64, 0);
  for (size_t i = 0; i < 13; ++i) expected[i] = i < 12 ? 2 : 1;
  BOOST_TEST((ints_of(a) == expected));
}
