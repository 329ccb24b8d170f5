// Chosen opts on awkward sizes: every small extent, primes, sizes around the vector width, pictures of all
// widths.
#include <boost/test/unit_test.hpp>

#include "harness.h"
#include "samples.h"
#include "tolk/uop/build.h"

using namespace tolk_test;
using namespace tolk;

namespace {
void both(const UOp& ast, double tolerance = 0) {
  check_heuristic(ast, avx2_target(), tolerance);
  check_heuristic(ast, bare_target(), tolerance);
}
} // namespace

BOOST_AUTO_TEST_SUITE(shapes)

BOOST_AUTO_TEST_CASE(every_small_extent) {
  for (int64_t n = 1; n <= 17; ++n) BOOST_TEST_CONTEXT(n) {
      both(add(n));
      both(add(n, DType::U8));
      both(matmul(n, 17 - n + 1, 9));
      both(matmul(3, n, 5, true));
      both(matmul(n, 40, n));
      both(row_reduce(Op::ADD, 5, n));
      both(row_reduce(Op::MAX, n, 13));
      both(column_reduce(Op::ADD, n, 20));
      both(convolution(1, 2, 3, n + 2, 3, 1, 1));
    }
}

BOOST_AUTO_TEST_CASE(primes_and_sizes_around_the_vector) {
  for (int64_t n : {19, 23, 31, 32, 33, 37, 63, 64, 65, 97, 127, 257}) BOOST_TEST_CONTEXT(n) {
      both(add(n));
      both(add(n, DType::F64));
      both(matmul(7, n, 11));
      both(matmul(n, 7, 11, true));
      both(row_reduce(Op::ADD, 3, n));
      both(row_reduce(Op::ADD, n, 3));
      both(column_reduce(Op::MAX, 3, n));
      both(column_reduce(Op::ADD, n, 3));
    }
}

BOOST_AUTO_TEST_CASE(pictures_of_all_widths) {
  for (int64_t size : {5, 7, 8, 9, 14, 15, 16, 17, 28}) BOOST_TEST_CONTEXT(size) {
      both(convolution(1, 4, 6, size, 3, 1, 1));
      both(convolution(1, 3, 8, size, 3, 2, 1));
      both(convolution(2, 3, 5, size, 1, 1, 0));
      both(convolution(1, 3, 5, size, 1, 2, 0));
      both(convolution(1, 2, 4, size, 5, 1, 2));
      both(convolution(1, 1, 4, size + 2, 7, 2, 3));
    }
}

BOOST_AUTO_TEST_CASE(kernels_of_random_shapes_equal_the_plain_evaluation) {
  std::mt19937_64 random(11);
  auto size = [&](int64_t most) { return int64_t(random() % uint64_t(most)) + 1; };
  for (int round = 0; round < rounds(40); ++round) {
    int64_t m = size(30), n = size(70), k = size(40);
    BOOST_TEST_CONTEXT(m << " " << n << " " << k) {
      both(matmul(m, n, k, random() % 2 == 0));
      both(row_reduce(random() % 2 ? Op::ADD : Op::MAX, m, n));
      both(column_reduce(Op::ADD, m, n));
      int64_t kernel = size(4), stride = size(3), pad = int64_t(random() % uint64_t(kernel));
      both(convolution(size(2), size(5), size(9), size(14) + kernel, kernel, stride, pad));
    }
  }
}

BOOST_AUTO_TEST_CASE(every_dtype_sums_and_multiplies) {
  for (DType t : {DType::I8, DType::U8, DType::I16, DType::U16, DType::I32, DType::U32, DType::I64,
                  DType::U64, DType::F16, DType::BF16, DType::F32, DType::F64})
    BOOST_TEST_CONTEXT(name(t)) {
      both(matmul(5, 18, 4, false, t));
      both(add(37, t));
      both(row_reduce(Op::MAX, 6, 21, t));
    }
}

// Large enough for threads and merged pictures.
BOOST_AUTO_TEST_CASE(kernels_with_threads) {
  for (const UOp& ast : {add(400003), matmul(85, 90, 84), convolution(1, 16, 32, 14, 3, 1, 1),
                         convolution(1, 8, 24, 28, 3, 2, 1), convolution(1, 256, 40, 7, 1, 1, 0),
                         row_reduce(Op::MAX, 500, 700), column_reduce(Op::MAX, 500, 701)}) {
    both(ast);
    codegen::Kernel k = codegen::compile(ast, avx2_target(), {.threads = 2});
    BOOST_CHECK_GT(k.info.grid[0], 1);
    BOOST_CHECK_EQUAL(codegen::compile(ast, avx2_target(), {.threads = 1}).info.grid[0], 1);
  }
}

BOOST_AUTO_TEST_SUITE_END()
