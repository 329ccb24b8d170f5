// Recorded graphs: the host's own on test plugins that compute, the plugin's on NULL, which counts.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <cstring>
#include <random>

#include "device_test.h"
#include "scoped_switch.h"
#include "tolk/base/error.h"
#include "tolk/device/graph.h"
#include "tolk/loader/plugin_loader.h"

using namespace tolk;
using namespace tolk::test;

namespace {

constexpr uint64_t kBytes = 16;

Device& open_test_device(const std::string& name) {
  Config config = search_in(std::string(TOLK_PLUGIN_FOLDER) + ":" + plugin_folder("basic") + ":" +
                            plugin_folder("streams") + ":" + plugin_folder("serial"));
  ScopedConfig scoped(config);
  return device(name);
}

// What the test plugins take as code: "add N" adds N and the value to every byte of buffer 0; "copy" copies
// buffer 1 to buffer 0.
ProgramRef kernel(Device& d, std::string_view text, size_t buffers, bool value, uint32_t target = 0) {
  KernelSource s;
  s.target_index = target;
  s.text = text;
  s.entry = "k";
  for (size_t i = 0; i < buffers; i++) {
    tolk_param p{};
    p.kind = TOLK_PARAM_BUFFER;
    p.access = i == 0 ? TOLK_ACCESS_READ | TOLK_ACCESS_WRITE : TOLK_ACCESS_READ;
    p.dtype = TOLK_DTYPE_U8;
    p.count = kBytes;
    s.params.push_back(p);
  }
  if (value) {
    tolk_param p{};
    p.kind = TOLK_PARAM_VALUE;
    p.dtype = TOLK_DTYPE_I32;
    p.max = 100;
    s.params.push_back(p);
  }
  return d.build(s);
}

BufferRef filled(Device& d, uint64_t byte, uint64_t n = kBytes) {
  BufferRef b = make_buffer(d, DType::U8, n);
  fill_buffer(*b, byte, 1);
  return b;
}

int first_byte(Buffer& b) {
  std::vector<std::byte> bytes(b.bytes());
  b.copy_out(bytes);
  return std::to_integer<int>(bytes[0]);
}

constexpr std::array<uint32_t, 3> kOne{1, 1, 1};

uint32_t add_node(DeviceGraph& g, const ProgramRef& p, std::vector<Buffer*> buffers,
                  std::vector<int64_t> values = {}, std::vector<uint32_t> after = {},
                  std::array<uint32_t, 3> grid = kOne) {
  return g.add_kernel(p, buffers, values, grid, kOne, after);
}

const char* const kDevices[] = {"BASIC", "STREAMS", "SERIAL"};

struct NullCounters { // what plugins/null/null.h shows
  uint32_t struct_size, reserved;
  uint64_t launches, groups, compiles, loads, copies_in, copies_out, copied_bytes, buffers;
  uint64_t graphs, graph_launches, updates, patched_buffers, patched_values, patched_sizes;
};
NullCounters null_counters() {
  Device& d = open_test_device("NULL");
  const void* table = nullptr;
  BOOST_REQUIRE(d.plugin().table.get_extension(d.plugin().self, "x.null.counters", 1, &table) == TOLK_OK);
  NullCounters out;
  std::memcpy(&out, table, sizeof out);
  return out;
}

} // namespace

BOOST_DATA_TEST_CASE(a_host_graph_runs_in_dependency_order_and_takes_changes,
                     boost::unit_test::data::make(kDevices), name) {
  Device& d = open_test_device(name);
  ProgramRef add = kernel(d, "add 1", 1, true), copy = kernel(d, "copy", 2, false);
  BufferRef a = filled(d, 1), b = filled(d, 0), c = filled(d, 0), other = filled(d, 50);
  DeviceGraph g({&d});
  BOOST_TEST(!graph_ability(d).native);
  uint32_t n0 = add_node(g, add, {a.get()}, {2});                // a += 3
  uint32_t n1 = add_node(g, copy, {b.get(), a.get()}, {}, {n0}); // b = a
  uint32_t n2 = g.add_copy(*c, *b, {{n1}});
  uint32_t n3 = add_node(g, add, {c.get()}, {0}, {n2});
  BOOST_TEST(n3 == 3u);
  g.commit();
  g.launch();
  BOOST_TEST(first_byte(*c) == 5);
  g.launch();
  BOOST_TEST(first_byte(*c) == 8);
  g.set_buffer(n0, 0, *other);
  g.set_buffer(n1, 1, *other);
  g.set_value(n0, 0, 10);
  g.launch(); // not effective before update
  BOOST_TEST(first_byte(*c) == 11);
  g.update();
  uint64_t ns = 0;
  g.launch(&ns);
  BOOST_TEST(ns > 0u);
  BOOST_TEST(first_byte(*c) == 62);
  BOOST_TEST(first_byte(*a) == 10);
  uint32_t fill = 0;
  DeviceGraph filling({&d});
  fill = filling.add_fill(*a, 0x42, 1, {});
  filling.commit();
  filling.launch();
  BOOST_TEST(first_byte(*a) == 0x42);
  filling.set_buffer(fill, 0, *b);
  filling.update();
  filling.launch();
  BOOST_TEST(first_byte(*b) == 0x42);
}

// Random programs over few buffers, with the dependencies that the accesses ask for, in a random order that
// these allow: the result is that of the program in order.
BOOST_DATA_TEST_CASE(any_order_that_dependencies_allow_gives_the_same, boost::unit_test::data::make(kDevices),
                     name) {
  Device& d = open_test_device(name);
  ProgramRef add = kernel(d, "add 1", 1, true), copy = kernel(d, "copy", 2, false);
  std::mt19937 random(7);
  ScopedSwitch<uint64_t> shuffled(test_switches().shuffle, 3);
  for (int round = 0; round < 30; round++) {
    constexpr size_t kBuffers = 4;
    std::vector<BufferRef> buffers;
    int expected[kBuffers];
    std::vector<std::vector<uint32_t>> touched(kBuffers);
    std::vector<int> writer(kBuffers, -1);
    for (size_t i = 0; i < kBuffers; i++) {
      expected[i] = int(random() % 50);
      buffers.push_back(filled(d, uint64_t(expected[i])));
    }
    DeviceGraph g({&d});
    for (uint32_t node = 0; node < 20; node++) {
      size_t to = random() % kBuffers, from = random() % kBuffers;
      std::vector<uint32_t> after = touched[to];
      touched[to] = {node};
      if (random() % 2 || to == from) {
        int by = int(random() % 5);
        add_node(g, add, {buffers[to].get()}, {by}, after);
        expected[to] = (expected[to] + 1 + by) & 255;
      } else {
        if (writer[from] >= 0) after.push_back(uint32_t(writer[from]));
        touched[from].push_back(node);
        if (random() % 2)
          g.add_copy(*buffers[to], *buffers[from], after);
        else
          add_node(g, copy, {buffers[to].get(), buffers[from].get()}, {}, after);
        expected[to] = expected[from];
      }
      writer[to] = int(node);
    }
    g.commit();
    g.launch();
    for (size_t i = 0; i < kBuffers; i++) BOOST_TEST(first_byte(*buffers[i]) == expected[i]);
  }
}

// The shuffle is real: nodes that wait for nothing run in another order at times.
BOOST_AUTO_TEST_CASE(shuffling_finds_a_missing_dependency) {
  Device& d = open_test_device("BASIC");
  ProgramRef add = kernel(d, "add 1", 1, true), copy = kernel(d, "copy", 2, false);
  ScopedSwitch<uint64_t> shuffled(test_switches().shuffle, 1);
  int wrong = 0;
  for (int round = 0; round < 20; round++) {
    BufferRef a = filled(d, 1), b = filled(d, 0);
    DeviceGraph g({&d});
    add_node(g, add, {a.get()}, {0});
    add_node(g, copy, {b.get(), a.get()}); // should wait for node 0
    g.commit();
    g.launch();
    wrong += first_byte(*b) != 2;
  }
  BOOST_TEST(wrong > 0);
  BOOST_TEST(wrong < 20);
}

BOOST_DATA_TEST_CASE(several_devices_of_a_plugin_keep_step,
                     boost::unit_test::data::make({"BASIC", "STREAMS"}), name) {
  Device &d0 = open_test_device(name), &d1 = open_test_device(std::string(name) + ":1");
  ProgramRef add0 = kernel(d0, "add 1", 1, true), add1 = kernel(d1, "add 2", 1, true);
  BufferRef a = filled(d0, 1), b = filled(d1, 0), c = filled(d0, 0);
  DeviceGraph g({&d0, &d1});
  uint32_t n0 = add_node(g, add0, {a.get()}, {0});
  uint32_t n1 = g.add_copy(*b, *a, {{n0}});
  uint32_t n2 = add_node(g, add1, {b.get()}, {0}, {n1});
  uint32_t n3 = g.add_copy(*c, *b, {{n2}});
  add_node(g, add0, {a.get()}, {0}, {n1});
  add_node(g, add0, {c.get()}, {0}, {n3});
  g.commit();
  for (int i = 0; i < 5; i++) g.launch();
  // a is 11 after five launches of += 2; the last copy of it was taken at 10.
  BOOST_TEST(first_byte(*a) == 11);
  BOOST_TEST(first_byte(*b) == 12);
  BOOST_TEST(first_byte(*c) == 13);
}

BOOST_AUTO_TEST_CASE(the_null_device_counts_launches_and_changes) {
  Device& d = open_test_device("NULL");
  BOOST_TEST(graph_ability(d).native);
  BOOST_TEST(graph_ability(d).copies);
  BOOST_TEST(graph_ability(d).several_devices);
  ProgramRef k = kernel(d, "x", 1, true, 2);
  BufferRef a = filled(d, 1), b = filled(d, 2), c = filled(d, 3);
  NullCounters before = null_counters();
  DeviceGraph g({&d});
  uint32_t last = 0;
  for (uint32_t i = 0; i < 10; i++) last = add_node(g, k, {a.get()}, {int64_t(i)}, {}, {3, 1, 1});
  uint32_t copy = g.add_copy(*b, *a, {{last}});
  uint32_t fill = g.add_fill(*c, 9, 1, {});
  g.commit();
  g.launch();
  NullCounters now = null_counters();
  BOOST_TEST(now.graphs == before.graphs + 1);
  BOOST_TEST(now.graph_launches == before.graph_launches + 1);
  BOOST_TEST(now.launches == before.launches + 10);
  BOOST_TEST(now.groups == before.groups + 30);
  BOOST_TEST(first_byte(*b) == 1);
  BOOST_TEST(first_byte(*c) == 9);
  g.update(); // nothing collected: no call
  BOOST_TEST(null_counters().updates == before.updates);
  g.set_buffer(0, 0, *c);
  g.set_value(1, 0, 50);
  g.set_sizes(2, {5, 1, 1}, kOne);
  g.set_buffer(copy, 1, *c);
  g.set_buffer(fill, 0, *a);
  g.update();
  g.launch();
  now = null_counters();
  BOOST_TEST(now.updates == before.updates + 1);
  BOOST_TEST(now.patched_buffers == before.patched_buffers + 3);
  BOOST_TEST(now.patched_values == before.patched_values + 1);
  BOOST_TEST(now.patched_sizes == before.patched_sizes + 1);
  BOOST_TEST(now.groups == before.groups + 62);
  BOOST_TEST(first_byte(*b) == 9);
  BOOST_TEST(first_byte(*a) == 9);
  std::vector<uint64_t> begin, end;
  BOOST_TEST(!g.node_times(begin, end));
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused_before_the_plugin_sees_it) {
  Device &d = open_test_device("NULL"), &other = open_test_device("BASIC");
  ProgramRef k = kernel(d, "x", 1, true, 2);
  BufferRef a = filled(d, 0), small = filled(d, 0, 8), foreign = filled(other, 0);
  DeviceGraph g({&d});
  auto refused = [&](auto&& call) { return message_of<InvalidArgument>(call); };
  BOOST_TEST(
      contains(refused([&] { add_node(g, k, {a.get()}); }), "takes 1 buffers and 1 values, got 1 and 0"));
  BOOST_TEST(contains(refused([&] { add_node(g, k, {small.get()}, {0}); }), "it has 8 bytes"));
  BOOST_TEST(contains(refused([&] { add_node(g, k, {foreign.get()}, {0}); }), "it is on BASIC"));
  BOOST_TEST(contains(refused([&] { add_node(g, k, {a.get()}, {101}); }), "101 is not in 0..100"));
  BOOST_TEST(contains(refused([&] { add_node(g, k, {a.get()}, {0}, {0}); }), "cannot wait for node 0"));
  BOOST_TEST(contains(refused([&] { add_node(g, k, {a.get()}, {0}, {}, {0, 1, 1}); }), "a launch size is 0"));
  BOOST_TEST(contains(refused([&] { g.add_copy(*a, *small, {}); }), "size mismatch"));
  BOOST_TEST(contains(refused([&] { g.add_fill(*a, 0, 3, {}); }), "pattern of 3 bytes"));
  BOOST_TEST(contains(refused([&] { g.launch(); }), "launched after commit"));
  BOOST_TEST(contains(refused([&] { g.set_value(0, 0, 1); }), "changed after commit"));
  BufferRef front = view_buffer(a, DType::U8, 8, 0), middle = view_buffer(a, DType::U8, 8, 4);
  BOOST_TEST(contains(message_of<GraphError>([&] { g.add_copy(*front, *middle, {}); }), "overlap"));
  add_node(g, k, {a.get()}, {0});
  uint32_t copy = g.add_copy(*small, *front, {});
  g.commit();
  BOOST_TEST(contains(refused([&] { g.commit(); }), "committed once"));
  BOOST_TEST(contains(refused([&] { add_node(g, k, {a.get()}, {0}); }), "no more nodes"));
  BOOST_TEST(contains(refused([&] { g.set_buffer(0, 1, *a); }), "none is number 1"));
  BOOST_TEST(contains(refused([&] { g.set_buffer(0, 0, *small); }), "it has 8 bytes"));
  BOOST_TEST(contains(refused([&] { g.set_value(9, 0, 1); }), "has no node 9"));
  BOOST_TEST(contains(refused([&] { g.set_value(0, 0, -1); }), "-1 is not in 0..100"));
  BOOST_TEST(contains(refused([&] { g.set_sizes(0, {1, 0, 1}, kOne); }), "a launch size is 0"));
  BOOST_TEST(contains(refused([&] { g.set_sizes(copy, kOne, kOne); }), "is no kernel"));
  BOOST_TEST(contains(refused([&] { g.set_buffer(copy, 1, *a); }), "recorded with 8 bytes, got 16"));
  // A refused change takes the collected ones with it.
  uint64_t updates = null_counters().updates;
  g.set_value(0, 0, 7);
  BOOST_CHECK_THROW(g.set_value(0, 0, 700), InvalidArgument);
  g.update();
  BOOST_TEST(null_counters().updates == updates);
  g.set_buffer(copy, 1, *small);
  BOOST_TEST(contains(message_of<GraphError>([&] { g.update(); }), "overlap"));
  g.launch();

  BOOST_TEST(contains(message_of<GraphError>([&] { DeviceGraph mixed({&d, &other}); }), "different plugins"));
  BOOST_TEST(contains(refused([&] { DeviceGraph twice({&d, &d}); }), "named twice"));
  BOOST_TEST(contains(refused([&] { DeviceGraph none({}); }), "at least one device"));
  BOOST_TEST(contains(message_of<GraphError>([&] { DeviceGraph g2({&other}, DeviceGraph::Kind::Plugin); }),
                      "has no graphs"));
}

BOOST_AUTO_TEST_CASE(an_error_of_a_kernel_is_a_device_error) {
  Device& d = open_test_device("BASIC");
  BufferRef a = filled(d, 1);
  DeviceGraph g({&d});
  add_node(g, kernel(d, "add 1", 1, false), {a.get()});
  add_node(g, kernel(d, "trap", 1, false), {a.get()}, {}, {0});
  g.commit();
  std::string text = message_of<DeviceError>([&] { g.launch(); });
  BOOST_TEST(contains(text, "BASIC: launch of a graph of 2 nodes: the kernel trapped"), text);
  BOOST_TEST(first_byte(*a) == 2);
}
