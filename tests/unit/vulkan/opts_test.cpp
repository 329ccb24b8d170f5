// Kernels with random opts - work-groups, shared reductions, vectors, tiles - give on the Vulkan device what the interpreter
// gives, which also reports races between work-items.
#include <boost/test/unit_test.hpp>

#include "harness.h"
#include "samples.h"
#include "tolk/device/registry.h"
#include "tolk/engine/compile/targets.h"
#include "vulkan_device.h"

using namespace tolk;
using namespace tolk::test;
using namespace tolk_test;

namespace {

void compare(const Sample& sample, const codegen::Kernel& kernel) {
  std::vector<Data> data = make_buffers(sample.ast, 1, sample.tolerance > 0 ? Fill::Unit : Fill::Small);
  Arguments arguments;
  for (int slot : kernel.info.globals) arguments.buffers.push_back(bytes_of(data.at(size_t(slot))));
  arguments.values = sample.variables;
  for (size_t axis = 0; axis < 3; ++axis) {
    arguments.grid[axis] = uint32_t(kernel.info.grid[axis]);
    arguments.local[axis] = uint32_t(kernel.info.local[axis]);
  }
  std::string opts;
  for (const std::string& opt : kernel.info.opts) opts += " " + opt;
  BOOST_TEST_CONTEXT(sample.name << ", opts" << opts) { compare_with_interpreter(kernel.ir, arguments, 8); }
}

} // namespace

BOOST_AUTO_TEST_CASE(kernels_with_random_opts_give_what_the_interpreter_gives,
                     *boost::unit_test::precondition(has_vulkan) * boost::unit_test::label("slow")) {
  Device& on = device("VULKAN");
  codegen::Target target = engine::codegen_target(on, 0);
  std::mt19937_64 random(11);
  int kernels = 0;
  for (const Sample& sample : all_samples()) {
    compare(sample, codegen::compile(sample.ast, target));
    for (int trial = 0; trial < rounds(3); ++trial, ++kernels)
      compare(sample, codegen::compile_with(sample.ast, target, random_opts(sample.ast, random)));
  }
  BOOST_TEST_MESSAGE(kernels << " kernels with random opts");
}
