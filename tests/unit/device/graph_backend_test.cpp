// Recorded graphs on the instrumented backend: streams, refusals, updates that would block, times of nodes.
#include <boost/test/unit_test.hpp>

#include "device_test.h"
#include "test_backend.h"
#include "test_kernels.h"
#include "tolk/device/graph.h"

using namespace tolk;
using namespace tolk::test;

namespace {

uint32_t add_node(DeviceGraph& g, const ProgramRef& p, const BufferRef& out, const BufferRef& in,
                  std::vector<uint32_t> after = {}) {
  Buffer* raw[] = {out.get(), in.get()};
  return g.add_kernel(p, raw, {}, {static_cast<uint32_t>(out->count()), 1, 1}, {1, 1, 1}, after);
}

std::vector<int32_t> all(int32_t value) { return std::vector<int32_t>(4, value); }

} // namespace

BOOST_AUTO_TEST_CASE(graphs_follow_what_was_submitted_before_and_precede_what_comes_after) {
  Device& d = tb().open_streams();
  tb().delay(d, 1000);
  ProgramRef add = add_kernel(d, 1);
  BufferRef a = int_buffer(d, 4, 0), b = int_buffer(d, 4, 0), c = int_buffer(d, 4, 0);
  DeviceGraph g({&d});
  uint32_t first = add_node(g, add, b, a);
  add_node(g, add, c, b, {first});
  g.commit();
  launch(add, {a, a}); // still queued
  g.launch();
  launch(add, {c, c});
  BOOST_TEST((ints(*c) == all(4)));
  g.launch();
  g.launch();
  BOOST_TEST((ints(*c) == all(3)));
  tb().reset();
}

BOOST_AUTO_TEST_CASE(changes_that_would_wait_go_to_a_second_instance) {
  Device& d = tb().open([](tb_options& o) { o.streams = 1, o.graph |= TOLK_GRAPH_UPDATE_MAY_BLOCK; });
  ProgramRef add = add_kernel(d, 1);
  BufferRef a = int_buffer(d, 4, 0), b = int_buffer(d, 4, 100), out = int_buffer(d, 4, 0);
  BufferRef mid = int_buffer(d, 4, 0), out2 = int_buffer(d, 4, 0);
  uint64_t created = tb().counters(d).graph_create;
  {
    DeviceGraph g({&d});
    uint32_t first = add_node(g, add, mid, a);
    uint32_t second = add_node(g, add, out, mid, {first});
    g.commit();
    g.launch();
    BOOST_TEST((ints(*out) == all(2)));
    g.set_buffer(first, 1, *b); // instance 2 is made
    g.update();
    g.launch();
    BOOST_TEST((ints(*out) == all(102)));
    g.set_buffer(second, 0, *out2); // instance 1 gets both changes
    g.update();
    g.launch();
    BOOST_TEST((ints(*out2) == all(102)));
    BOOST_TEST((ints(*out) == all(102)));
    g.set_buffer(first, 1, *a); // instance 2 gets the second and the third
    g.update();
    g.launch();
    BOOST_TEST((ints(*out2) == all(2)));
    BOOST_TEST(tb().counters(d).graph_create == created + 2);
    BOOST_TEST(tb().counters(d).graph_update == 2u);
  }
  BOOST_TEST(tb().counters(d).live_graphs == 0u);
}

BOOST_AUTO_TEST_CASE(refusals_keep_their_words_and_leave_nothing_behind) {
  Device& d = tb().open();
  ProgramRef add = add_kernel(d, 1);
  BufferRef a = int_buffer(d, 4, 0), b = int_buffer(d, 4, 50), out = int_buffer(d, 4, 0);
  for (uint32_t place : {TB_GRAPH_CREATE, TB_GRAPH_COMMIT}) {
    tb().fail(d, place, "too many graphs", 1, 1, TOLK_E_LIMIT);
    DeviceGraph g({&d});
    add_node(g, add, out, a);
    std::string text = message_of<GraphError>([&] { g.commit(); });
    BOOST_TEST(contains(text, "too many graphs"), text);
    BOOST_TEST(contains(text, d.name()), text);
  }
  BOOST_TEST(tb().counters(d).live_graphs == 0u);
  DeviceGraph g({&d});
  add_node(g, add, out, a);
  g.commit();
  tb().fail(d, TB_GRAPH_UPDATE, "not now", 1, 1, TOLK_E_LIMIT);
  g.set_buffer(0, 1, *b);
  BOOST_TEST(contains(message_of<GraphError>([&] { g.update(); }), "not now"));
  g.launch(); // as before the refused change
  BOOST_TEST((ints(*out) == all(1)));
  g.set_buffer(0, 1, *b);
  g.update();
  tb().fail(d, TB_GRAPH_LAUNCH, "it broke", 1, 1, TOLK_E_KERNEL_FAULT);
  BOOST_TEST(contains(message_of<DeviceError>([&] { g.launch(); }), "it broke"));
  g.launch();
  BOOST_TEST((ints(*out) == all(51)));
}

BOOST_AUTO_TEST_CASE(nodes_beyond_the_limits_of_a_device_are_refused) {
  Device& far = tb().open([](tb_options& o) { o.offset_max = 64; });
  ProgramRef add = add_kernel(far, 1);
  BufferRef in = int_buffer(far, 64, 0), out = int_buffer(far, 4, 0);
  DeviceGraph g({&far});
  add_node(g, add, out, view_buffer(in, DType::I32, 4, 64));
  BOOST_TEST(
      contains(message_of<GraphError>([&] { add_node(g, add, out, view_buffer(in, DType::I32, 4, 68)); }),
               "largest offset"));
  Device& kernels = tb().open([](tb_options& o) { o.graph = TOLK_GRAPH_KERNELS; });
  BufferRef x = int_buffer(kernels, 4, 0), y = int_buffer(kernels, 4, 0);
  DeviceGraph k({&kernels});
  BOOST_TEST(contains(message_of<GraphError>([&] { k.add_copy(*x, *y, {}); }), "no copies"));
  BOOST_TEST(contains(message_of<GraphError>([&] { k.add_fill(*x, 0, 4, {}); }), "no fills"));
  Device& other = tb().open([](tb_options& o) { o.graph = TOLK_GRAPH_KERNELS; });
  BOOST_TEST(
      contains(message_of<GraphError>([&] { DeviceGraph two({&kernels, &other}); }), "one device only"));
}

BOOST_AUTO_TEST_CASE(times_of_nodes_come_in_the_callers_order) {
  Device& d = tb().open();
  tb().delay(d, 300);
  ProgramRef add = add_kernel(d, 1);
  BufferRef a = int_buffer(d, 4, 0), b = int_buffer(d, 4, 0), c = int_buffer(d, 4, 0);
  DeviceGraph g({&d}, DeviceGraph::Kind::Plugin, true);
  uint32_t first = add_node(g, add, b, a);
  add_node(g, add, c, b, {first});
  g.commit();
  uint64_t ns = 0;
  g.launch(&ns);
  std::vector<uint64_t> begin, end;
  BOOST_REQUIRE(g.node_times(begin, end));
  BOOST_REQUIRE(begin.size() == 2u);
  BOOST_TEST(end[0] - begin[0] >= 300000u);
  BOOST_TEST(end[0] <= begin[1]);
  BOOST_TEST(ns >= 600000u);
  tb().reset();
}
