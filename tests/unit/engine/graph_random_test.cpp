// Random lists, batched and replayed with inputs that change and overlap as they like, against plain
// arithmetic in the order of the list.
#include <random>

#include "graph_support.h"
#include "scoped_switch.h"

using namespace tolk;
using namespace tolk::test;
using namespace tolk::engine;

namespace {

constexpr int64_t kHalf = kCount / 2;

// Each storage has two halves, and every argument is a half: two arguments are the same bytes or none of the
// same.
struct Place {
  int storage; // 0..2 user buffers, 3..5 parts of an arena, 6..8 inputs
  int half;
};
struct Item {
  int what; // 0 xor, 1 add, 2 accumulate, 3 copy
  Place to, x, y;
  int by;
};
constexpr int kUsers = 3, kTemporaries = 3, kInputs = 3, kStorages = kUsers + kTemporaries + kInputs;

struct Program {
  std::vector<Item> items;
  std::vector<UOp> users;
  UOp list;

  Program(Device& d, std::mt19937& random) {
    for (int i = 0; i < kUsers; ++i) users.push_back(stored(d.name(), Ints(kCount, 0)));
    UOp arena = temporary(d.name(), kTemporaries * kCount * 4, DType::U8);
    auto node = [&](const Place& p) {
      int64_t byte = p.half * kHalf * 4;
      if (p.storage < kUsers) return slice_node(users[size_t(p.storage)], DType::I32, byte, kHalf);
      if (p.storage < kUsers + kTemporaries)
        return slice_node(arena, DType::I32, (p.storage - kUsers) * kCount * 4 + byte, kHalf);
      return slice_node(param_node(p.storage - kUsers - kTemporaries, DType::I32, kCount, d.name()),
                        DType::I32, byte, kHalf);
    };
    std::vector<UOp> calls;
    // The arena's first contents are nobody's: all of it is written before anything else.
    for (int t = 0; t < kTemporaries; ++t)
      for (int half : {0, 1}) items.push_back({1, {kUsers + t, half}, {t, half}, {}, t});
    auto place = [&] { return Place{int(random() % kStorages), int(random() % 2)}; };
    for (size_t i = 0, n = 4 + random() % 16; i < n; ++i)
      items.push_back({int(random() % 4), place(), place(), place(), int(random() % 10)});
    for (const Item& item : items) {
      UOp to = node(item.to), x = node(item.x), y = node(item.y);
      if (item.what == 0)
        calls.push_back(call_of(xor_body(kHalf), {to, x, y}));
      else if (item.what == 1)
        calls.push_back(call_of(add_body(item.by, kHalf), {to, x}));
      else if (item.what == 2)
        calls.push_back(call_of(accumulate_body(kHalf), {to, x}));
      else
        calls.push_back(copy_call(to, x));
    }
    list = batched(d, calls);
  }

  // The same on values; `inputs` say which of `values` an input is.
  void interpret(std::vector<Ints>& values, const std::vector<int>& inputs) const {
    std::vector<Ints> arena(kTemporaries, Ints(kCount, 0));
    auto at = [&](const Place& p, int64_t i) -> int32_t& {
      size_t index = size_t(p.half * kHalf + i);
      if (p.storage < kUsers) return values[size_t(p.storage)][index];
      if (p.storage < kUsers + kTemporaries) return arena[size_t(p.storage - kUsers)][index];
      return values[size_t(inputs[size_t(p.storage - kUsers - kTemporaries)])][index];
    };
    for (const Item& item : items)
      for (int64_t i = 0; i < kHalf; ++i) {
        uint32_t x = uint32_t(at(item.x, i)), y = uint32_t(at(item.y, i)), to = uint32_t(at(item.to, i));
        uint32_t out = item.what == 0   ? x ^ y
                       : item.what == 1 ? x + uint32_t(item.by)
                       : item.what == 2 ? to + x
                                        : x;
        at(item.to, i) = int32_t(out);
      }
  }
};

void check(Device& d, uint32_t seed, int programs) {
  std::mt19937 random(seed);
  for (int round = 0; round < programs; ++round) {
    Program program(d, random);
    // Values: the user buffers, then buffers that are only inputs.
    constexpr int kPool = kUsers + 3;
    std::vector<Ints> values;
    std::vector<BufferRef> buffers;
    for (int i = 0; i < kPool; ++i) {
      values.push_back(ramp(int32_t(random() % 1000), kCount, int32_t(random() % 7)));
      buffers.push_back(i < kUsers ? buffer_of(program.users[size_t(i)]) : int_buffer(d, values.back()));
      write(*buffers.back(), values.back());
    }
    BufferBinding binding(d);
    std::vector<int> inputs(kInputs);
    for (int run = 0; run < 8; ++run) {
      RunOptions options = jit_run();
      for (int i = 0; i < kInputs; ++i) {
        // Mostly distinct buffers; now and then any, the users' and each other's.
        if (run == 0)
          inputs[size_t(i)] = kUsers + i;
        else if (random() % 3 == 0)
          inputs[size_t(i)] = random() % 2 ? kUsers + i : int(random() % kPool);
        options.input_overlay.push_back(buffers[size_t(inputs[size_t(i)])]);
      }
      program.interpret(values, inputs);
      run_linear(binding, program.list, options);
      for (int i = 0; i < kPool; ++i)
        BOOST_TEST(read(*buffers[size_t(i)]) == values[size_t(i)],
                   "seed " << seed << ", program " << round << ", run " << run << ", buffer " << i);
    }
  }
}

// Nodes in any order that their dependencies allow: as they are recorded and, in graphs of the host, as they
// are submitted; and as the instrumented backend runs them.
struct Shuffled {
  explicit Shuffled(bool on)
      : any(on), seed(test_switches().shuffle, on ? 11 : test_switches().shuffle.load()) {}
  AnyReadyNode any;
  ScopedSwitch<uint64_t> seed;
};

} // namespace

BOOST_AUTO_TEST_CASE(random_lists_on_a_synchronous_device) {
  Shuffled shuffled(true);
  uint64_t fallbacks = graph_fallbacks(), launches = graph_launches();
  check(tb().open(), 1, 25);
  BOOST_TEST(graph_fallbacks() > fallbacks); // both ways were taken
  BOOST_TEST(graph_launches() > launches);
}

BOOST_AUTO_TEST_CASE(random_lists_on_a_device_with_streams) {
  Shuffled shuffled(true);
  check(tb().open_streams(), 2, 25);
}

BOOST_AUTO_TEST_CASE(random_lists_in_graphs_of_the_host) {
  Shuffled shuffled(true);
  ScopedConfig host(with([](Config& c) { c.graph = 2; }));
  check(device("INTERP:5"), 3, 10);
}

BOOST_AUTO_TEST_CASE(random_lists_in_graphs_of_the_host_on_streams) {
  Shuffled shuffled(true);
  ScopedConfig host(with([](Config& c) { c.graph = 2; }));
  uint64_t launches = graph_launches();
  Device& d = tb().open([](tb_options& o) { o.streams = 1, o.graph = 0; });
  check(d, 6, 10);
  BOOST_TEST(graph_launches() > launches);
  BOOST_TEST(tb().counters(d).graph_launch == 0u); // the plugin's own were not used
}

BOOST_AUTO_TEST_CASE(random_lists_on_the_cpu, *boost::unit_test::precondition(cpu_exists)) {
  for (bool shuffle : {false, true}) {
    Shuffled shuffled(shuffle);
    check(device("CPU"), shuffle ? 4 : 5, 10);
  }
}

// Several devices of the CPU plugin in one graph.
BOOST_AUTO_TEST_CASE(a_graph_of_several_cpu_devices, *boost::unit_test::precondition(cpu_exists)) {
  UOp a = stored("CPU", ramp(0)), b = temporary("CPU"), there = temporary("CPU:1"),
      changed = temporary("CPU:1"), back = storage("CPU");
  UOp list = batched(device("CPU"), {call_of(add_body(1), {b, param_node(0, DType::I32, kCount, "CPU")}),
                                     copy_call(there, b), call_of(add_body(2), {changed, there}),
                                     copy_call(back, changed), call_of(accumulate_body(), {back, a})});
  BOOST_TEST(text_of(sizes_of(list)) == "5");
  BufferBinding binding(device("CPU"));
  for (int i = 0; i < 5; ++i) {
    run_linear(binding, list, jit_run({stored("CPU", ramp(10 * i))}));
    BOOST_TEST(read(back) == ramp(10 * i + 3, kCount, 2));
  }
}
