// What it costs to make, find and drop a node, in nanoseconds: best of several runs in processor time.
#include <cstdio>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "tolk/uop/arena.h"
#include "tolk/uop/build.h"

using namespace tolk;

namespace {

constexpr int kCount = 1 << 17;

template <typename F> void measure(const char* what, F work) {
  double best = 1e30;
  for (int run = 0; run < 9; ++run) {
    std::clock_t begin = std::clock();
    work();
    best = std::min(best, 1e9 * double(std::clock() - begin) / CLOCKS_PER_SEC / kCount);
  }
  std::printf("%-56s %8.1f\n", what, best);
}

} // namespace

int main() {
  UOp x = buffer_node(1, DType::F32, 64, "CPU"), y = buffer_node(2, DType::F32, 64, "CPU");
  UOp sum = alu(Op::ADD, x, y);
  Arg axes({1, 0}), wide({1, 2, 3});
  UOp moved = make(Op::PERMUTE, DType::F32, {sum}, axes);
  std::printf("nanoseconds\n");
  measure("found: elementwise", [&] {
    for (int i = 0; i < kCount; ++i) make(Op::ADD, DType::F32, {x, y});
  });
  measure("found: with a list", [&] {
    for (int i = 0; i < kCount; ++i) make(Op::PERMUTE, DType::F32, {sum}, axes);
  });
  measure("found: with a list that is looked up", [&] {
    for (int i = 0; i < kCount; ++i) make(Op::PERMUTE, DType::F32, {sum}, Arg({1, 0}));
  });
  measure("new, kept, dropped: elementwise", [&] {
    UOp at = sum;
    for (int i = 0; i < kCount; ++i) at = make(Op::ADD, DType::F32, {at, y});
  });
  measure("new, kept, dropped: with a list that others have", [&] {
    UOp at = sum;
    for (int i = 0; i < kCount; ++i) at = make(Op::PERMUTE, DType::F32, {at}, axes);
  });
  measure("new and dropped: a buffer of its own slot", [&] {
    static int64_t slot = 1000;
    for (int i = 0; i < kCount; ++i) buffer_node(slot++, DType::F32, 64, "CPU");
  });
  measure("new and dropped: a number of its own", [&] {
    for (int i = 0; i < kCount; ++i) constant(DType::F32, 1000.5 + i);
  });
  measure("new in an arena: elementwise", [&] {
    Arena arena;
    ArenaScope scope(&arena);
    UOp b = import_graph(y), at = b;
    for (int i = 0; i < kCount; ++i) at = make(Op::ADD, DType::F32, {at, b});
  });
  measure("new in an arena: with a list that others have", [&] {
    Arena arena;
    ArenaScope scope(&arena);
    UOp at = import_graph(y);
    for (int i = 0; i < kCount; ++i) at = make(Op::PERMUTE, DType::F32, {at}, axes);
  });
}
