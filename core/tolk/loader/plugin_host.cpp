#include "tolk/loader/plugin_host.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "tolk/base/clock.h"
#include "tolk/base/config.h"
#include "tolk/base/disk_cache.h"
#include "tolk/base/hash.h"
#include "tolk/base/log.h"
#include "tolk/base/thread_pool.h"
#include "tolk/loader/status.h"

struct tolk_blob {
  uint64_t size;
  void* data;
};

namespace tolk {
namespace {

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

struct Options {
  std::mutex mutex;
  std::map<std::string, std::string, std::less<>> values; // "NAME.KEY"
  std::set<std::string, std::less<>> asked;               // the same, whether there is a value or not
};
Options& all_options() {
  static auto* options = new Options;
  return *options;
}

std::atomic<bool> cancel_flag{false};

HostContext& context(void* ctx) { return *static_cast<HostContext*>(ctx); }

void log_message(void* ctx, uint32_t level, const char* text) noexcept {
  try {
    std::string line = context(ctx).name + ": " + (text ? text : "");
    switch (level) {
    case TOLK_LOG_ERROR:
      log::error(line);
      break;
    case TOLK_LOG_WARNING:
      log::warning(line);
      break;
    case TOLK_LOG_INFO:
      log::debug(1, line);
      break;
    case TOLK_LOG_DEBUG:
      log::debug(3, line);
      break;
    default:
      log::debug(5, line);
      break;
    }
  } catch (...) {
    return; // a log line is not worth a crash
  }
}

tolk_status set_error(void*, tolk_status code, const char* text) noexcept {
  try {
    keep_error_text(code, text);
  } catch (...) {
    return code; // the code alone still says what happened
  }
  return code;
}

// Size and alignment are kept before the block, so that mem_free needs the pointer only.
struct BlockHeader {
  void* origin;
  uint64_t size;
};

void* mem_alloc(void* ctx, uint64_t size, uint64_t align) noexcept {
  if ((align & (align - 1)) != 0 || size > PTRDIFF_MAX || align > (1u << 30)) return nullptr;
  align = std::max<uint64_t>(align, alignof(std::max_align_t));
  void* origin = std::malloc(size + align + sizeof(BlockHeader));
  if (!origin) return nullptr;
  char* block = static_cast<char*>(origin) + sizeof(BlockHeader);
  block += (align - reinterpret_cast<uintptr_t>(block) % align) % align;
  BlockHeader header{origin, size};
  std::memcpy(block - sizeof header, &header, sizeof header);
  context(ctx).live_allocations.fetch_add(1, std::memory_order_relaxed);
  context(ctx).live_bytes.fetch_add(size, std::memory_order_relaxed);
  return block;
}

void mem_free(void* ctx, void* pointer) noexcept {
  if (!pointer) return;
  BlockHeader header;
  std::memcpy(&header, static_cast<char*>(pointer) - sizeof header, sizeof header);
  context(ctx).live_allocations.fetch_sub(1, std::memory_order_relaxed);
  context(ctx).live_bytes.fetch_sub(header.size, std::memory_order_relaxed);
  std::free(header.origin);
}

tolk_blob* blob_create(void*, uint64_t size, void** data) noexcept {
  if (size > PTRDIFF_MAX) return nullptr;
  void* bytes = std::malloc(size ? size : 1);
  auto* blob = new (std::nothrow) tolk_blob{size, bytes};
  if (!bytes || !blob) {
    std::free(bytes);
    delete blob;
    return nullptr;
  }
  *data = bytes;
  return blob;
}

tolk_bytes blob_bytes(void*, const tolk_blob* blob) noexcept {
  return blob ? tolk_bytes{blob->data, blob->size} : tolk_bytes{};
}

void blob_destroy(void*, tolk_blob* blob) noexcept {
  if (!blob) return;
  std::free(blob->data);
  delete blob;
}

// Threads that take part in a loop, the caller included; plugins may keep the answer.
uint32_t worker_count(void*) noexcept {
  static const uint32_t count = [] {
    const auto wanted = static_cast<uint32_t>(Config::current().cpu_threads);
    return std::max(1u, wanted ? wanted : std::thread::hardware_concurrency());
  }();
  return count;
}

thread_local bool inside_loop = false;

// A call from inside a piece runs inline: the threads are busy already.
void parallel_for(void* ctx, uint64_t count, uint64_t grain, tolk_range_fn fn, void* arg) noexcept {
  const uint32_t threads = worker_count(ctx);
  if (count == 0) return;
  if (inside_loop || count == 1 || threads == 1) return fn(arg, 0, count);
  if (grain == 0) grain = std::max<uint64_t>(1, count / (4ull * threads));
  tolk::parallel_for((count - 1) / grain + 1, threads, [=](size_t piece) {
    const bool outer = std::exchange(inside_loop, true);
    const uint64_t begin = piece * grain;
    fn(arg, begin, begin + std::min(grain, count - begin));
    inside_loop = outer;
  });
}

// Entries share the process's cache; the plugin and its compiler are part of every key.
ContentKey cache_key(HostContext& c, tolk_bytes key) {
  return Hasher()
      .text("plugin")
      .text(c.name)
      .text(c.compiler_id)
      .text({static_cast<const char*>(key.data), key.size})
      .finish();
}

bool caching() { return Config::current().compile_cache && DiskCache::shared().usable(); }

// A folder of the plugin's own in the cache folder, private like that one; empty when caching is off.
std::string make_cache_folder(const HostContext& c) {
  if (!caching()) return {};
  namespace fs = std::filesystem;
  fs::path folder = fs::path(DiskCache::shared().folder()) / "plugins" /
                    (c.name + "-" + content_key(c.compiler_id).hex().substr(0, 16));
  std::error_code ec;
  fs::create_directories(folder, ec);
  if (!ec) fs::permissions(folder, fs::perms::owner_all, ec);
  return ec ? std::string() : folder.string();
}

const char* cache_path(void* ctx) noexcept {
  try {
    HostContext& c = context(ctx);
    std::lock_guard lock(c.mutex);
    if (!c.cache_folder_known) {
      c.cache_folder = make_cache_folder(c);
      c.cache_folder_known = true;
    }
    return c.cache_folder.empty() ? nullptr : c.cache_folder.c_str();
  } catch (...) {
    return nullptr;
  }
}

tolk_status cache_get(void* ctx, tolk_bytes key, tolk_blob** value) noexcept {
  try {
    std::optional<std::string> bytes;
    if (caching()) bytes = DiskCache::shared().get(cache_key(context(ctx), key));
    if (!bytes) return TOLK_E_NOT_FOUND;
    void* data = nullptr;
    *value = blob_create(ctx, bytes->size(), &data);
    if (!*value) return TOLK_E_HOST_OOM;
    std::memcpy(data, bytes->data(), bytes->size());
    return TOLK_OK;
  } catch (...) {
    return TOLK_E_IO;
  }
}

tolk_status cache_put(void* ctx, tolk_bytes key, tolk_bytes value) noexcept {
  try {
    if (caching())
      DiskCache::shared().put(cache_key(context(ctx), key),
                              {static_cast<const char*>(value.data), value.size});
    return TOLK_OK; // forgotten at once when caching is off
  } catch (...) {
    return TOLK_E_IO;
  }
}

const char* config_get(void* ctx, const char* key) noexcept {
  try {
    HostContext& c = context(ctx);
    std::string name = upper(c.name), option = upper(key ? key : "");
    std::string value;
    {
      Options& options = all_options();
      std::lock_guard lock(options.mutex);
      options.asked.insert(name + "." + option);
      if (auto it = options.values.find(name + "." + option); it != options.values.end()) value = it->second;
    }
    if (value.empty()) value = environment(("TOLK_" + name + "_" + option).c_str());
    if (value.empty()) return nullptr;
    std::lock_guard lock(c.mutex);
    // The first answer stays: its text was promised to live until shutdown.
    return c.options.try_emplace(option, std::move(value)).first->second.c_str();
  } catch (...) {
    return nullptr;
  }
}

uint64_t clock_ns(void*) noexcept { return now_ns(); }

int32_t cancelled(void*) noexcept { return cancel_flag.load(std::memory_order_relaxed) ? 1 : 0; }
void trace_begin(void*, const char*, const char*) noexcept {}
void trace_end(void*) noexcept {}
tolk_status get_extension(void*, const char*, uint32_t, const void**) noexcept { return TOLK_E_NOT_FOUND; }

} // namespace

HostContext::HostContext(std::string plugin_name) : name(std::move(plugin_name)) {
  table.struct_size = sizeof table;
  table.abi_major = TOLK_ABI_MAJOR;
  table.abi_minor = TOLK_ABI_MINOR;
  table.ctx = this;
  table.log_message = log_message;
  table.set_error = set_error;
  table.mem_alloc = mem_alloc;
  table.mem_free = mem_free;
  table.blob_create = blob_create;
  table.blob_bytes = blob_bytes;
  table.blob_destroy = blob_destroy;
  table.parallel_for = parallel_for;
  table.worker_count = worker_count;
  table.cache_path = cache_path;
  table.cache_get = cache_get;
  table.cache_put = cache_put;
  table.config_get = config_get;
  table.clock_ns = clock_ns;
  table.cancelled = cancelled;
  table.trace_begin = trace_begin;
  table.trace_end = trace_end;
  table.get_extension = get_extension;
}

std::string take_blob(tolk_blob* blob) {
  if (!blob) return {};
  std::string bytes(static_cast<const char*>(blob->data), blob->size);
  blob_destroy(nullptr, blob);
  return bytes;
}

void store_plugin_option(std::string_view plugin, std::string_view key, std::string_view value) {
  Options& options = all_options();
  std::lock_guard lock(options.mutex);
  options.values[upper(plugin) + "." + upper(key)] = value;
}

std::vector<UnaskedOption> unasked_plugin_options() {
  Options& options = all_options();
  std::lock_guard lock(options.mutex);
  std::vector<UnaskedOption> unasked;
  for (const auto& [name, value] : options.values)
    if (!options.asked.contains(name))
      unasked.push_back({name.substr(0, name.find('.')), name.substr(name.find('.') + 1)});
  return unasked;
}

std::vector<std::string> asked_plugin_options(std::string_view plugin) {
  Options& options = all_options();
  std::lock_guard lock(options.mutex);
  std::vector<std::string> keys;
  const std::string prefix = upper(plugin) + ".";
  for (auto it = options.asked.lower_bound(prefix); it != options.asked.end() && it->starts_with(prefix);
       ++it) {
    std::string& key = keys.emplace_back(it->substr(prefix.size()));
    for (char& c : key) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return keys;
}

void set_cancelled(bool value) { cancel_flag.store(value, std::memory_order_relaxed); }

} // namespace tolk
