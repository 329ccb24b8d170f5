// What a replayed kernel costs: a chain of 200 kernels of 256 floats, every result stored, run again and
// again through engine::run_linear, call by call and as graphs, on NULL (the host's share alone) and on CPU.
//
//   replay_bench [ROUNDS]
//
// Prints the best round in ns a kernel, for runs with the input of the run before and with another one, as
// calls of a captured function have. The chain alternates x * 1.0001 and x + y, where y is its first result;
// only the first kernel reads the input. A second chain reads the input in every second kernel, and in a
// third one every kernel adds a variable, whose value changes where the input does.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/device/registry.h"
#include "tolk/engine/graph/batch_graphs.h"
#include "tolk/engine/run/run_linear.h"
#include "tolk/uop/build.h"

namespace {

using namespace tolk;
using Clock = std::chrono::steady_clock;

constexpr int64_t kFloats = 256;
constexpr int kKernels = 200;

// tinygrad's captured replay of such a chain on a machine of this kind (two cores of a server processor),
// in ns a kernel: its default, and with its batched submission (HCQ2=1). Measured with its own tools.
constexpr double kPeerDefault = 22500, kPeerBatched = 2700;

enum class Form { Plain, InputEverywhere, VariableEverywhere };

UOp kernel(Op op, bool two, bool variable) {
  UOp i = range_node(kFloats, 0, AxisType::Loop);
  UOp x = load(param_node(1, DType::F32, kFloats), i);
  UOp y = two ? load(param_node(2, DType::F32, kFloats), i) : constant(DType::F32, 1.0001);
  UOp value = alu(op, x, y);
  if (variable) value = alu(Op::ADD, value, cast(tolk::variable("n", 0, 1000), DType::F32));
  UOp effect = end(store(param_node(0, DType::F32, kFloats), i, value), std::vector<UOp>{i});
  return kernel_sink(std::vector<UOp>{effect});
}

UOp chain(const std::string& device, Form form) {
  bool variable = form == Form::VariableEverywhere;
  UOp scale = kernel(Op::MUL, false, variable), add = kernel(Op::ADD, true, variable);
  UOp input = param_node(0, DType::F32, kFloats, device), at = input, second = input;
  std::vector<UOp> calls;
  for (int k = 0; k < kKernels; ++k) {
    UOp next = buffer_node(fresh_user_slot(), DType::F32, kFloats, device);
    if (k % 2 == 0)
      calls.push_back(call(scale, std::vector<UOp>{next, at}));
    else
      calls.push_back(call(add, std::vector<UOp>{next, at, second}));
    at = next;
    if (k == 0 && form != Form::InputEverywhere) second = next;
  }
  return linear(calls);
}

struct Result {
  double same, other; // ns a kernel: the input of the run before, another one
};

Result replay(Device& device, const UOp& list, int rounds) {
  engine::BufferBinding binding(device);
  BufferRef inputs[2];
  for (BufferRef& input : inputs) {
    input = make_buffer(device, DType::F32, kFloats);
    fill_buffer(*input, 0x3f800000, 4);
  }
  engine::RunOptions options;
  options.jit = true;
  options.input_overlay.resize(1);
  Result best{1e18, 1e18};
  for (int round = 0; round < rounds; ++round) {
    options.input_overlay[0] = inputs[round / 2 % 2];
    options.var_vals["n"] = round / 2 % 2;
    auto begin = Clock::now();
    engine::run_linear(binding, list, options);
    double ns = std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / kKernels;
    if (round < 8) continue; // recording and first runs
    double& slot = round % 2 ? best.same : best.other;
    slot = std::min(slot, ns);
  }
  return best;
}

void row(const char* what, const Result& r, double target) {
  std::printf("  %-34s %8.1f %14.1f %10.0f   %s\n", what, r.same, r.other, target,
              std::max(r.same, r.other) < target ? "" : "ABOVE THE TARGET");
}

void measure(const std::string& name, int rounds, double graph_target, double eager_target) {
  Device& on = device(name);
  for (Form form : {Form::Plain, Form::InputEverywhere, Form::VariableEverywhere}) {
    UOp list = engine::compile_linear(on, {}, chain(name, form));
    UOp graphs = engine::batch_graphs(on, list);
    std::string what = name + (form == Form::Plain             ? ", "
                               : form == Form::InputEverywhere ? ", input read 100 times, "
                                                               : ", a variable in each, ");
    row((what + std::to_string(graphs.nsrc()) + " graphs").c_str(), replay(on, graphs, rounds), graph_target);
    row((what + "call by call").c_str(), replay(on, list, rounds), eager_target);
  }
}

// One kernel that the host waits for, as a program that looks at each result: submission and hand-over.
void measure_one(const std::string& name, int rounds) {
  Device& on = device(name);
  UOp list = engine::compile_linear(on, {}, chain(name, Form::Plain));
  list = linear(std::vector<UOp>{list.src(0)});
  engine::BufferBinding binding(on);
  BufferRef input = make_buffer(on, DType::F32, kFloats);
  fill_buffer(*input, 0x3f800000, 4);
  engine::RunOptions options;
  options.jit = true;
  options.input_overlay = {input};
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    auto begin = Clock::now();
    engine::run_linear(binding, list, options);
    on.synchronize();
    times.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begin).count());
  }
  std::sort(times.begin(), times.end());
  std::printf("  %-34s %8.0f median, %.0f at 99%%\n", (name + ", one kernel, waited for").c_str(),
              times[times.size() / 2], times[times.size() * 99 / 100]);
}

} // namespace

int main(int argc, char** argv) {
  try {
    int rounds = argc > 1 ? std::max(std::atoi(argv[1]), 16) : 2000;
    std::printf("%d kernels of %lld floats, ns a kernel\n  %-34s %8s %14s %10s\n", kKernels,
                static_cast<long long>(kFloats), "", "same", "another input", "target");
    measure("NULL", rounds, 100, 300);
    measure("CPU", rounds, 1000, 1000);
    measure_one("CPU", rounds);
    std::printf("  %-34s %8.0f\n  %-34s %8.0f\n", "peer: tinygrad, replay, default", kPeerDefault,
                "peer: tinygrad, replay, HCQ2=1", kPeerBatched);
    std::printf("  (peer: measured once on a two-core machine of this kind, a constant here)\n");
    shutdown_devices();
  } catch (const tolk::Error& e) {
    std::fprintf(stderr, "replay_bench: %s\n", e.what());
    return 2;
  }
}
