// Buffers on a device that has only the mandatory entries, on one with a stream, on NULL (map and import) and
// on HOST.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <cstring>
#include <numeric>

#include "device_test.h"
#include "tolk/base/error.h"
#include "tolk/device/buffer.h"

using namespace tolk;
using namespace tolk::test;

namespace {

std::vector<std::byte> counting(size_t n, int start = 0) {
  std::vector<std::byte> bytes(n);
  for (size_t i = 0; i < n; i++)
    bytes[i] = static_cast<std::byte>((i * 7 + static_cast<size_t>(start)) & 255);
  return bytes;
}

std::vector<std::byte> contents(Buffer& buffer) {
  std::vector<std::byte> bytes(buffer.bytes());
  buffer.copy_out(bytes);
  return bytes;
}

bool same(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

BufferRef filled(Device& device, const std::vector<std::byte>& bytes) {
  BufferRef b = make_buffer(device, DType::U8, bytes.size());
  b->allocate();
  b->copy_in(bytes);
  return b;
}

Device& open_test_device(const std::string& name) {
  if (name == "HOST") return host_device();
  Config config = search_in(std::string(TOLK_PLUGIN_FOLDER) + ":" + plugin_folder("basic") + ":" +
                            plugin_folder("streams") + ":" + plugin_folder("serial"));
  ScopedConfig scoped(config);
  return device(name);
}

const char* const kDevices[] = {"HOST", "NULL", "BASIC", "BASIC:1", "STREAMS", "SERIAL"};

} // namespace

BOOST_DATA_TEST_CASE(bytes_come_back_as_they_went_in, boost::unit_test::data::make(kDevices), name) {
  Device& d = open_test_device(name);
  for (size_t n : {size_t{1}, size_t{13}, size_t{300'000}}) {
    auto bytes = counting(n);
    BufferRef b = make_buffer(d, DType::U8, n);
    BOOST_TEST(!b->is_allocated());
    BOOST_CHECK_THROW(b->copy_in(bytes), InvalidArgument);
    b->allocate();
    b->allocate(); // no second storage
    BOOST_TEST(b->is_allocated());
    b->copy_in(bytes);
    BOOST_TEST(same(contents(*b), bytes));
  }
}

BOOST_DATA_TEST_CASE(copies_between_any_two_devices_keep_the_bytes,
                     boost::unit_test::data::make(kDevices) * boost::unit_test::data::make(kDevices), from,
                     to) {
  static const auto made = counting(4'300'001, 3); // more than one bounce
  auto bytes = made;
  BufferRef src = filled(open_test_device(from), bytes);
  BufferRef dst = make_buffer(open_test_device(to), DType::U8, bytes.size());
  copy_buffer(*dst, *src);
  BOOST_TEST(same(contents(*dst), bytes));
  BufferRef part = view_buffer(src, DType::U8, 1000, 17);
  BufferRef into = view_buffer(dst, DType::U8, 1000, 4'200'000);
  copy_buffer(*into, *part);
  std::copy_n(bytes.begin() + 17, 1000, bytes.begin() + 4'200'000);
  BOOST_TEST(same(contents(*dst), bytes));
}

BOOST_DATA_TEST_CASE(overlapping_copies_within_a_buffer_act_as_if_through_a_third,
                     boost::unit_test::data::make(kDevices), name) {
  auto bytes = counting(100);
  BufferRef b = filled(open_test_device(name), bytes);
  copy_buffer(*view_buffer(b, DType::U8, 60, 20), *view_buffer(b, DType::U8, 60, 0));
  auto expected = bytes;
  std::copy_n(bytes.begin(), 60, expected.begin() + 20);
  BOOST_TEST(same(contents(*b), expected));
}

BOOST_DATA_TEST_CASE(fills_repeat_the_low_bytes_of_the_pattern, boost::unit_test::data::make(kDevices),
                     name) {
  BufferRef b = make_buffer(open_test_device(name), DType::U8, 4'300'000);
  fill_buffer(*b, 0x1122334455667788, 4);
  auto bytes = contents(*b);
  bool right = true;
  for (size_t i = 0; i < bytes.size(); i++) {
    static constexpr int kPattern[] = {0x88, 0x77, 0x66, 0x55};
    right &= bytes[i] == static_cast<std::byte>(kPattern[i % 4]);
  }
  BOOST_TEST(right);
  BOOST_CHECK_THROW(fill_buffer(*view_buffer(b, DType::U8, 6, 0), 0, 4), InvalidArgument);
  BOOST_CHECK_THROW(fill_buffer(*b, 0, 3), InvalidArgument);
}

BOOST_DATA_TEST_CASE(zeroed_buffers_are_zero_even_when_storage_is_reused,
                     boost::unit_test::data::make(kDevices), name) {
  Device& d = open_test_device(name);
  for (int i = 0; i < 3; i++) {
    filled(d, counting(512, 1)).reset(); // goes to the cache
    BufferOptions options;
    options.zeroed = true;
    BufferRef z = make_buffer(d, DType::U8, 512, options);
    z->allocate();
    BOOST_TEST(same(contents(*z), std::vector<std::byte>(512)));
    z->copy_in(counting(512));
  }
}

BOOST_DATA_TEST_CASE(empty_buffers_are_legal, boost::unit_test::data::make(kDevices), name) {
  BufferRef b = make_buffer(open_test_device(name), DType::U8, 0);
  b->allocate();
  b->copy_in({});
  copy_buffer(*b, *b);
  fill_buffer(*b, 0, 1);
  BOOST_TEST(b->ref().buffer != nullptr);
  BOOST_TEST(contents(*b).empty());
}

BOOST_AUTO_TEST_CASE(views_of_views_flatten_and_share_storage) {
  Device& d = open_test_device("BASIC");
  BufferRef base = make_buffer(d, DType::F32, 64);
  BufferRef view = view_buffer(base, DType::F32, 32, 64);
  BufferRef inner = view_buffer(view, DType::U8, 16, 8);
  BOOST_TEST(inner->is_view());
  BOOST_TEST(inner->offset() == 72u);
  BOOST_TEST(inner->base_id() == base->id());
  BOOST_TEST(!base->is_allocated());
  tolk_ref r = inner->ref();
  BOOST_TEST(base->is_allocated());
  BOOST_TEST(r.buffer == base->ref().buffer);
  BOOST_TEST(r.offset == 72u);
  BOOST_TEST(r.size == 16u);
  base->copy_in(counting(256));
  std::vector<std::byte> expected = counting(256);
  BOOST_TEST(same(contents(*inner), std::vector<std::byte>(expected.begin() + 72, expected.begin() + 88)));
  uint64_t generation = base->generation();
  base->release();
  BOOST_TEST(!inner->is_allocated());
  BOOST_TEST(inner->generation() == generation + 1);
  BOOST_CHECK_THROW(contents(*inner), InvalidArgument);
  BOOST_TEST(view_buffer(base, DType::U8, 0, 256)->bytes() == 0u);
  for (uint64_t offset : {uint64_t{225}, uint64_t{256}, UINT64_MAX, UINT64_MAX - 100})
    BOOST_TEST(contains(message_of<InvalidArgument>([&] { view_buffer(base, DType::U8, 32, offset); }),
                        "exceeds base buffer"));
  base.reset(); // the view keeps the root alive
  inner->allocate();
  BOOST_TEST(inner->is_allocated());
}

BOOST_AUTO_TEST_CASE(sizes_and_types_are_checked) {
  Device& d = open_test_device("BASIC");
  BOOST_CHECK_THROW(make_buffer(d, DType::Index, 4), InvalidArgument);
  BOOST_CHECK_THROW(make_buffer(d, DType::F64, 4), InvalidArgument); // caps do not list it
  BOOST_CHECK_THROW(make_buffer(d, DType::F32, UINT64_MAX / 2), InvalidArgument);
  BufferRef b = filled(d, counting(8));
  BOOST_TEST(
      contains(message_of<InvalidArgument>([&] { b->copy_in(counting(7)); }), "got 7 bytes, expected 8"));
  std::vector<std::byte> nine(9);
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { b->copy_out(nine); }), "buffer size mismatch"));
  BufferRef c = make_buffer(d, DType::U8, 9);
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { copy_buffer(*c, *b); }), "size mismatch"));
  BufferRef e = make_buffer(d, DType::U8, 8);
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { copy_buffer(*b, *e); }), "buffer is not allocated"));
  BOOST_TEST(make_buffer(open_test_device("HOST"), DType::U4, 5)->bytes() == 3u);
}

BOOST_AUTO_TEST_CASE(freed_storage_is_reused_by_size_newest_first_and_counted) {
  Device& d = open_test_device("BASIC:1");
  d.trim();
  DeviceMemory before = d.memory();
  BufferRef a = make_buffer(d, DType::U8, 1000), b = make_buffer(d, DType::U8, 1000),
            c = make_buffer(d, DType::U8, 2000);
  BOOST_TEST(d.memory().live_bytes == before.live_bytes);
  tolk_buffer *pa = a->ref().buffer, *pb = b->ref().buffer;
  c->allocate();
  BOOST_TEST(d.memory().live_bytes == before.live_bytes + 4000);
  BOOST_TEST(d.memory().live_count == before.live_count + 3);
  a.reset();
  b.reset();
  BOOST_TEST(d.memory().cached_bytes == 2000u);
  BOOST_TEST(d.memory().live_bytes == before.live_bytes + 2000);
  BOOST_TEST(make_buffer(d, DType::F32, 500)->ref().buffer != pb); // another size
  BufferRef again = make_buffer(d, DType::F32, 250);
  BOOST_TEST(again->ref().buffer == pb);
  BufferRef second = make_buffer(d, DType::U8, 1000);
  BOOST_TEST(second->ref().buffer == pa);
  BOOST_TEST(d.memory().peak_bytes >= before.live_bytes + 4000);
  d.trim();
  BOOST_TEST(d.memory().cached_bytes == 0u);
  Config no_cache;
  no_cache.lru = 0;
  ScopedConfig scoped(no_cache);
  again.reset();
  BOOST_TEST(d.memory().cached_bytes == 0u);
}

BOOST_AUTO_TEST_CASE(the_cache_holds_no_more_than_was_ever_in_use) {
  Device& d = open_test_device("NULL:5");
  for (uint64_t i = 0; i < 40; i++) make_buffer(d, DType::U8, (8 << 20) + i)->allocate(); // each another size
  BOOST_TEST(d.memory().cached_bytes <= uint64_t{64} << 20);
  BOOST_TEST(d.memory().cached_bytes >= uint64_t{48} << 20);
}

BOOST_AUTO_TEST_CASE(out_of_memory_flushes_the_cache_retries_and_then_explains) {
  set_plugin_option("streams.LIMIT", "1000000");
  Device& d = open_test_device("STREAMS:1");
  d.trim();
  open_test_device("STREAMS").trim();
  BufferRef a = make_buffer(d, DType::U8, 600'000);
  a->allocate();
  a.reset(); // cached: 600,000 of the million are taken
  BOOST_TEST(d.memory().cached_bytes == 600'000u);
  BufferOptions options;
  options.label = "the big one";
  BufferRef b = make_buffer(d, DType::U8, 700'000, options);
  b->allocate(); // only possible once the cache was given back
  BOOST_TEST(d.memory().cached_bytes == 0u);
  BufferRef c = make_buffer(d, DType::U8, 400'000);
  std::string text = message_of<OutOfMemory>([&] { c->allocate(); });
  BOOST_TEST(contains(text, "allocation of 400 kB failed on STREAMS:1. Used: 700 kB in 1 buffer, peak"),
             text);
  BOOST_TEST(contains(text, "Largest: 700 kB (the big one)"), text);
  b.reset();
  c->allocate(); // works again afterwards
  BOOST_TEST(c->is_allocated());
}

BOOST_AUTO_TEST_CASE(host_memory_is_used_in_place_and_its_owner_kept) {
  for (const char* name : {"HOST", "NULL"}) {
    Device& d = open_test_device(name);
    auto owner = std::make_shared<std::vector<float>>(256);
    std::iota(owner->begin(), owner->end(), 0.f);
    std::weak_ptr<std::vector<float>> alive = owner;
    float* data = owner->data();
    BufferRef b = import_host_memory(d, DType::F32, 256, data, owner);
    BOOST_REQUIRE(b);
    owner.reset();
    BOOST_TEST(!alive.expired());
    BOOST_TEST(b->is_allocated());
    BOOST_TEST(static_cast<void*>(b->host_data()) == static_cast<void*>(data));
    BOOST_TEST(d.memory().live_count == open_test_device(name).memory().live_count);
    BufferRef view = view_buffer(b, DType::F32, 1, 400);
    float value = 0;
    view->copy_out(std::as_writable_bytes(std::span(&value, 1)));
    BOOST_TEST(value == 100.f);
    BOOST_TEST(!view->writable());
    BOOST_TEST(
        contains(message_of<InvalidArgument>([&] { view->copy_in(std::as_bytes(std::span(&value, 1))); }),
                 "read-only"));
    BOOST_CHECK_THROW(fill_buffer(*b, 0, 1), InvalidArgument);
    b.reset();
    BOOST_TEST(!alive.expired()); // the view has it
    view.reset();
    BOOST_TEST(alive.expired());
  }
}

BOOST_AUTO_TEST_CASE(unaligned_memory_and_devices_without_import_are_left_to_a_copy) {
  std::vector<std::byte> bytes(64);
  auto owner = std::make_shared<int>(0);
  BOOST_TEST(!import_host_memory(open_test_device("NULL"), DType::F32, 4, bytes.data() + 1, owner));
  BOOST_TEST(!import_host_memory(open_test_device("BASIC"), DType::U8, 4, bytes.data(), owner));
  BOOST_TEST(owner.use_count() == 1);
  // HOST computes nothing, so it takes any address; sharing that on is another matter.
  BufferRef odd = import_host_memory(host_device(), DType::F32, 4, bytes.data() + 1, owner);
  BOOST_REQUIRE(odd);
  BOOST_TEST(odd->host_data() == bytes.data() + 1);
  BOOST_TEST(!import_host_buffer(open_test_device("NULL"), odd));
}

BOOST_AUTO_TEST_CASE(a_host_buffer_can_be_shared_with_a_device) {
  BufferRef host = filled(host_device(), counting(128));
  BufferRef shared = import_host_buffer(open_test_device("NULL"), host);
  BOOST_REQUIRE(shared);
  BOOST_TEST(shared->writable());
  BOOST_TEST(shared->host_data() == host->host_data());
  BOOST_TEST(!import_host_buffer(open_test_device("BASIC"), host));
}
