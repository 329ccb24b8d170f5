// Work-groups and work-items: indices, work-group storage, barriers.
#include <numeric>
#include <thread>

#include <boost/test/unit_test.hpp>

#include "harness.h"

using namespace tolk;
using namespace tolk::test;

BOOST_AUTO_TEST_SUITE(groups)

BOOST_AUTO_TEST_CASE(every_item_of_every_group_runs_once_with_its_indices) {
  // out[((gz*2+gy)*3+gx)*8 + (lz*2+ly)*2+lx] += 1 + lx + 10*ly + 100*lz + 1000*gx + 10000*gy + 100000*gz
  std::string text = "param buffer i64 rw 0\n%0 = PARAM i64 [0]\n";
  int number = 1;
  auto add = [&](const std::string& line) {
    text += "%" + std::to_string(number) + " = " + line + "\n";
    return "%" + std::to_string(number++);
  };
  auto constant = [&](int value) { return add("CONST i64 " + std::to_string(value)); };
  std::string place = constant(0), value = constant(1);
  // axis, extent, weight
  const int axes[][3] = {{2, 2, 100000}, {1, 2, 10000}, {0, 3, 1000},
                         {258, 2, 100},  {257, 2, 10},  {256, 2, 1}};
  for (auto& axis : axes) {
    std::string index = add("SPECIAL i64 [" + std::to_string(axis[0]) + ", " + std::to_string(axis[1]) + "]");
    place = add("MUL i64 " + place + " " + constant(axis[1]));
    place = add("ADD i64 " + place + " " + index);
    value = add("MULACC i64 " + index + " " + constant(axis[2]) + " " + value);
  }
  std::string old = add("LOAD i64 %0 " + place);
  value = add("ADD i64 " + old + " " + value);
  add("STORE i64 %0 " + place + " " + value);
  std::vector<Bytes> buffers = {Bytes(8 * 96)};
  run(kernel(text), buffers, {}, {3, 2, 2}, {2, 2, 2});
  std::vector<int64_t> want;
  for (int gz = 0; gz < 2; gz++)
    for (int gy = 0; gy < 2; gy++)
      for (int gx = 0; gx < 3; gx++)
        for (int lz = 0; lz < 2; lz++)
          for (int ly = 0; ly < 2; ly++)
            for (int lx = 0; lx < 2; lx++)
              want.push_back(1 + lx + 10 * ly + 100 * lz + 1000 * gx + 10000 * gy + 100000 * gz);
  BOOST_TEST(values_of<int64_t>(buffers[0]) == want, boost::test_tools::per_element());
}

namespace {

// Sums 8 numbers per group as a tree in work-group storage: three steps, a barrier after each.
KernelIR tree_sum() {
  return kernel(
      "param buffer f32 w 0\nparam buffer f32 r 0\n%0 = PARAM f32 [0]\n%1 = PARAM f32 [1]\n"
      "%2 = SPECIAL i32 [0, 0]\n%3 = SPECIAL i32 [256, 8]\n%4 = DEFINE_LOCAL f32 [8]\n"
      "%5 = CONST i32 8\n%6 = CONST i32 3\n%7 = CONST i32 4\n%8 = CONST i32 0\n"
      "%9 = MUL i32 %2 %5\n%10 = ADD i32 %9 %3\n%11 = LOAD f32 %1 %10\n%12 = STORE f32 %4 %3 %11\n"
      "%13 = BARRIER\n%14 = RANGE i32 %6\n%15 = SHR i32 %7 %14\n%16 = CMPLT bool %3 %15\n%17 = IF %16\n"
      "%18 = ADD i32 %3 %15\n%19 = LOAD f32 %4 %18\n%20 = LOAD f32 %4 %3\n%21 = ADD f32 %19 %20\n"
      "%22 = STORE f32 %4 %3 %21\n%23 = ENDIF %17\n%24 = BARRIER\n%25 = END %14\n"
      "%26 = CMPEQ bool %3 %8\n%27 = LOAD f32 %4 %8\n%28 = STORE f32 %0 %2 %27 %26\n");
}

} // namespace

BOOST_AUTO_TEST_CASE(a_group_reduces_through_shared_storage) {
  std::vector<float> in(40);
  std::iota(in.begin(), in.end(), 1.0f);
  std::vector<Bytes> buffers = {Bytes(20), bytes_of(in)};
  run(tree_sum(), buffers, {}, {5}, {8});
  std::vector<float> want;
  for (size_t g = 0; g < 5; g++)
    want.push_back(std::accumulate(in.begin() + g * 8, in.begin() + g * 8 + 8, 0.0f));
  BOOST_TEST(values_of<float>(buffers[0]) == want, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(items_see_what_all_others_wrote_before_the_barrier) {
  // Reversal: every item reads what the mirrored one wrote; without lock step the first half would read
  // nothing.
  KernelIR k = kernel(
      "param buffer i32 w 0\n%0 = PARAM i32 [0]\n%1 = SPECIAL i32 [256, 0]\n%2 = DEFINE_LOCAL i32 [6]\n"
      "%3 = CONST i32 5\n%4 = MUL i32 %1 %1\n%5 = STORE i32 %2 %1 %4\n%6 = BARRIER\n%7 = SUB i32 %3 %1\n"
      "%8 = LOAD i32 %2 %7\n%9 = STORE i32 %0 %1 %8\n%10 = BARRIER\n");
  std::vector<Bytes> buffers = {Bytes(24)};
  run(k, buffers, {}, {2}, {6});
  BOOST_TEST(values_of<int32_t>(buffers[0]) == (std::vector<int32_t>{25, 16, 9, 4, 1, 0}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(private_values_survive_barriers_in_loops) {
  // Each item keeps its own running sum while the shared value changes: sum over i of (item + i).
  KernelIR k = kernel(
      "param buffer i32 w 0\n%0 = PARAM i32 [0]\n%1 = SPECIAL i32 [256, 0]\n%2 = DEFINE_LOCAL i32 [1]\n"
      "%3 = DEFINE_REG i32 [1]\n%4 = CONST i32 0\n%5 = CONST i32 4\n%6 = STORE i32 %3 %4 %4\n"
      "%7 = RANGE i32 %5\n%8 = CMPEQ bool %1 %7\n%9 = STORE i32 %2 %4 %7 %8\n%10 = BARRIER\n"
      "%11 = LOAD i32 %2 %4\n%12 = LOAD i32 %3 %4\n%13 = ADD i32 %11 %12\n%14 = ADD i32 %13 %1\n"
      "%15 = STORE i32 %3 %4 %14\n%16 = BARRIER\n%17 = END %7\n%18 = LOAD i32 %3 %4\n%19 = STORE i32 %0 %1 "
      "%18\n");
  std::vector<Bytes> buffers = {Bytes(16)};
  run(k, buffers, {}, {1}, {4});
  BOOST_TEST(values_of<int32_t>(buffers[0]) == (std::vector<int32_t>{6, 10, 14, 18}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(work_group_storage_starts_anew_in_every_group) {
  KernelIR k =
      kernel("param buffer f32 w 0\n%0 = PARAM f32 [0]\n%1 = SPECIAL i32 [0, 0]\n%2 = DEFINE_LOCAL f32 [1]\n"
             "%3 = CONST i32 0\n%4 = LOAD f32 %2 %3\n%5 = STORE f32 %0 %1 %4\n%6 = CONST f32 0x3f800000\n"
             "%7 = STORE f32 %2 %3 %6\n");
  std::vector<Bytes> buffers = {Bytes(8)};
  run(k, buffers, {}, {2});
  for (float value : values_of<float>(buffers[0])) BOOST_TEST(value != value);
}

BOOST_AUTO_TEST_CASE(items_that_reach_different_barriers_are_a_fault) {
  // The number of barriers is the item's index.
  KernelIR k = kernel("param buffer i32 w 0\n%0 = PARAM i32 [0]\n%1 = SPECIAL i32 [256, 0]\n%2 = RANGE i32 "
                      "%1\n%3 = BARRIER\n%4 = END %2\n");
  std::vector<Bytes> buffers = {Bytes(4)};
  tolk_interp::Error error = run_error(k, buffers, {}, {1}, {2});
  BOOST_TEST(error.code == TOLK_E_KERNEL_FAULT);
  BOOST_TEST(error.text.find("work-items 0 and 1") != std::string::npos, error.text);
  BOOST_TEST(error.text.find("the end and BARRIER %3") != std::string::npos, error.text);
  BOOST_TEST(run_error(k, buffers, {}, {3}, {1}).code == 0);
}

BOOST_AUTO_TEST_CASE(work_items_that_race_are_a_fault) {
  // The reversal above without its barrier.
  KernelIR k = kernel(
      "param buffer i32 w 0\n%0 = PARAM i32 [0]\n%1 = SPECIAL i32 [256, 0]\n%2 = DEFINE_LOCAL i32 [6]\n"
      "%3 = CONST i32 5\n%4 = MUL i32 %1 %1\n%5 = STORE i32 %2 %1 %4\n%6 = SUB i32 %3 %1\n"
      "%7 = LOAD i32 %2 %6\n%8 = STORE i32 %0 %1 %7\n");
  std::vector<Bytes> buffers = {Bytes(24)};
  tolk_interp::Error error = run_error(k, buffers, {}, {1}, {6});
  BOOST_TEST(error.code == TOLK_E_KERNEL_FAULT);
  BOOST_TEST(error.text.find("a race with work-item") != std::string::npos, error.text);
  BOOST_TEST(error.text.find("of DEFINE_LOCAL %2") != std::string::npos, error.text);
  // A barrier orders nothing between groups, and nothing in buffers.
  KernelIR global =
      kernel("param buffer i32 rw 0\n%0 = PARAM i32 [0]\n%1 = SPECIAL i32 [256, 0]\n%2 = SPECIAL i32 [0, 0]\n"
             "%3 = CONST i32 0\n%4 = ADD i32 %1 %2\n%5 = STORE i32 %0 %3 %4\n%6 = BARRIER\n");
  std::vector<Bytes> one = {bytes_of(std::vector<int32_t>{7})};
  BOOST_TEST(run_error(global, one, {}, {1}, {2}).text.find("of buffer parameter 0") != std::string::npos);
  one = {bytes_of(std::vector<int32_t>{7})};
  BOOST_TEST(run_error(global, one, {}, {2}, {1}).text.find("work-group number 0") != std::string::npos);
  BOOST_TEST(run_error(global, one, {}, {1}, {1}).code == 0);
  // Tiles that overlap write the same values.
  KernelIR same = kernel("param buffer i32 w 0\n%0 = PARAM i32 [0]\n%1 = CONST i32 0\n%2 = CONST i32 5\n"
                         "%3 = STORE i32 %0 %1 %2\n");
  BOOST_TEST(run_error(same, one, {}, {4}, {1}).code == 0);
}

BOOST_AUTO_TEST_CASE(one_program_runs_on_several_threads) {
  auto program = tolk_interp::decode(tolk_interp::copy_kernel(tree_sum().view()));
  std::vector<float> in(8 * 64, 1.0f);
  std::vector<std::vector<float>> out(4, std::vector<float>(64));
  std::vector<std::thread> threads;
  for (auto& mine : out)
    threads.emplace_back([&] {
      tolk_interp::BufferArg args[] = {{reinterpret_cast<std::byte*>(mine.data()), 256},
                                       {reinterpret_cast<std::byte*>(in.data()), in.size() * 4}};
      tolk_interp::LaunchArgs launch;
      launch.grid[0] = 64;
      launch.local[0] = 8;
      launch.buffers = args;
      tolk_interp::run(*program, launch);
    });
  for (std::thread& thread : threads) thread.join();
  for (auto& mine : out) BOOST_TEST(mine == std::vector<float>(64, 8.0f), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
