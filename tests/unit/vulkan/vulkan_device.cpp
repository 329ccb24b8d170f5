#include "vulkan_device.h"

#include "tolk/base/error.h"
#include "tolk/device/buffer.h"
#include "tolk/device/program.h"
#include "tolk/device/registry.h"
#include "tolk/render/renderer.h"

namespace tolk::test {

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

} // namespace tolk::test
