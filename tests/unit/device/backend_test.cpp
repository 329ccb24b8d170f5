// The instrumented backend itself: it computes, counts, records, fails, waits and replays graphs.
#include <boost/test/unit_test.hpp>

#include "device_test.h"
#include "test_backend.h"
#include "test_kernels.h"
#include "tolk/base/error.h"
#include "tolk/loader/plugin_loader.h"

using namespace tolk;
using namespace tolk::test;

BOOST_AUTO_TEST_CASE(it_computes_counts_and_records) {
  for (const char* name : {"XDEV", "YDEV"}) {
    TestBackend& x = tb(name);
    x.reset();
    for (uint32_t streams : {0u, 1u}) {
      Device& d = x.open([&](tb_options& o) { o.streams = streams; });
      ProgramRef add = add_kernel(d, 5);
      BufferRef a = int_buffer(d, {1, 2, 3}), b = make_buffer(d, DType::I32, 3);
      launch(add, {b, a});
      BOOST_TEST(ints(*b) == std::vector<int32_t>({6, 7, 8}), boost::test_tools::per_element());
      tb_counters c = x.counters(d);
      BOOST_TEST(c.launches == 1u);
      BOOST_TEST(c.copy_in == 1u);
      BOOST_TEST(c.copy_out == 1u);
      BOOST_TEST(c.buffer_create == 2u);
      BOOST_TEST(c.live_buffers == 2u);
      BOOST_TEST((scattered() || c.live_bytes == 24u));
      BOOST_TEST(c.load == 1u);
      tb_record r = x.launches().back();
      BOOST_TEST(r.kernel == std::string("add"));
      BOOST_TEST(r.device == d.index());
      BOOST_TEST(r.grid[0] == 3u);
      BOOST_TEST(r.buffer_count == 2u);
      BOOST_TEST(r.bytes[0] == 12u);
      BOOST_TEST((r.stream != 0) == (streams == 1));
    }
  }
}

BOOST_AUTO_TEST_CASE(failures_delays_and_times_are_as_asked) {
  TestBackend& x = tb();
  x.reset();
  Device& d = x.open();
  ProgramRef add = add_kernel(d, 1);
  BufferRef a = int_buffer(d, 4, 1), b = int_buffer(d, 4, 0);
  x.fail(d, TB_LAUNCH, "second launch refused", 2);
  launch(add, {b, a});
  BOOST_TEST(contains(message_of<DeviceError>([&] { launch(add, {b, a}); }), "second launch refused"));
  launch(add, {b, a});
  // A launch that is "not ready" has not said whether it ran.
  x.fail(d, TB_LAUNCH, "later", 1, 1, TOLK_NOT_READY);
  BOOST_TEST(
      contains(message_of<DeviceError>([&] { launch(add, {b, a}); }), "answered TOLK_NOT_READY (status 1)"));
  x.delay(d, 20'000);
  uint64_t ns = 0;
  launch(add, {b, a}, {}, 4, &ns);
  BOOST_TEST(ns >= 20'000'000u);
  LaunchTimes times(x, [](const tb_record& r) { return 1000 + r.grid[0]; });
  launch(add, {b, a}, {}, 4, &ns);
  BOOST_TEST(ns == 1004u);
}

BOOST_AUTO_TEST_CASE(streams_run_behind_the_host_and_in_order) {
  TestBackend& x = tb();
  x.reset();
  Device& d = x.open_streams();
  ProgramRef add = add_kernel(d, 1);
  BufferRef a = int_buffer(d, 4, 0), b = int_buffer(d, 4, 0);
  auto held = x.hold_kernels(d);
  launch(add, {b, a});
  launch(add, {a, b});
  BOOST_TEST(x.counters(d).launches == 2u);
  BOOST_TEST(x.counters(d).kernels_run == 0u); // both are still to come
  held.release();
  BOOST_TEST(ints(*a) == std::vector<int32_t>(4, 2), boost::test_tools::per_element());
  BOOST_TEST(x.counters(d).kernels_run == 2u);
}

BOOST_AUTO_TEST_CASE(graphs_replay_and_updates_spare_the_launch_in_flight) {
  TestBackend& x = tb();
  x.reset();
  for (bool streams : {false, true}) {
    Device& d = x.open([&](tb_options& o) { o.streams = streams; });
    const tolk_graph_vt& g = d.plugin().graph;
    ProgramRef accumulate = accumulate_kernel(d);
    BufferRef acc = int_buffer(d, 1, 0), p = int_buffer(d, 1, 10);
    // The handle of a kernel is the device layer's secret: take it from a launch of our own.
    tolk_graph* graph = nullptr;
    tolk_device* devices[1] = {d.handle()};
    tolk_stream* stream[1] = {d.stream()};
    BOOST_REQUIRE(g.create(devices, 1, TOLK_GRAPH_UPDATABLE, &graph) == TOLK_OK);
    tolk_ref refs[2] = {acc->ref(), p->ref()};
    uint64_t values[1] = {1};
    tolk_launch l{};
    l.struct_size = sizeof l;
    for (uint32_t& n : l.grid) n = 1;
    for (uint32_t& n : l.local) n = 1;
    l.buffer_count = 2, l.value_count = 1, l.buffers = refs, l.values = values;
    BOOST_REQUIRE(g.add_kernel(graph, 0, accumulate->kernel(), &l, nullptr, 0) == TOLK_OK);
    uint32_t zero = 0;
    BOOST_REQUIRE(g.add_kernel(graph, 0, accumulate->kernel(), &l, &zero, 1) == TOLK_OK);
    BOOST_REQUIRE(g.commit(graph) == TOLK_OK);
    BOOST_TEST(g.commit(graph) < 0);
    auto held = x.hold_kernels(d);
    BOOST_REQUIRE(g.launch(graph, stream, nullptr) == TOLK_OK); // + 2 * 11
    tolk_patch patches[2];
    uint32_t n = 0;
    tolk_set_val(patches, &n, 1, 0, 100);
    BOOST_REQUIRE(g.update(graph, patches, n) == TOLK_OK);
    BOOST_REQUIRE(g.launch(graph, stream, nullptr) == TOLK_OK); // + 11 + 110
    held.release();
    BOOST_TEST(ints(*acc) == std::vector<int32_t>({143}), boost::test_tools::per_element());
    tb_counters c = x.counters(d);
    BOOST_TEST(c.graph_kernels == 2u);
    BOOST_TEST(c.patches_value == 1u);
    BOOST_TEST(c.graph_launch == 2u);
    BOOST_TEST(c.live_graphs == 1u);
    g.destroy(graph);
    BOOST_TEST(x.counters(d).live_graphs == 0u);
  }
}

BOOST_AUTO_TEST_CASE(switches_take_effect_at_open) {
  TestBackend& x = tb();
  x.reset();
  Device& d = x.open([](tb_options& o) {
    o.graph = 0;
    o.copy_hook = o.host_map = o.offset_views = 0;
    o.local_max = 1;
    o.offset_max = 4096;
    o.memory_limit = 1000;
  });
  BOOST_TEST(d.caps().graph == 0u);
  BOOST_TEST((d.caps().flags & TOLK_CAP_NO_OFFSET_VIEWS) != 0u);
  BOOST_TEST(d.caps().local_product_max == 1u);
  BOOST_TEST(d.caps().offset_max == 4096u);
  BOOST_CHECK_THROW(make_buffer(d, DType::U8, 1001)->allocate(), OutOfMemory);
  BufferRef a = int_buffer(d, 4, 1), b = make_buffer(d, DType::I32, 4);
  BOOST_TEST(a->host_data() == nullptr);
  copy_buffer(*b, *a);
  BOOST_TEST(x.counters(d).copy == 0u);
  BOOST_TEST(ints(*b) == std::vector<int32_t>(4, 1), boost::test_tools::per_element());
}
