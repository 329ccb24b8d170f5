// Streams and events, and the order that storage brings between streams.
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <set>
#include <thread>

#include "device_test.h"
#include "test_backend.h"
#include "test_kernels.h"
#include "tolk/base/error.h"
#include "tolk/device/context.h"
#include "tolk/device/stream.h"
#include "tolk/loader/plugin_loader.h"

using namespace tolk;
using namespace tolk::test;

namespace {

void check_ints(Buffer& buffer, const std::vector<int32_t>& expected) {
  BOOST_TEST(ints(buffer) == expected, boost::test_tools::per_element());
}

Device& null_device() {
  ScopedConfig scoped(search_in(TOLK_PLUGIN_FOLDER));
  return device("NULL");
}

struct Fresh {
  Fresh() { tb().reset(), tb("YDEV").reset(); }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(streams, Fresh)

BOOST_AUTO_TEST_CASE(devices_describe_themselves, *boost::unit_test::label("D-01")) {
  std::vector<Device*> devices = computing_devices();
  devices.insert(devices.end(), {&tb().open(), &tb("YDEV").open(), &null_device(), &host_device()});
  for (Device* d : devices) {
    std::string text = describe(*d);
    BOOST_TEST(contains(text, d->name()), text);
    BOOST_TEST(contains(text, "index " + std::to_string(d->index())), text);
    BOOST_TEST(contains(text, "number " + std::to_string(d->id())), text);
  }
}

BOOST_AUTO_TEST_CASE(streams_describe_themselves_with_their_device, *boost::unit_test::label("D-02")) {
  Device& d = tb().open_streams();
  BOOST_TEST(contains(describe(d.compute()), d.get_name()));
  BOOST_REQUIRE(d.copy());
  BOOST_TEST(contains(describe(*d.copy()), d.get_name()));
  BOOST_TEST(describe(*d.copy()) != describe(d.compute()));
  BOOST_TEST(contains(describe(null_device().compute()), "synchronous"));
  BOOST_TEST(!null_device().copy());
}

BOOST_AUTO_TEST_CASE(events_track_work_up_to_a_point, *boost::unit_test::label("D-03")) {
  Device& d = tb().open_streams();
  ProgramRef add = add_kernel(d, 1);
  BufferRef a = int_buffer(d, 1, 0), b = int_buffer(d, 1, 0);
  BOOST_TEST(d.compute().all_work().is_done()); // idle: done from the start
  launch(add, {b, a});
  Event before = d.compute().all_work();
  before.sync();
  auto held = tb().hold_kernels(d);
  launch(add, {a, b});
  Event after = d.compute().all_work();
  BOOST_TEST(before.is_done());
  BOOST_TEST(!after.is_done());
  BOOST_TEST(!d.is_idle());
  BOOST_TEST(contains(describe(after), "not done"));
  BOOST_TEST(contains(describe(after), d.get_name()));
  held.release();
  after.sync();
  BOOST_TEST(after.is_done());
  after.sync(); // and again
  BOOST_TEST(d.is_idle());
  BOOST_TEST(null_device().compute().all_work().is_done());
  BOOST_TEST(Event().is_done());
}

BOOST_AUTO_TEST_CASE(one_stream_waits_for_the_event_of_another, *boost::unit_test::label("D-04")) {
  Device &a = tb().open_streams(), &b = tb().open_streams();
  ProgramRef add_a = add_kernel(a, 1), add_b = add_kernel(b, 1);
  BufferRef xa = int_buffer(a, 1, 0), ya = int_buffer(a, 1, 0), xb = int_buffer(b, 1, 0),
            yb = int_buffer(b, 1, 0);
  auto held = tb().hold_kernels(a);
  launch(add_a, {ya, xa});
  Event of_a = a.compute().all_work();
  b.compute().will_wait_for(of_a);
  launch(add_b, {yb, xb});
  Event of_b = b.compute().all_work(); // the host went on, though the kernel of a cannot end
  let_workers_run();
  BOOST_TEST(!of_a.is_done());
  BOOST_TEST(!of_b.is_done());
  BOOST_TEST(tb().counters(b).kernels_run == 0u);
  held.release();
  of_b.sync();
  BOOST_TEST(of_a.is_done());
  BOOST_TEST(tb().counters(b).stream_wait == 1u);
  a.compute().will_wait_for(a.compute().all_work()); // its own: dropped
  BOOST_TEST(tb().counters(a).stream_wait == 0u);
}

BOOST_AUTO_TEST_CASE(the_backend_has_a_stable_name, *boost::unit_test::label("D-05")) {
  std::vector<Device*> devices = computing_devices();
  devices.insert(devices.end(), {&tb().open(), &tb("YDEV").open(), &null_device(), &host_device()});
  std::set<std::string> names, expected = {"XDEV", "YDEV", "NULL", "HOST", "INTERP"};
#ifdef TOLK_TEST_HAS_CPU
  expected.insert("CPU");
#endif
  for (Device* d : devices) names.insert(d->plugin().name);
  BOOST_TEST(names == expected, boost::test_tools::per_element());
  BOOST_TEST(&tb().open().plugin() == &tb().open().plugin()); // same backend, same object
}

BOOST_AUTO_TEST_CASE(a_device_has_index_number_and_stream_and_is_compared_by_number,
                     *boost::unit_test::label("D-07")) {
  Device &a = tb().open(), &b = tb().open();
  BOOST_TEST(a.index() + 1 == b.index());
  BOOST_TEST(a.id() != b.id());
  BOOST_TEST(&a.compute().device() == &a);
  BOOST_TEST((a == a));
  BOOST_TEST(!(a == b));
  BOOST_TEST(&device(a.name()) == &a);
}

BOOST_AUTO_TEST_CASE(a_hundred_devices_of_two_backends_have_numbers_of_their_own,
                     *boost::unit_test::label("D-16")) {
  std::set<uint32_t> ids;
  for (int i = 0; i < 50; i++)
    for (const char* name : {"XDEV", "YDEV"}) {
      std::string text = tb(name).open_name();
      Device& d = device(text);
      BOOST_TEST(text == std::string(name) + ":" + std::to_string(d.index()));
      ids.insert(d.id());
    }
  BOOST_TEST(ids.size() == 100u);
}

BOOST_AUTO_TEST_CASE(get_name_is_backend_index_and_number, *boost::unit_test::label("D-17")) {
  Device &a = tb().open(), &b = tb().open();
  BOOST_TEST(a.get_name() == "XDEV:" + std::to_string(a.index()) + ":" + std::to_string(a.id()));
  BOOST_TEST(a.get_name() != b.get_name());
}

BOOST_AUTO_TEST_CASE(one_stream_takes_no_event) {
  Device& d = tb().open_streams();
  ProgramRef add = add_kernel(d, 1);
  BufferRef a = int_buffer(d, 4, 0), b = int_buffer(d, 4, 0);
  for (int i = 0; i < 10; i++) launch(add, {i % 2 ? a : b, i % 2 ? b : a});
  check_ints(*a, std::vector<int32_t>(4, 10));
  BOOST_TEST(tb().counters(d).event_record == 0u);
  BOOST_TEST(tb().counters(d).stream_wait == 0u);
}

BOOST_AUTO_TEST_CASE(copies_between_devices_wait_for_the_writer_and_hold_up_the_reader) {
  Device &d0 = tb().open_streams(), &d1 = tb().open_streams();
  ProgramRef add0 = add_kernel(d0, 5), add1 = add_kernel(d1, 100);
  BufferRef a = int_buffer(d0, 64, 1), b = int_buffer(d0, 64, 0), c = int_buffer(d1, 64, 0),
            e = int_buffer(d1, 64, 0);
  auto held0 = tb().hold_kernels(d0), held1 = tb().hold(d1);
  for (int round = 0; round < 3; round++) {
    launch(add0, {b, a});
    copy_buffer(*c, *b);  // on d1's copy stream
    launch(add1, {e, c}); // on d1's compute stream
    launch(add0, {a, b}); // may not overwrite what the copy reads ... it reads b and writes a
  }
  for (const auto* held : {&held1, &held0}) {
    let_workers_run();
    held->release();
  }
  check_ints(*e, std::vector<int32_t>(64, 1 + 5 + 2 * 10 + 100));
  check_ints(*a, std::vector<int32_t>(64, 31));
  BOOST_TEST(tb().counters(d1).copy == 3u);
}

BOOST_AUTO_TEST_CASE(a_copy_waits_for_readers_of_its_destination, *boost::unit_test::label("BU-19")) {
  Device &d0 = tb().open_streams(), &d1 = tb().open_streams();
  ProgramRef add = add_kernel(d1, 0);
  BufferRef fresh = int_buffer(d0, 256, 9), b = int_buffer(d1, 256, 4), seen = int_buffer(d1, 256, 0);
  auto held = tb().hold_kernels(d1);
  launch(add, {seen, b}); // reader on d1's compute stream
  copy_buffer(*b, *fresh);
  let_workers_run();
  BOOST_TEST(tb().counters(d1).kernels_run == 0u); // nothing was waited for by the host
  held.release();
  check_ints(*seen, std::vector<int32_t>(256, 4));
  check_ints(*b, std::vector<int32_t>(256, 9));
}

BOOST_AUTO_TEST_CASE(reused_storage_is_written_after_its_old_readers, *boost::unit_test::label("BU-12")) {
  Device &d0 = tb().open_streams(), &d1 = tb().open_streams();
  ProgramRef add = add_kernel(d0, 0);
  BufferRef source = int_buffer(d0, 256, 7), target = int_buffer(d1, 256, 0), other = int_buffer(d0, 256, 1);
  int32_t slab = source->loc().pool_id;
  auto held = tb().hold_copies(d1);
  copy_buffer(*target, *source); // reads the slab on d1's stream
  source.reset();
  BufferRef next = make_buffer(d0, DType::I32, 256);
  next->allocate();
  BOOST_TEST((scattered() || next->loc().pool_id == slab));
  launch(add, {next, other}); // a write on d0's stream
  let_workers_run();
  held.release();
  check_ints(*target, std::vector<int32_t>(256, 7));
  check_ints(*next, std::vector<int32_t>(256, 1));
}

BOOST_AUTO_TEST_CASE(storage_is_destroyed_when_its_last_use_is_done) {
  Device &d0 = tb().open_streams(), &d1 = tb().open_streams();
  BufferOptions uncached;
  uncached.cached = false;
  BufferRef source = make_buffer(d0, DType::I32, 256, uncached), target = int_buffer(d1, 256, 0);
  fill_buffer(*source, 3, 4);
  auto held = tb().hold_copies(d1);
  copy_buffer(*target, *source);
  source.reset();
  BOOST_TEST(tb().counters(d0).buffer_destroy == 0u); // its reader has not finished
  BOOST_TEST(d0.memory().live_bytes == 0u);
  held.release();
  check_ints(*target, std::vector<int32_t>(256, 3));
  d0.synchronize();
  BOOST_TEST(tb().counters(d0).buffer_destroy == 1u);
}

BOOST_AUTO_TEST_CASE(a_failure_on_the_worker_stays_with_the_stream, *boost::unit_test::label("BU-18")) {
  Device &d = tb().open_streams(), &other = tb().open_streams();
  ProgramRef add = add_kernel(d, 1);
  BufferRef a = int_buffer(d, 4, 0), b = int_buffer(d, 4, 0);
  tb().fail(d, TB_ASYNC, "the unit caught fire");
  launch(add, {b, a});
  while (tb().counters(d).launches > 0 && d.compute().all_work().is_done() == false)
    std::this_thread::yield();
  for (int again = 0; again < 3; again++) {
    std::string text = message_of<DeviceError>([&] { launch(add, {b, a}); });
    BOOST_TEST(contains(text, "the unit caught fire"), text);
    BOOST_TEST(contains(text, d.get_name()), text);
    BOOST_TEST(contains(message_of<DeviceError>([&] { d.synchronize(); }), "the unit caught fire"));
    BOOST_TEST(contains(message_of<DeviceError>([&] { d.compute().await(); }), "the unit caught fire"));
    BOOST_TEST(contains(message_of<DeviceError>([&] { ints(*b); }), "the unit caught fire"));
  }
  BOOST_TEST(d.is_idle());
  check_ints(*int_buffer(other, 4, 2), std::vector<int32_t>(4, 2)); // the next device is well
}

BOOST_AUTO_TEST_CASE(a_refused_launch_is_that_of_one_call) {
  Device& d = tb().open_streams();
  ProgramRef add = add_kernel(d, 1);
  BufferRef a = int_buffer(d, 4, 0), b = int_buffer(d, 4, 0);
  tb().fail(d, TB_LAUNCH, "not today");
  BOOST_TEST(contains(message_of<DeviceError>([&] { launch(add, {b, a}); }), "not today"));
  launch(add, {b, a});
  check_ints(*b, std::vector<int32_t>(4, 1));
}

BOOST_AUTO_TEST_CASE(timed_launches_always_give_a_time) {
  for (uint32_t streams : {0u, 1u}) {
    Device& d = tb().open([&](tb_options& o) {
      o.streams = streams;
      o.reports_time = 0;
    });
    ProgramRef add = add_kernel(d, 1);
    BufferRef a = int_buffer(d, 4, 0), b = int_buffer(d, 4, 0);
    tb().delay(d, 5000);
    uint64_t ns = 0;
    launch(add, {b, a}, {}, 4, &ns);
    BOOST_TEST(ns >= 5'000'000u);
    BOOST_TEST(ns < 5'000'000'000u);
  }
}

BOOST_AUTO_TEST_CASE(synchronous_and_asynchronous_devices_of_one_plugin_work_together) {
  Device &slow = tb().open_streams(), &sync = tb().open();
  ProgramRef add = add_kernel(slow, 5), plain = add_kernel(sync, 1000);
  BufferRef a = int_buffer(slow, 16, 1), b = int_buffer(slow, 16, 0), c = int_buffer(sync, 16, 0),
            e = int_buffer(sync, 16, 0);
  tb().delay(slow, 30'000, 30'000);
  launch(add, {b, a});
  copy_buffer(*c, *b); // to the synchronous one: the host waits for the kernel
  launch(plain, {e, c});
  check_ints(*e, std::vector<int32_t>(16, 1006));
  copy_buffer(*a, *e); // to the asynchronous one, which still reads e when it is overwritten
  launch(plain, {e, e});
  check_ints(*a, std::vector<int32_t>(16, 1006));
  check_ints(*e, std::vector<int32_t>(16, 2006));
}

BOOST_AUTO_TEST_CASE(arguments_stay_until_a_plugin_that_retains_them_is_done) {
  Device& d = tb().open([](tb_options& o) { o.streams = o.retains_args = 1; });
  ProgramRef accumulate = accumulate_kernel(d);
  BufferRef acc = int_buffer(d, 1, 0), one = int_buffer(d, 1, 1), slow = int_buffer(d, 1, 0);
  tb().delay(d, 20'000);
  launch(accumulate, {slow, one}, {0});
  tb().delay(d, 0);
  int32_t expected = 0;
  for (int32_t i = 0; i < 3000; i++) {
    launch(accumulate, {acc, one}, {i});
    expected += 1 + i;
  }
  check_ints(*acc, {expected});
}

BOOST_AUTO_TEST_CASE(staging_is_not_overwritten_before_it_was_read, *boost::unit_test::label("bug-16")) {
  Device& d = tb().open_streams();
  constexpr size_t n = 4096;
  ProgramRef sum = sum_kernel(d, n);
  BufferRef data = make_buffer(d, DType::I32, n), sums = make_buffer(d, DType::I32, 100);
  data->allocate();
  sums->allocate();
  tb().delay(d, 1000);
  std::vector<int32_t> host(n);
  for (int32_t i = 1; i <= 100; i++) {
    std::fill(host.begin(), host.end(), i);
    data->copy_in(std::as_bytes(std::span(host)));
    launch(sum, {view_buffer(sums, DType::I32, 1, 4 * uint64_t(i - 1)), data}, {}, 1);
  }
  std::vector<int32_t> expected(100);
  for (int32_t i = 1; i <= 100; i++) expected[size_t(i - 1)] = int32_t(n) * i;
  check_ints(*sums, expected);
}

BOOST_AUTO_TEST_CASE(four_threads_share_a_device, *boost::unit_test::label("bug-19")) {
  for (uint32_t streams : {0u, 1u}) {
    Device& d = tb().open([&](tb_options& o) { o.streams = streams; });
    Device& peer = tb().open([&](tb_options& o) { o.streams = streams; });
    ProgramRef add = add_kernel(d, 1);
    std::vector<int32_t> results(4);
    std::vector<std::thread> threads;
    for (int32_t t = 0; t < 4; t++)
      threads.emplace_back([&, t] {
        BufferRef a = int_buffer(d, 32, t), far = int_buffer(peer, 32, 0);
        for (int i = 0; i < 200; i++) {
          BufferRef b = make_buffer(d, DType::I32, 32); // freed while it is still written
          launch(add, {b, a});
          copy_buffer(*far, *b);
          copy_buffer(*a, *far);
        }
        results[size_t(t)] = ints(*a)[31];
      });
    for (std::thread& t : threads) t.join();
    BOOST_TEST(results == std::vector<int32_t>({200, 201, 202, 203}), boost::test_tools::per_element());
    d.trim();
    BOOST_TEST(d.memory().live_bytes == 0u);
  }
}

BOOST_AUTO_TEST_CASE(launches_leave_no_events_behind, *boost::unit_test::label("bug-28")) {
  Device &d = tb().open_streams(), &peer = tb().open_streams();
  ProgramRef add = add_kernel(d, 1);
  BufferRef a = int_buffer(d, 1, 0), b = int_buffer(d, 1, 0);
  for (int i = 0; i < 10'000; i++) launch(add, {i % 2 ? a : b, i % 2 ? b : a});
  d.synchronize();
  BOOST_TEST(tb().counters(d).live_events == 0u); // nobody wished for one
  check_ints(*a, {10'000});
  BufferRef far = int_buffer(peer, 1, 0);
  for (int i = 0; i < 1000; i++) {
    launch(add, {b, a});
    Event asked = d.compute().all_work();
    copy_buffer(*far, *b); // needs events on both devices
    if (i % 100 == 0) asked.sync();
  }
  d.synchronize();
  peer.synchronize();
  // What is kept for reuse, and the newest of each stream.
  BOOST_TEST(tb().counters(d).live_events <= EventPool::kKept + 2);
  BOOST_TEST(tb().counters(peer).live_events <= EventPool::kKept + 2);
  BOOST_TEST(tb().counters(d).event_record >= 1000u);
}

BOOST_AUTO_TEST_SUITE_END()

// Last: no device works any more.
BOOST_AUTO_TEST_CASE(after_close_nothing_of_the_plugin_is_left) {
  Device &d = tb().open_streams(), &peer = tb().open_streams();
  ProgramRef add = add_kernel(d, 1);
  BufferRef a = int_buffer(d, 16, 1), b = int_buffer(d, 16, 0), far = int_buffer(peer, 16, 0);
  launch(add, {b, a});
  copy_buffer(*far, *b);
  Event held = d.compute().all_work();
  d.pools().alloc_pool(d.pools().next_pool_id(), 100, 8);
  DeviceContextRef context = make_context(d);
  shutdown_devices();
  for (const char* name : {"XDEV", "YDEV"}) {
    tb_counters c = tb(name).counters();
    BOOST_TEST(c.live_devices == 0u);
    BOOST_TEST(c.live_buffers == 0u);
    BOOST_TEST(c.live_bytes == 0u);
    BOOST_TEST(c.live_streams == 0u);
    BOOST_TEST(c.live_events == 0u);
    BOOST_TEST(c.live_programs == 0u);
    BOOST_TEST(c.live_graphs == 0u);
  }
  BOOST_TEST(held.is_done());
  BOOST_CHECK_THROW(ints(*b), DeviceError);
}
