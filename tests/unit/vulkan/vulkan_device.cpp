#include "vulkan_device.h"

#include <cmath>
#include <cstring>

#include "tolk/base/error.h"
#include "tolk/device/buffer.h"
#include "tolk/device/program.h"
#include "tolk/device/registry.h"
#include "tolk/dtype/scalar.h"
#include "tolk/render/renderer.h"

namespace tolk::test {
namespace {

bool close(DType dtype, uint64_t a, uint64_t b, int ulps) {
  if (a == b) return true;
  if (!is_float(dtype)) return false;
  double x = float_from_bits(dtype, a), y = float_from_bits(dtype, b);
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  if (subnormal(dtype, x) || subnormal(dtype, y)) return std::fabs(x - y) <= 0x1p-126;
  if (x == y) return true; // zeros
  return dtype == DType::F64 && std::fabs(x - y) <= ulps * std::fabs(y) * 0x1p-52;
}

} // namespace

uint64_t element(const Bytes& bytes, DType dtype, size_t i) {
  uint64_t word = 0;
  size_t width = storage_bytes(dtype, 1);
  std::memcpy(&word, bytes.data() + i * width, width);
  return word;
}

bool subnormal(DType dtype, double value) {
  double least = dtype == DType::F64 ? 0x1p-1022 : 0x1p-126;
  return value != 0 && std::fabs(value) < least;
}

boost::test_tools::assertion_result has_vulkan(boost::unit_test::test_unit_id) {
  try {
    device("VULKAN");
    return true;
  } catch (const Error& e) {
    boost::test_tools::assertion_result result(false);
    result.message() << "no Vulkan device: " << e.what();
    return result;
  }
}

ProgramRef load_kernel(Device& on, const KernelIR& kernel, std::array<uint32_t, 3> local) {
  verify(kernel);
  const tolk_target& target = on.targets()[0];
  const Renderer* renderer = find_renderer(target);
  BOOST_REQUIRE(renderer);
  std::string text = renderer->render(kernel, {.features = target.arch_features});
  tolk_kernel_ir view = kernel.view();
  KernelSource source;
  source.text = text;
  if (text.empty()) source.ir = &view;
  source.entry = kernel.name;
  source.params = kernel.params;
  source.local = local;
  source.shared_bytes = local_storage_offset(kernel, uint32_t(kernel.ops.size()));
  return on.build(source);
}

std::vector<Bytes> run_on(const std::string& name, const KernelIR& kernel, const Arguments& arguments) {
  Device& on = device(name);
  ProgramRef program = load_kernel(on, kernel, arguments.local);
  std::vector<BufferRef> buffers;
  std::vector<Buffer*> pointers;
  for (size_t i = 0; i < arguments.buffers.size(); ++i) {
    auto dtype = static_cast<DType>(kernel.params[i].dtype);
    uint64_t count = arguments.buffers[i].size() / storage_bytes(dtype, 1);
    buffers.push_back(make_buffer(on, dtype, count));
    buffers.back()->ensure_allocated().copy_in(arguments.buffers[i]);
    pointers.push_back(buffers.back().get());
  }
  program->launch(pointers, arguments.values, arguments.grid, arguments.local);
  std::vector<Bytes> results = arguments.buffers;
  for (size_t i = 0; i < results.size(); ++i) buffers[i]->copy_out(results[i]);
  return results;
}

void compare_with_interpreter(const KernelIR& kernel, const Arguments& arguments, int ulps) {
  std::vector<Bytes> got = run_on("VULKAN", kernel, arguments), want = run_on("INTERP", kernel, arguments);
  for (size_t b = 0; b < got.size(); ++b) {
    auto dtype = static_cast<DType>(kernel.params[b].dtype);
    for (size_t i = 0; i < got[b].size() / storage_bytes(dtype, 1); ++i) {
      uint64_t x = element(got[b], dtype, i), y = element(want[b], dtype, i);
      if (close(dtype, x, y, ulps)) continue;
      BOOST_ERROR(kernel.name << ", buffer " << b << ", element " << i << ": bits " << std::hex << x
                              << ", the interpreter has " << y);
      return;
    }
  }
}

} // namespace tolk::test
