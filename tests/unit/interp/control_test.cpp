// RANGE, IF, value parameters, and whole kernels against plain loops.
#include <cmath>

#include <boost/test/unit_test.hpp>

#include "harness.h"

using namespace tolk;
using namespace tolk::test;

BOOST_AUTO_TEST_SUITE(control)

BOOST_AUTO_TEST_CASE(a_loop_runs_its_count_and_not_at_all_for_0_or_less) {
  for (const char* width : {"i32", "i64"}) {
    std::string w = width;
    KernelIR k =
        kernel("param buffer " + w + " rw 1\nparam value " + w + " -10 10\n%0 = PARAM " + w +
               " [0]\n%1 = PARAM " + w + " [1]\n%2 = CONST i32 0\n%3 = RANGE " + w + " %1\n%4 = LOAD " + w +
               " %0 %2\n%5 = ADD " + w + " %4 %3\n%6 = STORE " + w + " %0 %2 %5\n%7 = END %3\n");
    for (int n : {0, 1, 2, 7, -1, -10}) {
      std::vector<Bytes> buffers = {Bytes(8)};
      run(k, buffers, {static_cast<uint64_t>(static_cast<int64_t>(n))});
      int want = n > 0 ? n * (n - 1) / 2 : 0;
      BOOST_TEST(values_of<int32_t>(buffers[0])[0] == want);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_matrix_product_with_an_accumulator_in_private_storage) {
  const int m = 5, n = 6, depth = 7;
  KernelIR k =
      kernel("param buffer f32 w 30\nparam buffer f32 r 35\nparam buffer f32 r 42\n"
             "%0 = PARAM f32 [0]\n%1 = PARAM f32 [1]\n%2 = PARAM f32 [2]\n"
             "%3 = CONST i32 5\n%4 = CONST i32 6\n%5 = CONST i32 7\n%6 = CONST i32 0\n%7 = CONST f32 0\n"
             "%8 = DEFINE_REG f32 [1]\n"
             "%9 = RANGE i32 %3\n%10 = RANGE i32 %4\n%11 = STORE f32 %8 %6 %7\n%12 = RANGE i32 %5\n"
             "%13 = MUL i32 %9 %5\n%14 = ADD i32 %13 %12\n%15 = LOAD f32 %1 %14\n"
             "%16 = MUL i32 %12 %4\n%17 = ADD i32 %16 %10\n%18 = LOAD f32 %2 %17\n"
             "%19 = LOAD f32 %8 %6\n%20 = MULACC f32 %15 %18 %19\n%21 = STORE f32 %8 %6 %20\n%22 = END %12\n"
             "%23 = LOAD f32 %8 %6\n%24 = MUL i32 %9 %4\n%25 = ADD i32 %24 %10\n%26 = STORE f32 %0 %25 %23\n"
             "%27 = END %10\n%28 = END %9\n");
  std::vector<float> a, b, want;
  for (int i = 0; i < m * depth; i++) a.push_back(std::sin(static_cast<float>(i)));
  for (int i = 0; i < depth * n; i++) b.push_back(std::cos(static_cast<float>(i)));
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      float sum = 0;
      for (int l = 0; l < depth; l++)
        sum = std::fma(a[static_cast<size_t>(i * depth + l)], b[static_cast<size_t>(l * n + j)], sum);
      want.push_back(sum);
    }
  std::vector<Bytes> buffers = {Bytes(4 * m * n), bytes_of(a), bytes_of(b)};
  run(k, buffers);
  BOOST_TEST(values_of<float>(buffers[0]) == want, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(blocks_nest_and_a_false_condition_skips_all_of_one) {
  // Counts the pairs (i, j) below 6 with i < j and both odd.
  KernelIR k = kernel(
      "param buffer i32 rw 1\n%0 = PARAM i32 [0]\n%1 = CONST i32 0\n%2 = CONST i32 1\n%3 = CONST i32 6\n"
      "%4 = RANGE i32 %3\n%5 = AND i32 %4 %2\n%6 = CMPEQ bool %5 %2\n%7 = IF %6\n%8 = RANGE i32 %3\n"
      "%9 = AND i32 %8 %2\n%10 = CMPEQ bool %9 %2\n%11 = CMPLT bool %4 %8\n%12 = AND bool %10 %11\n"
      "%13 = IF %12\n%14 = LOAD i32 %0 %1\n%15 = ADD i32 %14 %2\n%16 = STORE i32 %0 %1 %15\n"
      "%17 = ENDIF %13\n%18 = END %8\n%19 = ENDIF %7\n%20 = END %4\n");
  std::vector<Bytes> buffers = {Bytes(4)};
  run(k, buffers);
  BOOST_TEST(values_of<int32_t>(buffers[0])[0] == 3);
}

BOOST_AUTO_TEST_CASE(value_parameters_arrive_in_their_width_and_sign) {
  KernelIR k = kernel(
      "param buffer i64 w 3\nparam value i8 -128 127\nparam value u16 0 65535\nparam value i64 "
      "-9223372036854775808 0\n"
      "%0 = PARAM i64 [0]\n%1 = PARAM i8 [1]\n%2 = PARAM u16 [2]\n%3 = PARAM i64 [3]\n%4 = CAST i64 %1\n"
      "%5 = CAST i64 %2\n%6 = BUILD i64x3 %4 %5 %3\n%7 = CONST i32 0\n%8 = STORE i64x3 %0 %7 %6\n");
  std::vector<Bytes> buffers = {Bytes(24)};
  run(k, buffers, {static_cast<uint64_t>(-5), 65535, uint64_t{1} << 63});
  BOOST_TEST(values_of<int64_t>(buffers[0]) == (std::vector<int64_t>{-5, 65535, INT64_MIN}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(arguments_that_do_not_fit_the_parameters_are_refused) {
  KernelIR k = kernel("param buffer i32 w 1\nparam value i32 2 5\n%0 = PARAM i32 [0]\n%1 = SPECIAL i32 [0, "
                      "4]\n%2 = SPECIAL i32 [257, 2]\n");
  std::vector<Bytes> one = {Bytes(4)}, none;
  BOOST_TEST(run_error(k, one, {2}).code == 0);
  BOOST_TEST(run_error(k, one, {6}).code == TOLK_E_INVALID);
  BOOST_TEST(run_error(k, one, {1}).code == TOLK_E_INVALID);
  BOOST_TEST(run_error(k, one, {}).code == TOLK_E_INVALID);
  BOOST_TEST(run_error(k, none, {2}).code == TOLK_E_INVALID);
  BOOST_TEST(run_error(k, one, {2}, {4}).code == 0);
  BOOST_TEST(run_error(k, one, {2}, {5}).code == TOLK_E_INVALID);
  BOOST_TEST(run_error(k, one, {2}, {0}).code == TOLK_E_INVALID);
  BOOST_TEST(run_error(k, one, {2}, {1}, {1, 2, 1}).code == 0);
  BOOST_TEST(run_error(k, one, {2}, {1}, {1, 3, 1}).code == TOLK_E_INVALID);
  BOOST_TEST(run_error(k, one, {2}, {1}, {4096, 4096, 1}).code == TOLK_E_INVALID);
}

BOOST_AUTO_TEST_CASE(values_and_storage_beyond_256_mebibytes_are_refused_when_decoding) {
  for (const char* body : {"%0 = DEFINE_REG f64 [33554433]\n", "%0 = DEFINE_REG u8x65535 [1099511627776]\n",
                           "%0 = DEFINE_LOCAL u8 [1099511627776]\n"}) {
    std::vector<Bytes> none;
    BOOST_TEST(run_error(kernel(body), none).code == TOLK_E_LIMIT);
  }
}

BOOST_AUTO_TEST_SUITE_END()
