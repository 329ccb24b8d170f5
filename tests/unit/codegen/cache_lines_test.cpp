// Kernels use whole cache lines.
#include <boost/test/unit_test.hpp>

#include <algorithm>

#include "harness.h"
#include "tolk/uop/build.h"

using namespace tolk_test;
using namespace tolk;
using namespace tolk::codegen;

namespace {

// p0[i,j] = p1[j,i].
UOp transposition(int64_t n, int64_t m) {
  UOp i = range_node(n, 0, AxisType::Loop), j = range_node(m, 1, AxisType::Loop);
  UOp moved =
      store(param_node(0, DType::F32, n * m), i * m + j, load(param_node(1, DType::F32, n * m), j * n + i));
  UOp effect = end(moved, std::vector<UOp>{i, j});
  return kernel_sink(std::span<const UOp>(&effect, 1));
}

} // namespace

BOOST_AUTO_TEST_SUITE(cache_lines)

BOOST_AUTO_TEST_CASE(a_transposition_uses_the_lines_that_it_reads) {
  for (auto [n, m] : {std::pair(256, 512), std::pair(100, 333), std::pair(32, 900), std::pair(15, 900)}) {
    UOp ast = transposition(n, m);
    check_heuristic(ast, avx2_target());
    std::vector<std::string> opts = compile(ast, avx2_target()).info.opts;
    bool rows = std::ranges::find(opts, "UPCAST(0,16)") != opts.end();
    BOOST_TEST(rows == (n > 16), n << " x " << m);
  }
}

BOOST_AUTO_TEST_SUITE_END()
