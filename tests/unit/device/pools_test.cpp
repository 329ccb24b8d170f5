// Memory by numbers: pools, locations, the merge pool, and contexts that own pools.
#include <boost/test/unit_test.hpp>

#include <cstring>
#include <span>

#include "device_test.h"
#include "test_backend.h"
#include "test_kernels.h"
#include "tolk/base/error.h"
#include "tolk/device/context.h"
#include "tolk/device/pools.h"

using namespace tolk;
using namespace tolk::test;

namespace {

Device& null_device() {
  ScopedConfig scoped(search_in(TOLK_PLUGIN_FOLDER));
  return device("NULL:9");
}

BufferRef whole(Device& d, int32_t pool) {
  return pool_buffer(d, {pool, 0}, DType::U8, d.pools().size_of(pool));
}

std::vector<uint8_t> bytes_of(Device& d, int32_t pool) {
  std::vector<uint8_t> bytes(d.pools().size_of(pool));
  whole(d, pool)->copy_out(std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

void write_all(Device& d, int32_t pool, uint8_t value) {
  std::vector<uint8_t> bytes(d.pools().size_of(pool), value);
  whole(d, pool)->copy_in(std::as_bytes(std::span(bytes)));
}

struct Fresh {
  Fresh() { tb().reset(); }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(pools, Fresh)

BOOST_AUTO_TEST_CASE(pools_are_allocated_by_number, *boost::unit_test::label("D-09")) {
  Device& d = tb().open();
  PoolTable& pools = d.pools();
  int32_t id = pools.next_pool_id();
  pools.alloc_pool(id, 1000, 256);
  BOOST_TEST(pools.has(id));
  BOOST_TEST(pools.size_of(id) == 1000u);
  write_all(d, id, 42);
  BOOST_TEST(bytes_of(d, id) == std::vector<uint8_t>(1000, 42), boost::test_tools::per_element());
  std::string text = message_of<InvalidArgument>([&] { pools.alloc_pool(id, 10, 8); });
  BOOST_TEST(contains(text, "pool " + std::to_string(id) + " already allocated"), text);
  int32_t empty = pools.next_pool_id();
  pools.alloc_pool(empty, 0, 1);
  BOOST_TEST(pools.size_of(empty) == 1u);
  BOOST_CHECK_THROW(pools.alloc_pool(pools.next_pool_id(), 8, 3), InvalidArgument);
  BOOST_CHECK_THROW(pools.alloc_pool(pools.next_pool_id(), 8, 0), InvalidArgument);
  BOOST_CHECK_THROW(pools.alloc_pool(-1, 8, 8), InvalidArgument);
  int32_t visible = pools.next_pool_id();
  pools.alloc_pool(visible, 64, 64, MemoryMode::HostVisible);
  std::byte* host = pools.host_data(visible);
  BOOST_REQUIRE(host);
  std::memset(host, 7, 64);
  BOOST_TEST(bytes_of(d, visible) == std::vector<uint8_t>(64, 7), boost::test_tools::per_element());
  tb().fail(d, TB_BUFFER_CREATE, "none left", 1, 2);
  BOOST_CHECK_THROW(pools.alloc_pool(pools.next_pool_id(), 8, 8), OutOfMemory);
}

BOOST_AUTO_TEST_CASE(every_mode_is_accepted, *boost::unit_test::label("D-10")) {
  std::vector<Device*> devices = computing_devices();
  devices.insert(devices.end(), {&tb().open(), &null_device(), &host_device()});
  for (Device* d : devices)
    for (MemoryMode mode : {MemoryMode::Default, MemoryMode::DeviceOnly, MemoryMode::HostVisible,
                            MemoryMode::Upload, MemoryMode::Readback}) {
      int32_t id = d->pools().next_pool_id();
      d->pools().alloc_pool(id, 100, 16, mode);
      BOOST_TEST(d->pools().size_of(id) == 100u);
      if (d != &null_device()) { // whose memory forgets
        write_all(*d, id, 42);
        BOOST_TEST(bytes_of(*d, id) == std::vector<uint8_t>(100, 42), boost::test_tools::per_element());
      }
      d->pools().free_pool(id);
    }
}

BOOST_AUTO_TEST_CASE(a_freed_pool_is_forgotten_and_its_memory_returns, *boost::unit_test::label("D-11")) {
  for (Device* d : {&tb().open(), &tb().open_streams(), &null_device()}) {
    uint64_t before = d->memory().live_bytes;
    int32_t id = d->pools().next_pool_id();
    d->pools().alloc_pool(id, 5000, 64);
    BOOST_TEST(d->memory().live_bytes == before + 5000);
    d->pools().free_pool(id);
    BOOST_TEST(!d->pools().has(id));
    BOOST_CHECK_THROW(d->pools().resolve_pool({id, 0}), InvalidArgument);
    BOOST_CHECK_THROW(d->pools().free_pool(id), InvalidArgument);
    BOOST_TEST(d->memory().live_bytes == before);
    BOOST_TEST(d->memory().cached_bytes == 0u);
  }
  Device& d = tb().open();
  BufferRef b = int_buffer(d, 4, 0);
  BOOST_CHECK_THROW(d.pools().free_pool(b->loc().pool_id), InvalidArgument); // a buffer's
}

BOOST_AUTO_TEST_CASE(memset_zero_touches_its_range_only, *boost::unit_test::label("D-12")) {
  for (Device* d : {&tb().open(), &tb().open_streams(), &tb().open([](tb_options& o) { o.fill_hook = 0; })}) {
    int32_t id = d->pools().next_pool_id();
    d->pools().alloc_pool(id, 64, 64);
    write_all(*d, id, 0xff);
    d->pools().memset_zero(id, 16, 32);
    d->pools().memset_zero(id, 0, 0);
    d->pools().memset_zero(id, 64, 0);
    std::vector<uint8_t> expected(64, 0xff);
    std::fill(expected.begin() + 16, expected.begin() + 48, uint8_t{0});
    BOOST_TEST(bytes_of(*d, id) == expected, boost::test_tools::per_element());
    for (auto [offset, size] :
         {std::pair<uint64_t, uint64_t>{60, 5}, {65, 0}, {UINT64_MAX, 2}, {2, UINT64_MAX}})
      BOOST_CHECK_THROW(d->pools().memset_zero(id, offset, size), InvalidArgument);
    BOOST_CHECK_THROW(d->pools().memset_zero(9999, 0, 1), InvalidArgument);
  }
}

BOOST_AUTO_TEST_CASE(a_location_resolves_to_handle_and_offset, *boost::unit_test::label("D-13")) {
  Device& d = tb().open();
  int32_t id = d.pools().next_pool_id();
  d.pools().alloc_pool(id, 256, 64);
  tolk_ref whole = d.pools().resolve_pool({id, 0}), part = d.pools().resolve_pool({id, 100});
  BOOST_TEST(part.buffer == whole.buffer);
  BOOST_TEST(part.offset == whole.offset + 100);
  BOOST_TEST(part.size == 156u);
  std::string text = message_of<InvalidArgument>([&] { d.pools().resolve_pool({77, 0}); });
  BOOST_TEST(contains(text, "unknown pool 77 on " + d.get_name()), text);
  BOOST_CHECK_THROW(d.pools().resolve_pool({id, 257}), InvalidArgument);
  BufferRef view = view_buffer(int_buffer(d, 8, 0), DType::I32, 2, 12);
  BOOST_TEST(d.pools().resolve_pool(view->loc()).offset == view->ref().offset);
  BOOST_TEST(d.pools().resolve_pool(view->loc()).buffer == view->ref().buffer);
}

BOOST_AUTO_TEST_CASE(locations_are_the_same_in_every_run, *boost::unit_test::label("D-14")) {
  auto program = [](Device& d) {
    std::vector<BufferLoc> seen;
    BufferRef a = int_buffer(d, 64, 0), b = int_buffer(d, 16, 0);
    seen.push_back(a->loc());
    seen.push_back(b->loc());
    seen.push_back(view_buffer(a, DType::I32, 4, 32)->loc());
    a.reset();
    BufferRef c = int_buffer(d, 64, 0), e = int_buffer(d, 8, 0); // c takes a's block over
    seen.push_back(c->loc());
    seen.push_back(e->loc());
    int32_t own = d.pools().next_pool_id();
    d.pools().alloc_pool(own, 10, 8);
    seen.push_back({own, 4});
    return seen;
  };
  std::vector<BufferLoc> first = program(tb().open()), second = program(tb().open());
  BOOST_TEST(first.size() == 6u);
  BOOST_TEST((first == second));
  BOOST_TEST((first[0] == BufferLoc{1, 0}));
  BOOST_TEST(describe(first[2]) == "pool 1 + 32");
}

BOOST_AUTO_TEST_CASE(zero_is_reserved_and_numbers_grow, *boost::unit_test::label("D-15")) {
  Device& d = tb().open();
  BOOST_TEST(d.pools().next_pool_id() == 1);
  d.pools().alloc_pool(1, 8, 8);
  d.pools().free_pool(1);
  int32_t before = 1;
  for (int i = 0; i < 10; i++) {
    int32_t id = d.pools().next_pool_id();
    BOOST_TEST(id > before);
    before = id;
    d.pools().alloc_pool(id, 8, 8);
    d.pools().free_pool(id);
  }
  BOOST_TEST(!d.pools().has(kMergePoolId));
}

BOOST_AUTO_TEST_CASE(the_merge_pool_grows_in_place, *boost::unit_test::label("D-21")) {
  for (uint32_t streams : {0u, 1u}) {
    tb().reset();
    auto set = [&](tb_options& o) { o.streams = streams; };
    Device &from = tb().open(set), &to = tb().open(set);
    BufferRef small = int_buffer(from, {1, 2, 3, 4}), large = int_buffer(from, 16, 8);
    ProgramRef add = add_kernel(to, 100);
    BOOST_TEST((to.pools().merge_in(*small) == BufferLoc{kMergePoolId, 0}));
    BOOST_TEST(to.pools().size_of(kMergePoolId) == 16u);
    std::vector<uint8_t> bytes = bytes_of(to, kMergePoolId);
    BOOST_TEST(int(bytes[4]) == 2);
    auto held = tb().hold_copies(to);
    to.pools().merge_in(*small); // still running when the pool grows
    to.pools().merge_in(*large);
    BOOST_TEST(to.pools().size_of(kMergePoolId) == 64u);
    held.release();
    bytes = bytes_of(to, kMergePoolId);
    for (size_t i = 0; i < 16; i++) BOOST_TEST(int(bytes[4 * i]) == 8);
    to.pools().merge_in(*small);
    BOOST_TEST(to.pools().size_of(kMergePoolId) == 64u); // never shrinks
    to.synchronize();
    BOOST_TEST(tb().counters(to).live_buffers == 1u); // the old block is gone
    BOOST_TEST((scattered() || tb().counters(to).live_bytes == 64u));
    to.pools().free_pool(kMergePoolId);
    to.synchronize();
    BOOST_TEST(to.memory().live_bytes == 0u);
    BOOST_TEST(tb().counters(to).live_bytes == 0u);
  }
}

BOOST_AUTO_TEST_CASE(a_buffer_lies_at_a_location_and_keeps_its_memory) {
  for (Device* d : {&tb().open(), &tb().open_streams()}) {
    const uint64_t before = d->memory().live_bytes;
    int32_t id = d->pools().next_pool_id();
    d->pools().alloc_pool(id, 64, 64);
    d->pools().memset_zero(id, 0, 64);
    BufferRef low = pool_buffer(*d, {id, 0}, DType::I32, 4), high = pool_buffer(*d, {id, 32}, DType::I32, 4);
    BOOST_TEST((high->loc() == BufferLoc{id, 32}));
    BOOST_TEST(high->ref().offset == d->pools().resolve_pool({id, 32}).offset);
    // b[i] = a[i] + 100 from one end of the pool to the other.
    const std::vector<int32_t> values{1, 2, 3, 4};
    low->copy_in(std::as_bytes(std::span(values)));
    launch(add_kernel(*d, 100), {high, low});
    d->pools().free_pool(id); // the buffers still lie in it
    BOOST_TEST(!d->pools().has(id));
    BOOST_TEST(ints(*high) == std::vector<int32_t>({101, 102, 103, 104}), boost::test_tools::per_element());
    BOOST_TEST(d->memory().live_bytes == before + 64);
    low.reset();
    high.reset();
    BOOST_TEST(d->memory().live_bytes == before);
    BOOST_CHECK_THROW(pool_buffer(*d, {id, 0}, DType::I32, 4), InvalidArgument);
    int32_t small = d->pools().next_pool_id();
    d->pools().alloc_pool(small, 16, 8);
    BOOST_CHECK_THROW(pool_buffer(*d, {small, 4}, DType::I32, 4), InvalidArgument);
  }
}

BOOST_AUTO_TEST_CASE(optimize_contexts_are_empty_and_independent, *boost::unit_test::label("D-06")) {
  OptimizeContextRef a = empty_optimize_context(), b = empty_optimize_context();
  BOOST_TEST(a->notes.empty());
  BOOST_TEST(describe(*a) == "optimize context, empty");
  a->notes["upcast"] = "4";
  BOOST_TEST(b->notes.empty());
  BOOST_TEST(contains(describe(*a), "upcast=4"));
}

BOOST_AUTO_TEST_CASE(a_context_is_an_immutable_chain, *boost::unit_test::label("D-08")) {
  Device& d = tb().open();
  DeviceContextRef root = make_context(d), child = root->make_child({}), grandchild = child->make_child({});
  BOOST_TEST(&root->device() == &d);
  BOOST_TEST(grandchild->parent() == child);
  BOOST_TEST(child->parent() == root);
  BOOST_TEST(grandchild->optimize_context() == root->optimize_context());
  BOOST_TEST(contains(describe(*grandchild), "depth 2"));
  BOOST_TEST(contains(describe(*grandchild), d.get_name()));
}

BOOST_AUTO_TEST_CASE(a_root_context_is_empty, *boost::unit_test::label("D-18")) {
  DeviceContextRef root = make_context(tb().open());
  BOOST_TEST(!root->parent());
  BOOST_TEST(root->buffers().empty());
  BOOST_TEST(root->optimize_context()->notes.empty());
  BOOST_TEST(!root->merge_buffer_node());
  BOOST_TEST(make_context(root->device())->optimize_context() != root->optimize_context());
}

BOOST_AUTO_TEST_CASE(a_child_inherits_what_is_omitted, *boost::unit_test::label("D-19")) {
  Device& d = tb().open();
  int32_t id = d.pools().next_pool_id();
  d.pools().alloc_pool(id, 64, 8);
  DeviceContextRef root = make_context(d, {{5, {id, 0}}});
  DeviceContextRef merged = root->make_child({.merge_node = std::optional<NodeId>(5)});
  DeviceContextRef child = merged->make_child({});
  BOOST_TEST((child->buffers() == root->buffers()));
  BOOST_TEST(child->optimize_context() == root->optimize_context());
  BOOST_TEST((child->merge_buffer_node() == std::optional<NodeId>(5)));
  BOOST_TEST(child->parent() == merged);
  BOOST_TEST(!merged->make_child({.merge_node = std::optional<NodeId>()})->merge_buffer_node());
  OptimizeContextRef other = empty_optimize_context();
  BOOST_TEST(child->make_child({.optimize = other})->optimize_context() == other);
}

BOOST_AUTO_TEST_CASE(a_child_leaves_its_parent_alone, *boost::unit_test::label("D-20")) {
  Device& d = tb().open();
  int32_t a = d.pools().next_pool_id(), b = d.pools().next_pool_id();
  d.pools().alloc_pool(a, 64, 8);
  d.pools().alloc_pool(b, 64, 8);
  DeviceContextRef root = make_context(d, {{1, {a, 0}}});
  CtxBuffers more = root->buffers();
  more[2] = {b, 16};
  DeviceContextRef child = root->make_child({.buffers = more});
  BOOST_TEST(child->buffers().size() == 2u);
  BOOST_TEST(root->buffers().size() == 1u);
  child.reset();
  BOOST_TEST(!d.pools().has(b)); // the child's own
  BOOST_TEST(d.pools().has(a));  // the parent's
}

BOOST_AUTO_TEST_CASE(a_pool_of_many_nodes_is_freed_once, *boost::unit_test::label("RG-16")) {
  Device& d = tb().open();
  int32_t id = d.pools().next_pool_id();
  d.pools().alloc_pool(id, 320, 64);
  d.pools().merge_in(*int_buffer(d, 4, 0));
  CtxBuffers nodes;
  for (NodeId n = 0; n < 5; n++) nodes[n] = {id, 64 * n};
  nodes[5] = {kMergePoolId, 0};
  tb().reset();
  DeviceContextRef root = make_context(d, nodes), child = root->make_child({});
  root.reset();
  BOOST_TEST(d.pools().has(id)); // the child holds its parent
  child.reset();
  BOOST_TEST(tb().counters(d).buffer_destroy == 1u);
  BOOST_TEST(!d.pools().has(id));
  BOOST_TEST(d.pools().has(kMergePoolId));
}

BOOST_AUTO_TEST_SUITE_END()
