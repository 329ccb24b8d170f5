// The entry point, the plugin's table and what lives as long as the plugin: options, workers.
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "cpu_info.h"
#include "state.h"

TOLK_PLUGIN_STAMP_DEFAULT("CPU", TOLK_ABI_MAJOR, TOLK_ABI_MINOR, 10);

namespace tolk_cpu {

const tolk_host* host = nullptr;
MemoryUse memory_use;

namespace {

std::mutex pool_lock;
std::atomic<WorkerPool*> pool{nullptr};

// Rises whenever the renderer's conventions, the passes or the binary's layout change.
constexpr int kPipeline = 1;

tolk_status device_count(void*, uint32_t* out) {
  *out = 1;
  return TOLK_OK;
}

tolk_status get_device_info(void*, uint32_t, const tolk_device_info** out) {
  return guarded([&] {
    *out = &device_info();
    return TOLK_OK;
  });
}

// Every index is one more independent device over the same cores and memory.
tolk_status device_open(void*, uint32_t index, tolk_device** out) {
  return guarded([&] {
    *out = new tolk_device{.index = index};
    return TOLK_OK;
  });
}

void shutdown(void*) { join_workers(); }

// A number from 0 to `most`; 0 when it was not given, and with a warning when it is something else.
uint32_t option(const char* name, uint32_t most, const char* otherwise) {
  const char* text = host->config_get ? host->config_get(host->ctx, name) : nullptr;
  if (!text) return 0;
  char* end = nullptr;
  unsigned long value = std::strtoul(text, &end, 10);
  if (end != text && !*end && value <= most) return static_cast<uint32_t>(value);
  std::string message = std::string("the option ") + name + " must be a number from 0 to " +
                        std::to_string(most) + ", found \"" + text + "\"; " + otherwise;
  if (host->log_message) host->log_message(host->ctx, TOLK_LOG_WARNING, message.c_str());
  return 0;
}

} // namespace

tolk_status fail(tolk_status code, const std::string& text) {
  return host->set_error(host->ctx, code, text.c_str());
}

uint32_t thread_count() {
  static const uint32_t count = [] {
    const uint32_t threads = option("threads", 1024, "one thread per core is used");
    return threads ? threads : cpu_info().cores;
  }();
  return count;
}

bool has_streams() {
  static const bool on = option("streams", 1, "there are none") != 0;
  return on;
}

WorkerPool& worker_pool() {
  if (WorkerPool* made = pool.load(std::memory_order_acquire)) return *made;
  std::lock_guard guard(pool_lock);
  if (!pool) pool = new WorkerPool(thread_count());
  return *pool;
}

void join_workers() {
  std::lock_guard guard(pool_lock);
  delete pool.exchange(nullptr);
}

const char* compiler_id() {
  static const std::string text = [] {
    char buffer[128];
    std::snprintf(buffer, sizeof buffer, "llvm-%s pipeline-%d %s %016llx", TOLK_CPU_LLVM_VERSION, kPipeline,
                  cpu_info().arch.c_str(), static_cast<unsigned long long>(cpu_info().identity));
    return std::string(buffer);
  }();
  return text.c_str();
}

} // namespace tolk_cpu

tolk_status tolk_plugin_entry_v1(const tolk_host* table, const tolk_plugin** out) {
  using namespace tolk_cpu;
  host = table;
  static tolk_plugin plugin;
  return guarded([&] {
    plugin.struct_size = sizeof plugin;
    plugin.abi_major = TOLK_ABI_MAJOR;
    plugin.abi_minor = TOLK_ABI_MINOR;
    plugin.name = "CPU";
    plugin.display_name = "CPU";
    plugin.vendor = "tolk";
    plugin.version = "0.1";
    plugin.compiler_id = compiler_id();
    plugin.device = &device_table;
    plugin.buffer = &buffer_table;
    plugin.stream = &stream_table();
    plugin.program = &program_table;
    plugin.graph = &graph_table;
    plugin.device_count = device_count;
    plugin.device_info = get_device_info;
    plugin.device_open = device_open;
    plugin.shutdown = shutdown;
    *out = &plugin;
    return TOLK_OK;
  });
}
