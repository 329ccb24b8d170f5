// Memory planning and lowering of long schedules: does the time grow with their length? Best of several runs
// in processor time, with cold and with warm caches (a thousand kernels fit the second level), at 1,000,
// 3,000 and 10,000 kernels. An argument measures only what has it in its name.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <random>
#include <vector>

#include "tolk/device/registry.h"
#include "tolk/engine/compile/compile_linear.h"
#include "tolk/schedule/memory/arena_layout.h"
#include "tolk/schedule/memory/memory_plan.h"
#include "tolk/schedule/schedule.h"
#include "tolk/uop/build.h"

using namespace tolk;

namespace {

const char* only = ""; // part of the name of what to measure
constexpr int kCounts[] = {1000, 3000, 10000};

// As in life, where a schedule is planned once: what was in the processor's caches before is not.
void empty_caches() {
  static std::vector<char> much(size_t(96) << 20);
  for (size_t i = 0; i < much.size(); i += 64) ++much[i];
}

double best_ms(const std::function<UOp()>& work, int runs, bool cold) {
  double best = 1e30;
  for (int i = 0; i < runs; ++i) {
    if (cold) empty_caches();
    std::clock_t begin = std::clock();
    UOp result = work(); // dropped after the clock is read
    best = std::min(best, 1e3 * double(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return best;
}

// `make(count)` gives the work at that length.
void measure(const char* what, const std::function<std::function<UOp()>(int)>& make) {
  if (!std::strstr(what, only)) return;
  for (bool cold : {true, false}) {
    double ms[3];
    for (int i = 0; i < 3; ++i) ms[i] = best_ms(make(kCounts[i]), kCounts[i] <= 1000 ? 15 : 7, cold);
    std::printf("%-44s %-5s %10.3f %10.3f %10.3f   %6.1f\n", cold ? what : "", cold ? "cold" : "hot", ms[0],
                ms[1], ms[2], ms[2] / ms[0]);
  }
}

// out[i] = a[i] + b[i] * factor: one kernel for all calls, as in a network of equal layers, or one for each.
UOp sum_kernel(double factor) {
  constexpr int64_t n = 64;
  UOp i = range_node(n, 0, AxisType::Loop);
  UOp b = alu(Op::MUL, load(param_node(2, DType::F32, n), i), constant(DType::F32, factor));
  UOp value = alu(Op::ADD, load(param_node(1, DType::F32, n), i), b);
  UOp effect = end(store(param_node(0, DType::F32, n), i, value), std::span(&i, 1));
  return kernel_sink(std::span(&effect, 1));
}

// Every call reads the value before it and one of the last `reach`.
UOp random_linear(int count, int reach, int64_t most_elements, bool distinct, const std::string& device) {
  std::mt19937 random(5);
  std::vector<UOp> calls, made{buffer_node(fresh_user_slot(), DType::F32, 64, device)};
  for (int i = 0; i < count; ++i) {
    UOp next = buffer_node(fresh_internal_slot(), DType::F32,
                           int64_t(random() % uint32_t(most_elements)) + 64, device);
    UOp other = made[made.size() - 1 - random() % std::min<size_t>(made.size(), size_t(reach))];
    UOp arguments[] = {next, made.back(), other};
    calls.push_back(call(sum_kernel(distinct ? i : 1), arguments));
    made.push_back(next);
  }
  return linear(calls);
}

// x, contiguous(x + 1), ... : a graph of `count` kernels that cannot be fused.
UOp chain(int count) {
  UOp x = buffer_node(fresh_user_slot(), DType::F32, 16, "CPU");
  for (int i = 0; i < count; ++i) x = contiguous(alu(Op::ADD, x, constant(DType::F32, 1.0)));
  return x;
}

schedule::Options options(bool cache) {
  schedule::Options o;
  o.default_device = "CPU";
  o.cache = cache;
  return o;
}

} // namespace

int main(int argc, char** argv) {
  only = argc > 1 ? argv[1] : "";
  std::printf("%-44s %-5s %10s %10s %10s   %6s\n", "milliseconds", "", "1000", "3000", "10000", "10k/1k");
  for (int reach : {3, 20, 200}) {
    std::string name = "plan_memory, values live up to " + std::to_string(reach) + " calls";
    measure(name.c_str(), [reach](int count) {
      UOp list = random_linear(count, reach, 5000, false, "CPU");
      return [list] { return schedule::plan_memory(list); };
    });
  }
  measure("assign_offsets alone, blocks live up to 20 calls", [](int count) {
    std::mt19937 random(5);
    std::vector<schedule::Block> blocks;
    for (int i = 0; i < count; ++i)
      blocks.push_back({i, i + 1 + int(random() % 20), int64_t(random() % 20000) + 1});
    return [blocks] {
      schedule::assign_offsets(blocks);
      return UOp();
    };
  });
  measure("assign_offsets alone, every block lives to the end", [](int count) {
    std::mt19937 random(5);
    std::vector<schedule::Block> blocks;
    for (int i = 0; i < count; ++i) blocks.push_back({i, count, int64_t(random() % 20000) + 1});
    return [blocks] {
      schedule::assign_offsets(blocks);
      return UOp();
    };
  });
  // Kernels to programs, with a stand-in for code generation.
  engine::ToProgram stub = [](Device& device, const UOp& sink, bool may_alias) {
    ProgramInfo info;
    info.name = "stub", info.globals = {0, 1, 2}, info.outs = {0}, info.ins = {1, 2};
    engine::ProgramEntry entry;
    entry.sink = sink, entry.device = device.name(), entry.info = info, entry.binary = "code";
    entry.may_alias = may_alias;
    return engine::program_node(std::move(entry));
  };
  for (bool distinct : {false, true}) {
    measure(distinct ? "compile_linear, every kernel its own" : "compile_linear, one kernel for all",
            [&](int count) {
              UOp list = schedule::plan_memory(random_linear(count, 20, 5000, distinct, "HOST"));
              return [list, &stub] {
                engine::clear_caches();
                return engine::compile_linear(device("HOST"), stub, list);
              };
            });
    measure(distinct ? "compile_linear, every kernel known" : "compile_linear, one kernel, known",
            [&](int count) {
              UOp list = schedule::plan_memory(random_linear(count, 20, 5000, distinct, "HOST"));
              engine::compile_linear(device("HOST"), stub, list);
              return [list, &stub] { return engine::compile_linear(device("HOST"), stub, list); };
            });
  }
  measure("schedule a chain, nothing cached", [](int count) {
    UOp root = chain(count);
    return [root] { return schedule::create_schedule(std::span(&root, 1), options(false)).linear; };
  });
  measure("schedule a chain found in the cache (bind)", [](int count) {
    UOp root = chain(count);
    schedule::create_schedule(std::span(&root, 1), options(true));
    return [root] { return schedule::create_schedule(std::span(&root, 1), options(true)).linear; };
  });
}
