// Runs hand-built kernels on the Vulkan device and on the interpreter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "tolk/device/device.h"
#include "tolk/kernel/kernel_ir.h"

namespace tolk::test {

// Whether there is a Vulkan device; a test without one is skipped with the plugin's reason.
boost::test_tools::assertion_result has_vulkan(boost::unit_test::test_unit_id);

using Bytes = std::vector<std::byte>;

struct Arguments {
  std::vector<Bytes> buffers; // in parameter order; changed by the run
  std::vector<int64_t> values = {};
  std::array<uint32_t, 3> grid = {1, 1, 1};
  std::array<uint32_t, 3> local = {1, 1, 1};
};

ProgramRef load_kernel(Device& device, const KernelIR& kernel, std::array<uint32_t, 3> local = {1, 1, 1});
// Runs on the device; the buffers' contents afterwards.
std::vector<Bytes> run_on(const std::string& device, const KernelIR& kernel, const Arguments& arguments);

uint64_t element(const Bytes& bytes, DType dtype, size_t i); // its bits
bool subnormal(DType dtype, double value);

// Runs on VULKAN and on INTERP and requires equal buffers, bit for bit but for subnormal floats, NaNs, and `ulps` of f64.
void compare_with_interpreter(const KernelIR& kernel, const Arguments& arguments, int ulps = 0);

} // namespace tolk::test
