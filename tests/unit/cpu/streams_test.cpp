// The stream table of the CPU plugin: work runs behind the host, in order; events order streams and tell the
// host. "Behind the host" is seen where a stream waits for another one that has some milliseconds to do.
#include <stdexcept>
#include <thread>

#include "ints.h"

namespace tolk::test {
namespace {

const tolk_stream_vt& table() { return *plugin().stream; }

// From any thread.
void ok(tolk_status status) {
  if (status != TOLK_OK) throw std::runtime_error(last_error());
}

class Queue {
public:
  Queue() { ok(table().create(device(), TOLK_STREAM_COMPUTE, &handle)); }
  ~Queue() {
    table().synchronize(handle, TOLK_FOREVER);
    table().destroy(handle);
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  tolk_status try_launch(const LoadedKernel& k, std::vector<tolk_ref> refs, uint64_t value,
                         uint32_t tiles = 1, uint64_t shared_bytes = 0, uint64_t* ns = nullptr) {
    tolk_launch l{};
    l.struct_size = sizeof l;
    for (int i = 0; i < 3; ++i) l.grid[i] = l.local[i] = 1;
    l.grid[0] = tiles;
    l.buffer_count = uint32_t(refs.size());
    l.buffers = refs.data();
    l.value_count = 1;
    l.values = &value;
    l.shared_bytes = shared_bytes;
    l.device_ns = ns;
    tolk_status status = plugin().program->launch(handle, k.handle(), &l);
    refs.assign(refs.size(), {}), value = 77; // arguments are the launch's own
    return status;
  }
  void launch(const LoadedKernel& k, std::vector<tolk_ref> refs, uint64_t value) {
    ok(try_launch(k, std::move(refs), value));
  }
  void finish() { ok(table().synchronize(handle, TOLK_FOREVER)); }
  tolk_stream* handle = nullptr;
};

class Mark {
public:
  Mark() { ok(table().event_create(device(), 0, &handle)); }
  explicit Mark(Queue& queue) : Mark() { record(queue); }
  ~Mark() { table().event_destroy(handle); }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  void record(Queue& queue) { ok(table().event_record(handle, queue.handle)); }
  tolk_status query() const { return table().event_query(handle); }
  tolk_event* handle = nullptr;
};

// Work for some tens of milliseconds: each launch adds one to every element.
struct Slow {
  static constexpr size_t kCount = size_t{1} << 20;
  static constexpr uint32_t kLaunches = 60;
  LoadedKernel kernel{mix_kernel("e_slow", kCount)};
  Ints from{kCount, 0}, zero{kCount, 0}, to{kCount, 0};
  // to = from * 3 + zero + value, again and again
  void start(Queue& queue, uint32_t value) {
    for (uint32_t i = 0; i < kLaunches; ++i) queue.launch(kernel, {to.ref(), from.ref(), zero.ref()}, value);
  }
};

LoadedKernel& small() {
  static LoadedKernel kernel(mix_kernel("e_small", 16));
  return kernel;
}

} // namespace

BOOST_AUTO_TEST_CASE(the_device_says_that_it_has_streams) {
  const tolk_caps* caps = nullptr;
  ok(plugin().device->caps(device(), &caps));
  BOOST_TEST(caps->streams_max >= 2u);
  BOOST_TEST(caps->copy_engines == 1u);
  BOOST_TEST((caps->graph & TOLK_GRAPH_UPDATE_MAY_BLOCK) != 0u);
}

BOOST_AUTO_TEST_CASE(launches_run_behind_the_host_and_in_order) {
  Slow slow;
  Queue queue;
  Ints x(16, 1), y(16, 0);
  slow.start(queue, 5);
  // x = 3x + y + i, from 1
  uint32_t expected = 1;
  for (uint32_t i = 0; i < 200; ++i) {
    queue.launch(small(), {x.ref(), x.ref(), y.ref()}, i);
    expected = expected * 3 + i;
  }
  Mark end(queue);
  BOOST_TEST(end.query() == TOLK_NOT_READY);
  BOOST_TEST(table().event_sync(end.handle, 0) == TOLK_TIMEOUT);
  BOOST_TEST(table().synchronize(queue.handle, 1000) == TOLK_TIMEOUT);
  BOOST_TEST(plugin().device->synchronize(device(), 1000) == TOLK_TIMEOUT);
  BOOST_TEST(table().event_record(end.handle, queue.handle) == TOLK_E_INVALID);
  BOOST_TEST(last_error() == "the event is recorded again before it is done");
  ok(table().event_sync(end.handle, TOLK_FOREVER));
  BOOST_TEST(end.query() == TOLK_OK);
  BOOST_TEST(x.data == std::vector<uint32_t>(16, expected), boost::test_tools::per_element());
  BOOST_TEST((slow.to.data == std::vector<uint32_t>(Slow::kCount, 5)));
  ok(plugin().device->synchronize(device(), TOLK_FOREVER));
  end.record(queue);
  BOOST_TEST(end.query() == TOLK_OK);
}

BOOST_AUTO_TEST_CASE(copies_and_fills_keep_their_place_in_the_queue) {
  Slow slow;
  Queue queue;
  std::vector<uint32_t> in(16, 4), out(16, 0), late(16, 0);
  Ints x(16, 0), y(16, 0), z(16, 0);
  slow.start(queue, 1);
  ok(table().copy_in(queue.handle, x.ref(), in.data(), TOLK_COPY_ASYNC));
  ok(table().fill(queue.handle, y.ref(), 7, 4));
  queue.launch(small(), {z.ref(), x.ref(), y.ref()}, 100);
  ok(table().copy_out(queue.handle, late.data(), z.ref(), TOLK_COPY_ASYNC));
  BOOST_TEST(Mark(queue).query() == TOLK_NOT_READY);
  // A copy that is not asynchronous is done when it returns, and so is all before it.
  ok(table().copy_out(queue.handle, out.data(), z.ref(), 0));
  BOOST_TEST(out == std::vector<uint32_t>(16, 119), boost::test_tools::per_element());
  BOOST_TEST(late == out, boost::test_tools::per_element());
  BOOST_TEST(Mark(queue).query() == TOLK_OK);
  slow.start(queue, 2);
  ok(table().copy_in(queue.handle, x.ref(), out.data(), 0));
  BOOST_TEST(slow.to.data.back() == 2u);
  BOOST_TEST(x.data[3] == 119u);
  slow.start(queue, 3);
  ok(table().copy(queue.handle, z.part(0, 8), x.part(8, 8)));
  uint64_t ns = 0;
  ok(queue.try_launch(small(), {y.ref(), z.ref(), z.ref()}, 1, 1, 0, &ns));
  BOOST_TEST(ns > 0u);
  BOOST_TEST(y.data[0] == 477u);
}

BOOST_AUTO_TEST_CASE(a_stream_waits_for_the_event_of_another_one) {
  Slow slow;
  Queue first, second;
  Ints x(16, 2), y(16, 0);
  for (int round = 0; round < 3; ++round) {
    slow.start(first, uint32_t(round));
    first.launch(small(), {x.ref(), x.ref(), y.ref()}, 1);
    {
      Mark passing(first); // gone while it is waited for
      ok(table().wait(second.handle, passing.handle));
    }
    Mark never;
    ok(table().wait(second.handle, never.handle)); // counts as done
    second.launch(small(), {y.ref(), x.ref(), y.ref()}, 0);
    BOOST_TEST(Mark(second).query() == TOLK_NOT_READY);
    Mark back(second);
    ok(table().wait(first.handle, back.handle));
  }
  first.finish();
  second.finish();
  uint32_t a = 2, b = 0;
  for (int round = 0; round < 3; ++round) {
    a = a * 3 + b + 1;
    b = a * 3 + b;
  }
  BOOST_TEST(x.data[7] == a);
  BOOST_TEST(y.data[7] == b);
}

BOOST_AUTO_TEST_CASE(streams_run_beside_each_other) {
  Slow slow;
  Queue busy, quick;
  slow.start(busy, 9);
  Ints x(16, 1), y(16, 1);
  quick.launch(small(), {x.ref(), y.ref(), y.ref()}, 0);
  Mark slow_end(busy);
  ok(table().synchronize(quick.handle, TOLK_FOREVER));
  BOOST_TEST(x.data[0] == 4u);
  BOOST_TEST(slow_end.query() == TOLK_NOT_READY);
  busy.finish();
}

BOOST_AUTO_TEST_CASE(a_failure_behind_the_host_is_told_once_by_waits) {
  Queue queue;
  Ints x(16, 1), y(16, 1);
  constexpr uint64_t kTooMuch = uint64_t{1} << 60;
  ok(queue.try_launch(small(), {x.ref(), y.ref(), y.ref()}, 0, 1, kTooMuch));
  Mark end(queue);
  BOOST_TEST(table().event_sync(end.handle, TOLK_FOREVER) == TOLK_E_KERNEL_FAULT);
  BOOST_TEST(last_error() == "no memory for a kernel's scratch storage");
  BOOST_TEST(end.query() == TOLK_E_KERNEL_FAULT);
  BOOST_TEST(table().synchronize(queue.handle, TOLK_FOREVER) == TOLK_E_KERNEL_FAULT);
  BOOST_TEST(table().synchronize(queue.handle, TOLK_FOREVER) == TOLK_OK);
  BOOST_TEST(x.data[0] == 1u);
  ok(queue.try_launch(small(), {x.ref(), y.ref(), y.ref()}, 0, 1, kTooMuch));
  std::vector<uint32_t> out(16);
  BOOST_TEST(table().copy_out(queue.handle, out.data(), x.ref(), 0) == TOLK_E_KERNEL_FAULT);
  uint64_t ns = 0; // what the host waits for has its own status
  BOOST_TEST(queue.try_launch(small(), {x.ref(), y.ref(), y.ref()}, 0, 1, kTooMuch, &ns) == TOLK_E_HOST_OOM);
  queue.launch(small(), {x.ref(), y.ref(), y.ref()}, 0);
  queue.finish();
  BOOST_TEST(x.data[0] == 4u);
}

BOOST_AUTO_TEST_CASE(a_graph_is_in_order_on_the_streams_of_its_devices) {
  const tolk_graph_vt& graphs = *plugin().graph;
  Slow slow;
  Queue first, second;
  Ints x(16, 1), y(16, 1), seen(16, 0);
  tolk_device* devices[2] = {device(), device()};
  tolk_graph* graph = nullptr;
  ok(graphs.create(devices, 2, TOLK_GRAPH_UPDATABLE, &graph));
  tolk_ref refs[3] = {y.ref(), x.ref(), x.ref()};
  uint64_t value = 10;
  tolk_launch l{};
  l.struct_size = sizeof l;
  for (int i = 0; i < 3; ++i) l.grid[i] = l.local[i] = 1;
  l.buffer_count = 3, l.buffers = refs, l.value_count = 1, l.values = &value;
  ok(graphs.add_kernel(graph, 0, small().handle(), &l, nullptr, 0));
  ok(graphs.commit(graph));
  tolk_stream* streams[2] = {first.handle, second.handle};
  slow.start(second, 1);
  second.launch(small(), {x.ref(), x.ref(), x.ref()}, 0); // 4, before the graph
  ok(graphs.launch(graph, streams, nullptr));
  second.launch(small(), {seen.ref(), y.ref(), y.ref()}, 0); // behind the graph
  BOOST_TEST(Mark(first).query() == TOLK_NOT_READY);
  // The launch that runs does not see the change.
  tolk_patch patch{};
  uint32_t count = 0;
  tolk_set_val(&patch, &count, 0, 0, 1000);
  ok(graphs.update(graph, &patch, 1));
  BOOST_TEST(Mark(first).query() == TOLK_OK);
  second.finish();
  BOOST_TEST(y.data[0] == 4u * 3 + 4 + 10);
  BOOST_TEST(seen.data[0] == y.data[0] * 4);
  uint64_t ns = 0;
  ok(graphs.launch(graph, streams, &ns));
  BOOST_TEST(ns > 0u);
  BOOST_TEST(y.data[0] == 4u * 3 + 4 + 1000);
  graphs.destroy(graph);
}

BOOST_AUTO_TEST_CASE(several_threads_have_a_stream_each) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (uint32_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Queue queue;
      Ints x(16, t), y(16, 1);
      uint32_t expected = t;
      for (uint32_t round = 0; round < 50; ++round) {
        for (uint32_t i = 0; i < 20; ++i) {
          queue.launch(small(), {x.ref(), x.ref(), y.ref()}, i);
          expected = expected * 3 + 1 + i;
        }
        std::vector<uint32_t> out(16);
        ok(table().copy_out(queue.handle, out.data(), x.ref(), 0));
        wrong += out[5] != expected;
      }
    });
  for (std::thread& thread : threads) thread.join();
  BOOST_TEST(wrong == 0);
}

} // namespace tolk::test
