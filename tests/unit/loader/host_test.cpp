// The services that plugins get from the host.
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cstring>
#include <set>
#include <thread>

#include "device_test.h"
#include "tolk/base/error.h"
#include "tolk/loader/plugin_host.h"
#include "tolk/loader/status.h"

using namespace tolk;
using namespace tolk::test;

BOOST_AUTO_TEST_CASE(error_texts_are_kept_per_thread_and_consumed_once) {
  HostContext context("X");
  const tolk_host& h = context.table;
  BOOST_TEST(h.set_error(h.ctx, TOLK_E_LIMIT, "mine") == TOLK_E_LIMIT);
  std::thread([&] { h.set_error(h.ctx, TOLK_E_LIMIT, "other"); }).join();
  BOOST_TEST(take_error_text(TOLK_E_LIMIT) == "mine");
  BOOST_TEST(take_error_text(TOLK_E_LIMIT) == "a stated limit was exceeded");
  h.set_error(h.ctx, TOLK_E_IO, "of another call");
  BOOST_TEST(take_error_text(TOLK_E_LIMIT) == "a stated limit was exceeded");
  h.set_error(h.ctx, TOLK_E_IO, std::string(5000, 'x').c_str());
  BOOST_TEST(take_error_text(TOLK_E_IO).size() == 4096u);
}

BOOST_AUTO_TEST_CASE(status_codes_become_their_error) {
  BOOST_CHECK_THROW(check_status(TOLK_E_DEVICE_OOM, "D", "x"), OutOfMemory);
  BOOST_CHECK_THROW(check_status(TOLK_E_COMPILE, "D", "x"), CompileError);
  BOOST_CHECK_THROW(check_status(TOLK_E_BAD_BINARY, "D", "x"), FormatError);
  BOOST_CHECK_THROW(check_status(TOLK_E_INTERNAL, "D", "x"), PluginError);
  BOOST_CHECK_THROW(check_status(TOLK_E_BUSY, "D", "x"), DeviceError);
  BOOST_CHECK_THROW(check_status(-12345, "D", "x"), PluginError); // unknown: a fault of the plugin
  check_status(TOLK_OK, "D", "x");
  check_status(TOLK_NOT_READY, "D", "x");
  check_status(777, "D", "x");
}

BOOST_AUTO_TEST_CASE(memory_is_aligned_and_counted) {
  HostContext context("X");
  const tolk_host& h = context.table;
  std::vector<void*> blocks;
  for (uint64_t align = 1; align <= 4096; align *= 2) {
    void* p = h.mem_alloc(h.ctx, 100, align);
    BOOST_REQUIRE(p);
    BOOST_TEST(reinterpret_cast<uintptr_t>(p) % align == 0u);
    std::memset(p, 1, 100);
    blocks.push_back(p);
  }
  BOOST_TEST(context.live_allocations == blocks.size());
  BOOST_TEST(context.live_bytes == blocks.size() * 100);
  for (void* p : blocks) h.mem_free(h.ctx, p);
  h.mem_free(h.ctx, nullptr);
  BOOST_TEST(context.live_allocations == 0u);
  BOOST_TEST(h.mem_alloc(h.ctx, 100, 3) == nullptr);
  BOOST_TEST(h.mem_alloc(h.ctx, UINT64_MAX - 8, 16) == nullptr);
}

BOOST_AUTO_TEST_CASE(parallel_for_covers_every_index_once) {
  HostContext context("LOOPS");
  const tolk_host& h = context.table;
  for (uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{7}, uint64_t{100'003}})
    for (uint64_t grain : {uint64_t{0}, uint64_t{1}, uint64_t{64}, uint64_t{1'000'000}}) {
      std::vector<std::atomic<int>> hits(count);
      h.parallel_for(
          h.ctx, count, grain,
          [](void* arg, uint64_t begin, uint64_t end) {
            auto& all = *static_cast<std::vector<std::atomic<int>>*>(arg);
            for (uint64_t i = begin; i < end; i++) all[i]++;
          },
          &hits);
      bool once = true;
      for (auto& hit : hits) once &= hit == 1;
      BOOST_TEST(once);
    }
}

BOOST_AUTO_TEST_CASE(nested_and_concurrent_loops_finish) {
  HostContext context("LOOPS");
  struct State {
    const tolk_host& host;
    std::atomic<uint64_t> sum{0};
  } state{context.table};
  auto outer = [](void* arg, uint64_t begin, uint64_t end) {
    const tolk_host& host = static_cast<State*>(arg)->host;
    for (uint64_t i = begin; i < end; i++)
      host.parallel_for(
          host.ctx, 10, 1, [](void* a, uint64_t b, uint64_t e) { static_cast<State*>(a)->sum += e - b; },
          arg);
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; i++) context.table.parallel_for(context.table.ctx, 20, 1, outer, &state);
    });
  for (std::thread& t : threads) t.join();
  BOOST_TEST(state.sum == 4u * 50 * 20 * 10);
}

BOOST_AUTO_TEST_CASE(options_come_from_the_user_before_the_environment) {
  setenv("TOLK_OPTX_FROM_ENV", "e", 1); // NOLINT(concurrency-mt-unsafe): no other thread yet
  setenv("TOLK_OPTX_BOTH", "e", 1);     // NOLINT(concurrency-mt-unsafe)
  store_plugin_option("optx", "both", "o");
  HostContext context("OPTX");
  const tolk_host& h = context.table;
  BOOST_TEST(std::string(h.config_get(h.ctx, "from_env")) == "e");
  BOOST_TEST(std::string(h.config_get(h.ctx, "Both")) == "o");
  BOOST_TEST(h.config_get(h.ctx, "neither") == nullptr);
  const char* first = h.config_get(h.ctx, "both");
  BOOST_TEST(h.config_get(h.ctx, "BOTH") == first); // lives until shutdown
}

BOOST_AUTO_TEST_CASE(cache_entries_belong_to_a_plugin_and_its_compiler) {
  TemporaryFolder root;
  Config config;
  config.cache_dir = root / "cache";
  ScopedConfig scoped(config); // before anything else in this program opens the cache
  HostContext context("CACHED"), newer("CACHED");
  context.compiler_id = "v1";
  newer.compiler_id = "v2";
  const tolk_host& h = context.table;
  tolk_bytes key{"key", 3}, value{"some value", 10};
  tolk_blob* blob = nullptr;
  BOOST_TEST(h.cache_get(h.ctx, key, &blob) == TOLK_E_NOT_FOUND);
  BOOST_TEST(h.cache_put(h.ctx, key, value) == TOLK_OK);
  BOOST_TEST(h.cache_get(h.ctx, key, &blob) == TOLK_OK);
  tolk_bytes got = h.blob_bytes(h.ctx, blob);
  BOOST_TEST(std::string(static_cast<const char*>(got.data), got.size) == "some value");
  h.blob_destroy(h.ctx, blob);
  BOOST_TEST(newer.table.cache_get(newer.table.ctx, key, &blob) == TOLK_E_NOT_FOUND);
  std::string folder = h.cache_path(h.ctx);
  BOOST_TEST(folder.starts_with(root.path()));
  BOOST_TEST(folder != newer.table.cache_path(newer.table.ctx));
  auto mode = std::filesystem::status(folder).permissions() & std::filesystem::perms::all;
  BOOST_TEST((mode == std::filesystem::perms::owner_all));

  config.compile_cache = 0;
  ScopedConfig off(config);
  HostContext uncached("UNCACHED");
  BOOST_TEST(uncached.table.cache_path(uncached.table.ctx) == nullptr);
  BOOST_TEST(h.cache_get(h.ctx, key, &blob) == TOLK_E_NOT_FOUND);
}

BOOST_AUTO_TEST_CASE(blobs_carry_bytes) {
  HostContext context("X");
  const tolk_host& h = context.table;
  void* data = nullptr;
  tolk_blob* blob = h.blob_create(h.ctx, 3, &data);
  std::memcpy(data, "a\0b", 3);
  BOOST_TEST(take_blob(blob) == std::string("a\0b", 3));
  BOOST_TEST(take_blob(nullptr).empty());
}
