#include "tolk/loader/plugin_loader.h"

#include <dlfcn.h>
#include <future>
#include <optional>
#include <thread>
#include <vector>

#include <tolk/plugin/trusted_library.hpp>

#define BOOST_DLL_USE_STD_FS
#include <boost/dll/shared_library.hpp>

#include "tolk/base/config.h"
#include "tolk/base/log.h"
#include "tolk/loader/plugin_host.h"
#include "tolk/loader/status.h"

namespace tolk {
namespace {

constexpr char kEntry[] = "tolk_plugin_entry_v1";

struct OpenLibrary {
  std::unique_ptr<boost::dll::shared_library> handle;
  PinnedLibrary pinned;
};
// What foreign code may still point to: open libraries, and host tables of entries that failed. Never freed: threads, exit
// handlers and unique symbols of a library could outlive its handle.
struct Kept {
  std::mutex mutex;
  std::vector<OpenLibrary> libraries;
  std::vector<std::unique_ptr<HostContext>> hosts;
};
Kept& kept() {
  static auto* all = new Kept;
  return *all;
}

struct EntryResult {
  tolk_status status = TOLK_E_INTERNAL;
  const tolk_plugin* table = nullptr;
  std::string text;
};

// Runs the entry on its own thread; returns nothing if it does not return in time. The thread, the library and
// the host table are then leaked on purpose, since the entry may go on using them.
std::optional<EntryResult> call_entry(decltype(&tolk_plugin_entry_v1) entry, const tolk_host* host,
                                      std::chrono::milliseconds patience) {
  std::packaged_task<EntryResult()> task([entry, host] {
    EntryResult result;
    result.status = entry(host, &result.table);
    if (result.status < 0) result.text = take_error_text(result.status);
    return result;
  });
  std::future<EntryResult> future = task.get_future();
  std::thread thread(std::move(task));
  if (future.wait_for(patience) == std::future_status::ready) {
    thread.join();
    return future.get();
  }
  thread.detach();
  return std::nullopt;
}

bool good_name(const char* name) {
  if (!name || name[0] < 'A' || name[0] > 'Z') return false;
  size_t n = 1;
  for (; name[n]; n++)
    if (n >= 32 ||
        !((name[n] >= 'A' && name[n] <= 'Z') || (name[n] >= '0' && name[n] <= '9') || name[n] == '_'))
      return false;
  return true;
}

// The part of the loader's message after the path, which the report prints anyway.
std::string loader_text(const std::string& path) {
  const char* text = dlerror(); // NOLINT(concurrency-mt-unsafe): glibc keeps it per thread
  if (!text) return "the dynamic loader gave no reason";
  std::string_view view = text;
  if (view.starts_with(path + ": ")) view.remove_prefix(path.size() + 2);
  return std::string(view);
}

void reject(PluginCandidate& candidate, CandidateState state, std::string reason) {
  candidate.state = state;
  candidate.reason = std::move(reason);
}

CandidateState state_of(tolk_status status) {
  switch (status) {
  case TOLK_E_SYSTEM:
    return CandidateState::System;
  case TOLK_E_VERSION:
    return CandidateState::Minor;
  default:
    return CandidateState::Damaged;
  }
}

} // namespace

Plugin::Plugin() = default;
Plugin::~Plugin() = default;

std::string adopt_table(Plugin& plugin, const tolk_plugin* table, CandidateState& state) {
  state = CandidateState::Damaged;
  if (!table) return "the entry succeeded but gave no plugin table";
  if (table->abi_major != TOLK_ABI_MAJOR) {
    state = CandidateState::Version;
    return "built for ABI " + std::to_string(table->abi_major) + ", this tolk speaks " +
           std::to_string(TOLK_ABI_MAJOR) + "; rebuild the plugin or update tolk";
  }
  if (table->min_host_minor > TOLK_ABI_MINOR) {
    state = CandidateState::Minor;
    return "needs ABI " + std::to_string(table->abi_major) + "." + std::to_string(table->min_host_minor) +
           ", this tolk has " + std::to_string(TOLK_ABI_MAJOR) + "." + std::to_string(TOLK_ABI_MINOR) +
           "; update tolk or use an older version of the plugin";
  }
  if (std::string problem = copy_tables(table, plugin); !problem.empty()) return problem;
  const tolk_plugin& t = plugin.table;
  if (!good_name(t.name))
    return std::string("plugin table: the name \"") + (t.name ? t.name : "(NULL)") +
           "\" is not of the form [A-Z][A-Z0-9_]{0,31}";
  for (const char* text : {t.display_name, t.vendor, t.version, t.compiler_id})
    if (!text) return "plugin table: display_name, vendor, version and compiler_id must not be NULL";
  plugin.name = t.name;
  plugin.display_name = t.display_name;
  plugin.vendor = t.vendor;
  plugin.version = t.version;
  plugin.compiler_id = t.compiler_id;
  plugin.abi_minor = t.abi_minor;
  plugin.flags = t.flags;
  plugin.self = t.self;
  plugin.synchronous = !plugin.stream.create;
  plugin.has_compile = plugin.program.compile != nullptr;
  plugin.has_graph = plugin.graph.create != nullptr;
  plugin.has_memory = plugin.device.memory != nullptr;
  fill_tables(plugin);
  return {};
}

std::unique_ptr<Plugin> load_plugin(PluginCandidate& candidate, const Interposer& interposer,
                                    std::chrono::milliseconds patience) {
  // Checked again, and then loaded through the descriptors: what is run is what was checked.
  PinnedLibrary pinned = pin_plugin(candidate.path, candidate.origin);
  if (!pinned.problem().empty()) {
    const bool untrusted = pinned.kind() == PinnedLibrary::Problem::Untrusted;
    reject(candidate, untrusted ? CandidateState::Unsafe : CandidateState::Loader, pinned.problem());
    return nullptr;
  }
  if (pinned.status().st_ino != candidate.inode || pinned.status().st_dev != candidate.device_id) {
    reject(candidate, CandidateState::Unsafe, "the file was replaced while it was being loaded");
    return nullptr;
  }
  const std::string path = pinned.path(), loader_path = pinned.loader_path();
  std::error_code ec;
  dlerror(); // NOLINT(concurrency-mt-unsafe): forgets an older message
  boost::dll::shared_library library;
  library.load(loader_path, ec, boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local);
  if (!library.is_loaded()) {
    reject(candidate, CandidateState::Loader, loader_text(loader_path));
    return nullptr;
  }
  auto owned = std::make_unique<boost::dll::shared_library>(std::move(library));
  boost::dll::shared_library& handle = *owned;
  {
    std::lock_guard lock(kept().mutex);
    kept().libraries.push_back({std::move(owned), std::move(pinned)});
  }
  if (!handle.has(kEntry)) {
    bool next = handle.has("tolk_plugin_entry_v2");
    reject(candidate, next ? CandidateState::Version : CandidateState::Symbol,
           next ? "built for ABI 2, this tolk speaks 1; rebuild the plugin or update tolk"
                : std::string("no ") + kEntry + "; is it a tolk plugin?");
    return nullptr;
  }
  auto entry = &handle.get<tolk_status(const tolk_host*, const tolk_plugin**)>(kEntry);

  auto plugin = std::make_unique<Plugin>();
  plugin->path = candidate.path;
  plugin->origin = candidate.origin;
  plugin->host = std::make_unique<HostContext>(candidate.name);
  if (interposer.before_entry) interposer.before_entry(*plugin->host);
  std::optional<EntryResult> result = call_entry(entry, &plugin->host->table, patience);
  auto refuse = [&](CandidateState state, std::string reason) -> std::unique_ptr<Plugin> {
    // The library may hold the host table's address, whatever it answered.
    std::lock_guard lock(kept().mutex);
    kept().hosts.push_back(std::move(plugin->host));
    reject(candidate, state, std::move(reason));
    return nullptr;
  };
  if (!result)
    return refuse(CandidateState::Slow,
                  "the entry did not return within " + std::to_string(patience.count()) + " ms");
  if (result->status < 0)
    return refuse(state_of(result->status),
                  result->text + " (" + status_name(result->status) + " from the entry)");
  CandidateState state;
  if (std::string problem = adopt_table(*plugin, result->table, state); !problem.empty())
    return refuse(state, problem);
  plugin->host->name = plugin->name;
  plugin->host->compiler_id = plugin->compiler_id;
  if (interposer.after_load) interposer.after_load(*plugin, result->table);
  candidate.state = CandidateState::Loaded;
  candidate.reason.clear();
  candidate.name = plugin->name;
  candidate.abi_major = TOLK_ABI_MAJOR;
  candidate.abi_minor = plugin->abi_minor;
  if (log::enabled(1))
    log::debug(1, "loaded plugin " + plugin->name + " " + plugin->version + " from " + path);
  return plugin;
}

} // namespace tolk
