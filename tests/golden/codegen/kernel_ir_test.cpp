// The flat form of a few tiny kernels, word for word. TOLK_UPDATE_GOLDEN=1 writes the files anew.
#include <fstream>
#include <sstream>

#include <boost/test/unit_test.hpp>
#include <tolk/plugin/target.h>

#include "samples.h"
#include "tolk/base/config.h"
#include "tolk/codegen/codegen.h"
#include "tolk/uop/build.h"

using namespace tolk;
using namespace tolk::codegen;

namespace {

Target target() {
  Target t;
  t.vector_bytes = 32;
  t.cores = 2;
  t.has_threads = true;
  t.features = TOLK_FEATURE_MULACC | TOLK_FEATURE_SQRT | TOLK_FEATURE_TRUNC;
  return t;
}

void golden(const std::string& name, const Kernel& kernel) {
  std::string path = std::string(GOLDEN_DIR) + "/" + name + ".txt", text = print(kernel.ir);
  if (!environment("TOLK_UPDATE_GOLDEN").empty()) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream file(path);
  std::stringstream want;
  want << file.rdbuf();
  BOOST_CHECK_MESSAGE(file.good() && want.str() == text, name << " differs; now it is\n" << text);
}

} // namespace

BOOST_AUTO_TEST_SUITE(golden_kernels)

BOOST_AUTO_TEST_CASE(an_addition_as_written) {
  golden("add_plain", compile(tolk_test::add(10), target(), {.no_opt = true}));
}

BOOST_AUTO_TEST_CASE(an_addition_in_vectors) {
  golden("add_vector",
         compile_with(tolk_test::add(20), target(), {{OptKind::Upcast, 0, 16}, {OptKind::Vector, 1, 8}}));
}

BOOST_AUTO_TEST_CASE(a_matrix_product_as_written) {
  golden("matmul_plain", compile(tolk_test::matmul(2, 3, 4), target(), {.no_opt = true}));
}

BOOST_AUTO_TEST_CASE(a_matrix_product_in_tiles) {
  golden("matmul_tile",
         compile_with(tolk_test::matmul(4, 16, 8), target(),
                      {{OptKind::Vector, 1, 8}, {OptKind::Upcast, 0, 2}, {OptKind::Thread, 0, 2}}));
}

BOOST_AUTO_TEST_CASE(a_convolution_with_padding) {
  golden("convolution",
         compile_with(tolk_test::convolution(1, 2, 2, 4, 3, 1, 1), target(),
                      {{OptKind::Merge, 1, 2}, {OptKind::Vector, 1, 8}, {OptKind::Unroll, 5, 0}}));
}

BOOST_AUTO_TEST_CASE(a_sum_of_rows_in_vectors) {
  golden("row_sum", compile_with(tolk_test::row_reduce(Op::ADD, 2, 19), target(), {{OptKind::Vector, 1, 8}}));
}

BOOST_AUTO_TEST_SUITE_END()
