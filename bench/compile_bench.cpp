// How long the compiler takes, without any cache: from a loaded ONNX graph to the last kernel's text.
//
//   compile_bench MODEL.onnx [ROUNDS] [THREADS]
//
// Prints the best round's parts in ms: import (nodes to tensor graph), schedule (to kernels), codegen and
// rendering of the distinct kernels on THREADS threads. The plugin's own compiler is not part of it.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

#include "tolk/base/error.h"
#include "tolk/base/thread_pool.h"
#include "tolk/device/registry.h"
#include "tolk/engine/compile/compile.h"
#include "tolk/engine/run/node_storage.h"
#include "tolk/onnx/importer.h"
#include "tolk/onnx/reader.h"
#include "tolk/schedule/schedule.h"
#include "tolk/uop/build.h"

namespace {

using Clock = std::chrono::steady_clock;
double ms(Clock::time_point from) {
  return std::chrono::duration<double, std::milli>(Clock::now() - from).count();
}

struct Round {
  double import = 0, schedule = 0, render = 0;
  size_t kernels = 0, distinct = 0, bytes = 0;
  double total() const { return import + schedule + render; }
};

Round run(const tolk::onnx::ModelFile& file, const tolk::onnx::Bindings& weights,
          tolk::onnx::PreparedWeights& prepared, const std::string& device, unsigned threads) {
  using namespace tolk;
  Round r;
  auto begin = Clock::now();
  onnx::Importer importer(file, device, weights, prepared);
  onnx::Bindings inputs;
  for (const onnx::ValueInfo& i : file.graph.free_inputs()) {
    Shape shape;
    for (const onnx::Dim& d : *i.type.dims) shape.emplace_back(d.value.value_or(1));
    UOp storage = buffer_node(fresh_user_slot(), *i.type.dtype, numel(shape).value(), device);
    importer.add_changing(storage);
    inputs[i.name] = Tensor(reshape(storage, shape));
  }
  std::vector<UOp> roots;
  for (const onnx::GraphValue& v : importer.run(inputs)) roots.push_back(v.tensor.contiguous().node());
  r.import = ms(begin);
  begin = Clock::now();
  schedule::Options options;
  options.default_device = device;
  options.cache = false;
  schedule::Schedule s = schedule::create_schedule(roots, options);
  r.schedule = ms(begin);
  begin = Clock::now();
  std::set<const UOpNode*> seen;
  std::vector<UOp> kernels;
  for (const UOp& call : s.linear.src())
    if (call.src(0).is(Op::SINK)) {
      ++r.kernels;
      if (seen.insert(call.src(0).node()).second) kernels.push_back(call.src(0));
    }
  r.distinct = kernels.size();
  std::vector<size_t> bytes(kernels.size());
  parallel_for(kernels.size(), threads,
               [&](size_t i) { bytes[i] = engine::render_kernel(kernels[i], device).size(); });
  for (size_t b : bytes) r.bytes += b;
  r.render = ms(begin);
  return r;
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s MODEL.onnx [ROUNDS] [THREADS]\n", argv[0]);
    return 2;
  }
  try {
    using namespace tolk;
    int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
    unsigned threads = argc > 3 ? unsigned(std::atoi(argv[3])) : 2;
    onnx::ModelFile file = onnx::read_model(argv[1]);
    std::string name = default_device();
    device(name);
    onnx::Bindings weights;
    onnx::PreparedWeights prepared;
    std::vector<Tensor> tensors;
    std::vector<std::string> names;
    for (const auto& [n, data] : file.graph.initializers) {
      onnx::GraphValue v{io::HostTensor(data)};
      v.tensor = onnx::tensor_from(data, name);
      if (data.count()) tensors.push_back(v.tensor), names.push_back(n);
      weights.emplace(n, v);
    }
    Tensor::realize(tensors);
    for (size_t i = 0; i < names.size(); ++i) weights[names[i]].tensor = tensors[i];
    Round best;
    for (int i = 0; i < rounds; ++i) {
      Round r = run(file, weights, prepared, name, threads);
      std::printf("round %d: import %.1f  schedule %.1f  codegen+render %.1f  total %.1f ms  (%zu kernels, "
                  "%zu distinct, %zu KiB text)\n",
                  i, r.import, r.schedule, r.render, r.total(), r.kernels, r.distinct, r.bytes / 1024);
      if (i == 0 || r.total() < best.total()) best = r;
    }
    std::printf("best %.1f ms\n", best.total());
    shutdown_devices();
  } catch (const tolk::Error& e) {
    std::fprintf(stderr, "compile_bench: %s\n", e.what());
    return 2;
  }
}
