// How generated kernels compare with hand-written compute shaders of textbook form: bench/shaders/*.comp, tiled through
// work-group memory, loaded through the same device and launched the same way.
//
//   gpu_bench [DEVICE] [ROUNDS]
//
// Prints for each problem the median of both in ms, taken in turns, and shader / tolk: above 1, tolk is faster. The
// results of both must agree. DEVICE, VULKAN by default, takes SPIR-V of dialect vulkan1.2.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>

#include "tolk/base/error.h"
#include "tolk/device/buffer.h"
#include "tolk/device/program.h"
#include "tolk/device/registry.h"
#include "tolk/io/mapped_file.h"
#include "tolk/tensor/jit.h"

namespace {

using namespace tolk;
using Clock = std::chrono::steady_clock;
using Sizes = std::vector<int64_t>;

struct Launch {
  const char* shader;
  uint32_t groups;
  Sizes buffers; // positions among the problem's inputs, then its results; the written one first
};

struct Problem {
  const char* name;
  std::vector<Sizes> inputs;
  std::vector<int64_t> results; // elements of what the shaders write; the last is compared
  std::vector<Launch> launches;
  std::function<Tensor(const std::vector<Tensor>&)> compute;
};

Tensor conv3x3(const std::vector<Tensor>& in) {
  Tensor::Conv how;
  how.padding = {{1, 1}, {1, 1}};
  return in[0].conv(in[1], Tensor(), how);
}

const std::vector<Problem> kProblems = {
    {"matmul 512",
     {{512, 512}, {512, 512}},
     {512 * 512},
     {{"matmul512", 1024, {2, 0, 1}}},
     [](const std::vector<Tensor>& in) { return in[0].matmul(in[1]); }},
    {"matmul 1024",
     {{1024, 1024}, {1024, 1024}},
     {1024 * 1024},
     {{"matmul1024", 4096, {2, 0, 1}}},
     [](const std::vector<Tensor>& in) { return in[0].matmul(in[1]); }},
    {"softmax 4096x1024",
     {{4096, 1024}},
     {4096 * 1024},
     {{"softmax", 4096, {1, 0}}},
     [](const std::vector<Tensor>& in) { return in[0].softmax(-1); }},
    {"sum of 16M",
     {{1 << 24}},
     {1024, 1},
     {{"sum16384", 1024, {1, 0}}, {"sum1024", 1, {2, 1}}},
     [](const std::vector<Tensor>& in) { return in[0].sum(); }},
    {"conv 3x3, 64 x 56 x 56",
     {{1, 64, 56, 56}, {64, 64, 3, 3}},
     {64 * 56 * 56},
     {{"conv", 784, {2, 0, 1}}},
     conv3x3},
};

constexpr uint32_t kItems = 256; // work-items of every shader

std::vector<float> random_values(int64_t count, uint32_t seed) {
  std::mt19937 draw(seed);
  std::uniform_real_distribution<float> number(-1, 1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& v : values) v = number(draw);
  return values;
}

ProgramRef load_shader(Device& on, const Launch& launch) {
  auto module = io::MappedFile::open(std::string(TOLK_BENCH_SHADERS) + "/" + launch.shader + ".spv");
  KernelSource source;
  source.target_index = on.target_index();
  source.text = module->text();
  source.entry = "main";
  source.local = {kItems, 1, 1};
  for (size_t i = 0; i < launch.buffers.size(); ++i) {
    tolk_param p{};
    p.kind = TOLK_PARAM_BUFFER, p.dtype = uint32_t(DType::F32);
    p.access = i == 0 ? TOLK_ACCESS_WRITE : TOLK_ACCESS_READ;
    source.params.push_back(p);
  }
  return on.build(source);
}

// Milliseconds of one of `repeats` runs.
double timed(Device& on, int repeats, const std::function<void()>& run) {
  auto begin = Clock::now();
  for (int i = 0; i < repeats; ++i) run();
  on.synchronize();
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count() / repeats;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void measure(Device& on, const Problem& problem, int rounds) {
  std::vector<Tensor> inputs;
  std::vector<BufferRef> buffers;
  for (const Sizes& sizes : problem.inputs) {
    Shape shape;
    int64_t count = 1;
    for (int64_t n : sizes) shape.emplace_back(n), count *= n;
    std::vector<float> values = random_values(count, uint32_t(inputs.size()));
    inputs.push_back(Tensor::from(values, shape, on.name()).realize());
    buffers.push_back(make_buffer(on, DType::F32, uint64_t(count)));
    buffers.back()->allocate();
    buffers.back()->copy_in(std::as_bytes(std::span(values)));
  }
  for (int64_t count : problem.results) buffers.push_back(make_buffer(on, DType::F32, uint64_t(count)));
  std::vector<ProgramRef> programs;
  for (const Launch& launch : problem.launches) programs.push_back(load_shader(on, launch));
  auto shaders = [&] {
    for (size_t i = 0; i < programs.size(); ++i) {
      std::vector<Buffer*> arguments;
      for (int64_t b : problem.launches[i].buffers) arguments.push_back(buffers[size_t(b)].get());
      programs[i]->launch(arguments, {}, {problem.launches[i].groups, 1, 1}, {kItems, 1, 1});
    }
  };
  Jit captured([&](std::vector<Tensor> in) { return problem.compute(in); }, {.device = on.name()});
  std::vector<float> tolk;
  for (int i = 0; i < 3; ++i) tolk = captured(inputs).values<float>();
  shaders();
  std::vector<float> shader(size_t(problem.results.back()));
  buffers.back()->copy_out(std::as_writable_bytes(std::span(shader)));
  double difference = 0, largest = 0;
  for (size_t i = 0; i < shader.size(); ++i) {
    difference = std::max(difference, double(std::abs(tolk[i] - shader[i])));
    largest = std::max(largest, double(std::abs(tolk[i])));
  }
  int repeats = std::max(1, int(50 / std::max(0.1, timed(on, 1, shaders))));
  std::vector<double> ours, theirs;
  for (int i = 0; i < rounds; ++i) {
    ours.push_back(timed(on, repeats, [&] { captured(inputs); }));
    theirs.push_back(timed(on, repeats, shaders));
  }
  bool agree = difference <= 1e-4 * std::max(1.0, largest);
  std::printf("%-24s tolk %9.3f ms  shader %9.3f ms  %6.2f%s\n", problem.name, median(ours), median(theirs),
              median(theirs) / median(ours), agree ? "" : "  RESULTS DIFFER");
}

} // namespace

int main(int count, char** arguments) {
  try {
    Device& on = device(count > 1 ? arguments[1] : "VULKAN");
    int rounds = count > 2 ? std::max(1, std::atoi(arguments[2])) : 9;
    std::printf("%s, median of %d rounds\n", on.info().name, rounds);
    for (const Problem& problem : kProblems) measure(on, problem, rounds);
    shutdown_devices();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gpu_bench: %s\n", e.what());
    return 1;
  }
  return 0;
}
