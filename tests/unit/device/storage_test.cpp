// Buffers as the engine's rows describe them: views and their states, reuse, failures, copies.
#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <set>

#include "device_test.h"
#include "scoped_switch.h"
#include "test_backend.h"
#include "test_kernels.h"
#include "tolk/base/error.h"

using namespace tolk;
using namespace tolk::test;

namespace {

std::vector<uint8_t> bytes_of(Buffer& buffer) {
  std::vector<uint8_t> bytes(buffer.bytes());
  buffer.copy_out(std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

void write(Buffer& buffer, const std::vector<uint8_t>& bytes) {
  buffer.copy_in(std::as_bytes(std::span(bytes)));
}

BufferRef byte_buffer(Device& d, const std::vector<uint8_t>& bytes) {
  BufferRef b = make_buffer(d, DType::U8, bytes.size());
  b->allocate();
  write(*b, bytes);
  return b;
}

std::vector<uint8_t> counting(size_t n) {
  std::vector<uint8_t> bytes(n);
  for (size_t i = 0; i < n; i++) bytes[i] = uint8_t(i);
  return bytes;
}

void check_bytes(Buffer& buffer, const std::vector<uint8_t>& expected) {
  BOOST_TEST(bytes_of(buffer) == expected, boost::test_tools::per_element());
}

Config with(const std::function<void(Config&)>& set) {
  Config config = Config::current();
  set(config);
  return config;
}

struct Fresh {
  Fresh() { tb().reset(), tb("YDEV").reset(); }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(storage, Fresh)

BOOST_AUTO_TEST_CASE(device_names_have_one_spelling, *boost::unit_test::label("BU-01")) {
  const std::pair<const char*, const char*> names[] = {
      {"cpu", "CPU"},      {"CPU:0", "CPU"},           {"cpu:00", "CPU"},
      {"cl:0", "CL"},      {"cl:1", "CL:1"},           {"disk:/a/B", "DISK:/a/B"},
      {"CPU:01", "CPU:1"}, {"DISK:/a:0", "DISK:/a:0"}, {"xdev:007", "XDEV:7"}};
  for (auto [text, expected] : names) {
    BOOST_TEST(canonical_device_name(text) == expected);
    BOOST_TEST(canonical_device_name(canonical_device_name(text)) == expected);
  }
  BOOST_TEST(contains(message_of<InvalidArgument>([] { canonical_device_name(""); }), "empty device name"));
  BOOST_TEST(contains(message_of<InvalidArgument>([] { canonical_device_name("CPU:"); }),
                      "empty suffix in \"CPU:\""));
}

BOOST_AUTO_TEST_CASE(an_unknown_device_is_named_with_those_that_exist, *boost::unit_test::label("BU-02")) {
  tb();
  std::string text = message_of<DeviceError>([] { device("TYPO"); });
  BOOST_TEST(contains(text, "TYPO"), text);
  BOOST_TEST(contains(text, "XDEV"), text);
  BOOST_TEST(device("XDEV").name() == "XDEV");
}

BOOST_AUTO_TEST_CASE(views_show_bytes_of_their_base, *boost::unit_test::label("BU-03")) {
  Device& d = tb().open();
  BufferRef base = byte_buffer(d, counting(10));
  check_bytes(*view_buffer(base, DType::U8, 2, 3), {3, 4});
  BufferRef pairs = view_buffer(base, DType::U16, 2, 3);
  std::vector<uint16_t> values(2);
  pairs->copy_out(std::as_writable_bytes(std::span(values)));
  BOOST_TEST(values[0] == 3 + 256 * 4);
  BOOST_TEST(values[1] == 5 + 256 * 6);
  BufferRef outer = view_buffer(base, DType::U8, 5, 3), inner = view_buffer(outer, DType::U8, 2, 1);
  check_bytes(*inner, {4, 5});
  BOOST_TEST(inner->offset() == 4u);
  BOOST_TEST(inner->base_id() == base->id());
}

BOOST_AUTO_TEST_CASE(views_attach_and_detach, *boost::unit_test::label("BU-04")) {
  Device& d = tb().open();
  BufferRef base = make_buffer(d, DType::U8, 16), view = view_buffer(base, DType::U8, 4, 4);
  auto states = [&](bool base_has, bool base_ready, bool view_has, bool view_ready, int attached) {
    BOOST_TEST(base->is_allocated() == base_has);
    BOOST_TEST(base->is_initialized() == base_ready);
    BOOST_TEST(view->is_allocated() == view_has);
    BOOST_TEST(view->is_initialized() == view_ready);
    BOOST_TEST(base->allocated_views() == attached);
    BOOST_TEST(view->allocated_views() == attached);
  };
  states(false, false, false, false, 0);
  base->allocate();
  states(true, true, true, false, 0); // a view from before has to be asked
  view->allocate();
  states(true, true, true, true, 1);
  view->allocate();
  states(true, true, true, true, 1);
  view->deallocate();
  states(true, true, true, false, 0);
  view->ensure_allocated();
  base->deallocate();
  states(false, false, false, false, 0);
  base->allocate();
  states(true, true, true, false, 0); // of the storage before
  BOOST_TEST(view->deallocate_if_allocated());
  states(true, true, true, false, 0); // and the count did not drift
  base->deallocate();
  view->allocate(); // allocates the base
  states(true, true, true, true, 1);
  BufferRef late = view_buffer(base, DType::U8, 4, 0);
  BOOST_TEST(late->is_initialized()); // made over storage
  BOOST_TEST(base->allocated_views() == 2);
  late.reset();
  BOOST_TEST(base->allocated_views() == 1);
}

BOOST_AUTO_TEST_CASE(a_view_finds_the_next_storage_of_its_base, *boost::unit_test::label("BU-05")) {
  Device& d = tb().open();
  BufferRef base = byte_buffer(d, counting(8)), view = view_buffer(base, DType::U8, 2, 2);
  check_bytes(*view, {2, 3});
  uint64_t generation = base->generation();
  base->deallocate();
  BOOST_TEST(base->generation() == generation + 1);
  base->allocate();
  write(*base, std::vector<uint8_t>(8, 77));
  view->ensure_allocated();
  check_bytes(*view, {77, 77});
  base.reset(); // the view keeps it
  check_bytes(*view, {77, 77});
}

BOOST_AUTO_TEST_CASE(freeing_twice_is_refused, *boost::unit_test::label("BU-06")) {
  Device& d = tb().open();
  BufferRef base = byte_buffer(d, counting(8)), view = view_buffer(base, DType::U8, 2, 2);
  view->deallocate();
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { view->deallocate(); }), "buffer is not allocated"));
  base->deallocate();
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { base->deallocate(); }), "buffer is not allocated"));
  BOOST_TEST(!base->deallocate_if_allocated());
  BOOST_TEST(tb().counters(d).live_buffers == (scattered() ? 0u : 1u)); // kept for reuse
}

BOOST_AUTO_TEST_CASE(reading_what_was_freed_is_refused, *boost::unit_test::label("BU-07")) {
  Device& d = tb().open();
  BufferRef base = byte_buffer(d, counting(8)), view = view_buffer(base, DType::U8, 2, 2);
  view->deallocate();
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { bytes_of(*view); }), "not allocated"));
  view->allocate();
  base->deallocate();
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { bytes_of(*view); }), "not allocated"));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { bytes_of(*base); }), "not allocated"));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { write(*view, {1, 2}); }), "not allocated"));
  base->allocate(); // the view is still of the storage before
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { bytes_of(*view); }), "not allocated"));
}

BOOST_AUTO_TEST_CASE(copies_through_views_touch_their_bytes_only, *boost::unit_test::label("BU-08")) {
  for (Device* d : {&tb().open(), &tb().open_streams()}) {
    BufferRef base = byte_buffer(*d, counting(10));
    BufferRef view = view_buffer(base, DType::U8, 3, 3);
    write(*view, {100, 101, 102});
    check_bytes(*base, {0, 1, 2, 100, 101, 102, 6, 7, 8, 9});
    BufferRef inner = view_buffer(view_buffer(base, DType::U8, 6, 2), DType::U8, 3, 2);
    write(*inner, {50, 51, 52});
    check_bytes(*base, {0, 1, 2, 100, 50, 51, 52, 7, 8, 9});
    check_bytes(*inner, {50, 51, 52});
  }
}

BOOST_AUTO_TEST_CASE(views_stay_inside_their_base, *boost::unit_test::label("BU-09")) {
  Device& d = tb().open();
  BufferRef base = make_buffer(d, DType::U8, 10), half = view_buffer(base, DType::U8, 5, 5);
  auto refused = [](const BufferRef& of, uint64_t count, uint64_t offset) {
    return contains(message_of<InvalidArgument>([&] { view_buffer(of, DType::U8, count, offset); }),
                    "exceeds base buffer");
  };
  BOOST_TEST(refused(base, 1, uint64_t(-1)));
  BOOST_TEST(refused(base, 1, 10)); // at the end; an empty view may lie there
  BOOST_TEST(refused(base, 8, 3));
  BOOST_TEST(refused(half, 5, 1));
  BOOST_TEST(refused(half, 1, uint64_t(-6)));
  Device& flat = tb().open([](tb_options& o) { o.offset_views = 0; });
  BufferRef whole = make_buffer(flat, DType::U8, 10), shifted = view_buffer(whole, DType::U8, 2, 3);
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { shifted->allocate(); }),
                      "allocator offset is required for buffer views"));
  view_buffer(whole, DType::U8, 4, 0)->allocate();
}

BOOST_AUTO_TEST_CASE(kernels_take_views_at_offsets_that_the_device_has) {
  Device& d = tb().open([](tb_options& o) { o.offset_align = 16; });
  ProgramRef add = add_kernel(d, 1);
  BufferRef base = int_buffer(d, 16, 1), out = int_buffer(d, 4, 0);
  launch(add, {out, view_buffer(base, DType::I32, 4, 16)});
  std::string text =
      message_of<InvalidArgument>([&] { launch(add, {out, view_buffer(base, DType::I32, 4, 8)}); });
  BOOST_TEST(contains(text, "a view at byte 8, " + d.name() + " takes multiples of 16"), text);
  check_bytes(*view_buffer(base, DType::U8, 1, 3), {0}); // copies take any
}

BOOST_AUTO_TEST_CASE(freed_storage_is_reused, *boost::unit_test::label("BU-10")) {
  if (scattered()) return; // which is what this setting turns off
  Device& d = tb().open();
  auto handle_after = [&](BufferOptions options) {
    BufferRef a = make_buffer(d, DType::U8, 512, options);
    a->allocate();
    uint64_t freed = tb().counters(d).buffer_destroy;
    int32_t slab = a->loc().pool_id;
    a.reset();
    bool backend_freed = tb().counters(d).buffer_destroy == freed + 1;
    BufferRef b = make_buffer(d, DType::U8, 512);
    BOOST_TEST((b->loc().pool_id == slab) == !backend_freed);
    return backend_freed;
  };
  BOOST_TEST(!handle_after({}));
  d.trim();
  BufferOptions no_reuse, zeroed;
  no_reuse.cached = false;
  zeroed.zeroed = true;
  BOOST_TEST(handle_after(no_reuse));
  d.trim();
  BOOST_TEST(handle_after(zeroed));
  d.trim();
  {
    ScopedConfig off(with([](Config& c) { c.lru = 0; }));
    BOOST_TEST(handle_after({}));
  }
  d.trim();
  uint64_t freed = tb().counters(d).buffer_destroy;
  std::vector<int32_t> mine(128);
  wrap_external(d, DType::I32, 128, mine.data()).reset();
  BOOST_TEST(tb().counters(d).buffer_destroy == freed + 1);
  BOOST_TEST(d.memory().cached_bytes == 0u);
  BOOST_TEST(tb().counters(d).live_buffers == 0u);
}

BOOST_AUTO_TEST_CASE(a_failed_allocation_flushes_the_cache_and_tries_once_more,
                     *boost::unit_test::label("BU-11")) {
  Device& d = tb().open();
  make_buffer(d, DType::U8, 3000)->allocate(); // goes to the cache
  BOOST_TEST(tb().counters(d).live_buffers == (scattered() ? 0u : 1u));
  tb().fail(d, TB_BUFFER_CREATE, "full");
  BufferRef a = make_buffer(d, DType::U8, 1000);
  a->allocate();
  BOOST_TEST(tb().counters(d).buffer_create == 3u); // the cached one, the failed one, the retry
  BOOST_TEST(tb().counters(d).buffer_destroy == 1u);
  BOOST_TEST(tb().counters(d).live_bytes >= 1000u);
  BOOST_TEST(d.memory().cached_bytes == 0u);
  tb().fail(d, TB_BUFFER_CREATE, "full", 1, 2);
  BufferRef b = make_buffer(d, DType::U8, 2000);
  std::string text = message_of<OutOfMemory>([&] { b->allocate(); });
  BOOST_TEST(contains(text, "allocation of 2.00 kB failed on " + d.name()), text);
  BOOST_TEST(contains(text, "Used: 1.00 kB"), text);
  BOOST_TEST(tb().counters(d).buffer_create == 5u); // tried twice, not more
  b->allocate();
}

BOOST_AUTO_TEST_CASE(a_failed_allocation_waits_for_storage_that_is_still_used) {
  auto set = [](tb_options& o) {
    o.streams = 1;
    o.memory_limit = 10'000;
  };
  Device &d = tb().open(set), &peer = tb().open_streams();
  BufferOptions options;
  options.cached = false;
  BufferRef a = make_buffer(d, DType::U8, 8000, options), far = make_buffer(peer, DType::U8, 8000);
  fill_buffer(*a, 5, 1);
  tb().delay(peer, 0, 30'000);
  copy_buffer(*far, *a);
  a.reset(); // freed, but the copy reads it
  BufferRef b = make_buffer(d, DType::U8, 8000);
  b->allocate();
  check_bytes(*far, std::vector<uint8_t>(8000, 5));
}

BOOST_AUTO_TEST_CASE(external_memory_is_written_in_place_and_not_freed, *boost::unit_test::label("BU-13")) {
  for (Device* d : {&tb().open(), &tb().open_streams()}) {
    std::vector<int32_t> mine(8, 1);
    ProgramRef add = add_kernel(*d, 41);
    BufferRef in = int_buffer(*d, 8, 1);
    uint64_t used = d->memory().live_bytes;
    BufferRef out = wrap_external(*d, DType::I32, 8, mine.data());
    BOOST_TEST(d->memory().live_bytes == used);
    launch(add, {out, in});
    d->synchronize();
    BOOST_TEST(mine == std::vector<int32_t>(8, 42), boost::test_tools::per_element());
    BOOST_TEST(ints(*view_buffer(out, DType::I32, 1, 28))[0] == 42);
    out.reset();
    mine[0] = 5; // still ours
    BOOST_TEST(d->memory().live_bytes == used);
  }
  Device& closed = tb().open([](tb_options& o) { o.host_map = 0; });
  int32_t one = 0;
  BOOST_CHECK_THROW(wrap_external(closed, DType::I32, 1, &one), InvalidArgument);
}

BOOST_AUTO_TEST_CASE(copy_from_goes_through_the_installed_runner, *boost::unit_test::label("BU-14")) {
  Device &x = tb().open(), &y = tb("YDEV").open();
  BufferRef source = byte_buffer(x, {1, 2, 3, 4}), target = byte_buffer(y, std::vector<uint8_t>(10, 9));
  BufferRef view = view_buffer(target, DType::U8, 4, 3);
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { view->copy_from(*source); }),
                      "no copy runner installed; link the engine"));
  Buffer::install_copy_runner(copy_buffer);
  view->copy_from(*source);
  check_bytes(*target, {9, 9, 9, 1, 2, 3, 4, 9, 9, 9});
  BufferRef same = make_buffer(y, DType::U8, 4), longer = make_buffer(y, DType::U8, 5),
            other = make_buffer(y, DType::I8, 4);
  same->allocate();
  same->copy_from(*source);
  check_bytes(*same, {1, 2, 3, 4});
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { longer->copy_from(*source); }), "size mismatch"));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { other->copy_from(*source); }), "dtype mismatch"));
  BOOST_TEST(!longer->is_allocated());
  BOOST_TEST(!other->is_allocated());
  Buffer::install_copy_runner(nullptr);
}

BOOST_AUTO_TEST_CASE(overlapping_copies_read_before_they_write) {
  ScopedConfig small(with([](Config& c) { c.staging_bytes = 16; }));
  for (Device* d : {&tb().open(), &tb().open_streams()})
    for (uint64_t to : {uint64_t{0}, uint64_t{3}, uint64_t{20}, uint64_t{40}})
      for (uint64_t from : {uint64_t{0}, uint64_t{5}, uint64_t{20}}) {
        std::vector<uint8_t> expected = counting(100), source = expected;
        BufferRef base = byte_buffer(*d, expected);
        copy_buffer(*view_buffer(base, DType::U8, 50, to), *view_buffer(base, DType::U8, 50, from));
        for (size_t i = 0; i < 50; i++) expected[to + i] = source[from + i];
        check_bytes(*base, expected);
      }
}

BOOST_AUTO_TEST_CASE(a_large_copy_goes_in_pieces, *boost::unit_test::label("RG-15")) {
  auto hidden = [](tb_options& o) { o.host_map = 0; };
  Device &x = tb().open(hidden), &y = tb("YDEV").open(hidden);
  constexpr uint64_t n = uint64_t{200} << 20, limit = uint64_t{64} << 20;
  BufferRef a = make_buffer(x, DType::U8, n), b = make_buffer(y, DType::U8, n);
  fill_buffer(*a, 0x0807060504030201, 8);
  tb("YDEV").reset();
  copy_buffer(*b, *a);
  uint64_t total = 0, largest = 0;
  std::set<uint64_t> staging; // where in host memory the pieces came from
  for (const tb_record& r : tb("YDEV").records()) {
    BOOST_REQUIRE(r.kind == TB_COPY_IN);
    total += r.bytes[0];
    largest = std::max(largest, r.bytes[0]);
    staging.insert(r.addresses[1]);
  }
  BOOST_TEST(total == n);
  BOOST_TEST(largest <= limit);
  BOOST_TEST(staging.size() == 1u); // one block of at most 64 MiB
  for (uint64_t at : {uint64_t{0}, limit - 8, limit, 3 * limit, n - 8}) {
    std::vector<uint8_t> piece = bytes_of(*view_buffer(b, DType::U8, 8, at));
    BOOST_TEST(piece == std::vector<uint8_t>({1, 2, 3, 4, 5, 6, 7, 8}), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(copies_take_the_shortest_way) {
  Device &a = tb().open(), &b = tb().open(), &y = tb("YDEV").open();
  BufferRef from = byte_buffer(a, counting(100)), peer = make_buffer(b, DType::U8, 100),
            far = make_buffer(y, DType::U8, 100);
  copy_buffer(*peer, *from);
  BOOST_TEST(tb().counters(b).copy == 1u);
  BOOST_TEST(tb().counters(b).copy_in == 0u);
  copy_buffer(*far, *from); // another plugin: from the mapped source
  BOOST_TEST(tb("YDEV").counters(y).copy_in == 1u);
  BOOST_TEST(tb().counters(a).copy_out == 0u);
  check_bytes(*far, counting(100));
  check_bytes(*peer, counting(100));
}

BOOST_AUTO_TEST_CASE(the_largest_buffer_is_a_setting) {
  Device& d = tb().open();
  ScopedConfig limited(with([](Config& c) { c.max_buffer_size = 100; }));
  make_buffer(d, DType::F64, 100)->allocate();
  BufferRef large = make_buffer(d, DType::U8, 101);
  std::string text = message_of<InvalidArgument>([&] { large->allocate(); });
  BOOST_TEST(contains(text, "101 elements on " + d.name() + " exceeds MAX_BUFFER_SIZE=100"), text);
  std::vector<int32_t> mine(200);
  wrap_external(d, DType::I32, 200, mine.data())->allocate(); // not ours to limit
}

BOOST_AUTO_TEST_CASE(references_of_nodes_are_counted_at_the_base) {
  Device& d = tb().open();
  BufferRef base = make_buffer(d, DType::U8, 16), view = view_buffer(base, DType::U8, 4, 4);
  BOOST_TEST(view->add_ref(2) == 2);
  BOOST_TEST(base->uop_refcount() == 2);
  BOOST_TEST(base->add_ref(-2) == 0);
}

BOOST_AUTO_TEST_CASE(objects_and_bytes_return_to_zero) {
  for (uint32_t streams : {0u, 1u}) {
    int64_t objects = Buffer::live_count();
    Device& d = tb().open([&](tb_options& o) { o.streams = streams; });
    {
      ProgramRef add = add_kernel(d, 1);
      BufferRef a = int_buffer(d, 100, 0), b = make_buffer(d, DType::I32, 100),
                tail = view_buffer(a, DType::I32, 10, 40);
      launch(add, {b, a});
      BOOST_TEST(Buffer::live_count() == objects + 3);
      BOOST_TEST(d.memory().live_bytes == 800u);
    }
    BOOST_TEST(Buffer::live_count() == objects);
    BOOST_TEST(d.memory().live_bytes == 0u);
    d.trim();
    tb_counters c = tb().counters(d);
    BOOST_TEST(c.live_buffers == 0u);
    BOOST_TEST(c.live_bytes == 0u);
    BOOST_TEST(c.live_programs == 0u);
  }
}

BOOST_AUTO_TEST_CASE(scattered_storage_begins_somewhere_else_each_time) {
  ScopedSwitch<bool> scatter(test_switches().scatter, true);
  Device& d = tb().open();
  std::set<uint64_t> offsets;
  for (int i = 0; i < 40; i++) {
    BufferRef a = byte_buffer(d, counting(1000));
    offsets.insert(a->ref().offset);
    check_bytes(*a, counting(1000));
    check_bytes(*view_buffer(a, DType::U8, 2, 998), {uint8_t(998 & 255), uint8_t(999 & 255)});
    BOOST_TEST(reinterpret_cast<uintptr_t>(a->host_data()) % d.caps().buffer_align == 0u);
    BOOST_TEST(int(a->host_data()[7]) == 7);
  }
  BOOST_TEST(offsets.size() > 3u);
  BOOST_TEST(tb().counters(d).buffer_create == 40u); // nothing was reused
  BOOST_TEST(d.memory().live_bytes == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
