// load_bench MODEL.tolk: what a saved model costs a new process, from the open device to the first result. A
// process measures once, since afterwards its kernels are loaded; run it several times.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>

#include "tolk/device/registry.h"
#include "tolk/onnx/model_saved.h"

namespace {

using namespace tolk;
using Clock = std::chrono::steady_clock;

double ms(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

void measure(const char* path) {
  Device& on = device(default_device());
  auto begin = Clock::now();
  onnx::SavedModel model = onnx::SavedModel::load(path);
  auto loaded = Clock::now();
  std::map<std::string, io::Value> inputs;
  for (const onnx::ValueInfo& i : model.inputs()) {
    io::Shape shape;
    for (const onnx::Dim& d : *i.type.dims) shape.push_back(*d.value);
    std::byte* data = nullptr;
    io::HostTensor zeros = io::allocate_tensor(*i.type.dtype, shape, &data);
    std::fill(data, data + zeros.bytes.size(), std::byte{0});
    inputs.emplace(i.name, zeros);
  }
  auto ready = Clock::now();
  model.run(inputs);
  auto first = Clock::now();
  model.run(inputs);
  auto second = Clock::now();
  std::printf("%s on %s: load %.2f ms, first run %.2f ms, second run %.2f ms, %zu kernels compiled\n", path,
              on.name().c_str(), ms(begin, loaded), ms(ready, first), ms(first, second), model.compiled());
}

} // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fputs("usage: load_bench MODEL.tolk    (stored by tolk-run --save; DEVICE= chooses the device)\n",
               stderr);
    return 2;
  }
  try {
    measure(arguments[1]);
    shutdown_devices();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "load_bench: %s\n", e.what());
    return 1;
  }
  return 0;
}
