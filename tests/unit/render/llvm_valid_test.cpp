// LLVM's own verifier over the text of sample kernels. Skipped without LLVM's `opt` program; the CPU plugin's
// tests compile and run every sample kernel in process.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "sample_kernels.h"
#include "tolk/render/llvm/llvm_ir.h"

namespace tolk {
namespace {

BOOST_AUTO_TEST_CASE(every_sample_kernel_is_a_correct_kernel) {
  for (const KernelIR& kernel : test::all_sample_kernels()) BOOST_CHECK_NO_THROW(verify(kernel));
}

boost::test_tools::assertion_result has_opt(boost::unit_test::test_unit_id) {
  boost::test_tools::assertion_result result(std::string(TOLK_TEST_OPT).find("NOTFOUND") ==
                                             std::string::npos);
  if (!result) result.message() << "LLVM's opt was not found when the build was configured";
  return result;
}

BOOST_AUTO_TEST_CASE(llvm_accepts_the_text_of_sample_kernels, *boost::unit_test::precondition(has_opt)) {
  std::string opt = TOLK_TEST_OPT;
  std::vector<KernelIR> kernels = {test::vector_add(),       test::row_sum(),    test::guarded_sum(),
                                   test::matmul_tile(),      test::gated_copy(), test::gather_scatter(),
                                   test::shared_transpose(), test::integer_mix()};
  for (int code = 0; code <= TOLK_DTYPE_F8E8M0; ++code) {
    auto type = static_cast<DType>(code);
    if (type != DType::F64) kernels.push_back(test::cast_kernel(DType::F64, type, 8));
    if (type != DType::U64) kernels.push_back(test::cast_kernel(type, DType::U64, 4));
  }
  auto folder = std::filesystem::temp_directory_path() / ("tolk-render-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  for (const KernelIR& kernel : kernels)
    for (bool may_alias : {false, true})
      std::ofstream(folder / (kernel.name + (may_alias ? "_alias.ll" : ".ll")))
          << render_llvm_ir(kernel, {.may_alias = may_alias});
  std::string command =
      "cd '" + folder.string() + "' && failed=0; for f in *.ll; do '" + opt +
      "' -passes=verify -disable-output $f >log 2>&1 || { head -5 log; failed=1; }; done; exit $failed";
  BOOST_CHECK_EQUAL(std::system(command.c_str()), 0);
  std::filesystem::remove_all(folder);
}

} // namespace
} // namespace tolk
