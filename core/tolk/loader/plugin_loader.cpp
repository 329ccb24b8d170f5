#include "tolk/loader/plugin_loader.h"

#include <cstring>
#include <dlfcn.h>
#include <future>
#include <optional>
#include <sys/stat.h>
#include <thread>
#include <vector>

#define BOOST_DLL_USE_STD_FS
#include <boost/dll/shared_library.hpp>

#include "tolk/base/config.h"
#include "tolk/base/log.h"
#include "tolk/loader/clamp.h"
#include "tolk/loader/host_fallbacks.h"
#include "tolk/loader/plugin_host.h"
#include "tolk/loader/status.h"

namespace tolk {
namespace {

constexpr char kEntry[] = "tolk_plugin_entry_v1";

// What foreign code may still point to: open libraries, and host tables of entries that failed. Never freed.
// A library is not unmapped because its threads, exit handlers and unique symbols could outlive the handle.
struct Kept {
  std::mutex mutex;
  std::vector<std::unique_ptr<boost::dll::shared_library>> libraries;
  std::vector<std::unique_ptr<HostContext>> hosts;
};
Kept& kept_for_ever() {
  static auto* kept = new Kept;
  return *kept;
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

// One sub-table: its minimum size (through its last mandatory entry) and its mandatory entries.
struct Requirement {
  const char* name;
  bool present;
};

std::string missing(const char* table, std::initializer_list<Requirement> entries, const char* why) {
  for (const Requirement& e : entries)
    if (!e.present) return std::string(table) + " table: " + e.name + " is NULL (" + why + ")";
  return {};
}

template <typename T> std::string take_table(const char* name, const T* from, size_t least, T& to) {
  if (!from) return std::string("plugin table: ") + name + " is NULL (mandatory)";
  uint32_t size = 0;
  std::memcpy(&size, from, sizeof size);
  if (size < least)
    return std::string(name) + " table: struct_size is " + std::to_string(size) + ", at least " +
           std::to_string(least) + " expected";
  to = clamp_copy(from);
  return {};
}

#define TOLK_LEAST(type, field) (offsetof(type, field) + sizeof(type::field))

std::string check_entries(const Plugin& p) {
  std::string problem = missing("plugin",
                                {{"device_count", p.table.device_count != nullptr},
                                 {"device_info", p.table.device_info != nullptr},
                                 {"device_open", p.table.device_open != nullptr}},
                                "mandatory");
  if (problem.empty())
    problem = missing("device", {{"close", p.device.close != nullptr}, {"caps", p.device.caps != nullptr}},
                      "mandatory");
  if (problem.empty())
    problem =
        missing("buffer", {{"create", p.buffer.create != nullptr}, {"destroy", p.buffer.destroy != nullptr}},
                "mandatory");
  if (problem.empty())
    problem = missing("stream",
                      {{"copy_in", p.stream.copy_in != nullptr}, {"copy_out", p.stream.copy_out != nullptr}},
                      "mandatory");
  if (problem.empty())
    problem = missing("program",
                      {{"load", p.program.load != nullptr},
                       {"unload", p.program.unload != nullptr},
                       {"get_kernel", p.program.get_kernel != nullptr},
                       {"launch", p.program.launch != nullptr}},
                      "mandatory");
  if (problem.empty() && p.buffer.map)
    problem = missing("buffer", {{"unmap", p.buffer.unmap != nullptr}}, "required by map");
  if (problem.empty() && p.stream.create)
    problem = missing("stream",
                      {{"destroy", p.stream.destroy != nullptr},
                       {"synchronize", p.stream.synchronize != nullptr},
                       {"wait", p.stream.wait != nullptr},
                       {"event_create", p.stream.event_create != nullptr},
                       {"event_record", p.stream.event_record != nullptr},
                       {"event_query", p.stream.event_query != nullptr},
                       {"event_sync", p.stream.event_sync != nullptr},
                       {"event_destroy", p.stream.event_destroy != nullptr}},
                      "required by create");
  if (problem.empty() && p.graph.create)
    problem = missing("graph",
                      {{"add_kernel", p.graph.add_kernel != nullptr},
                       {"commit", p.graph.commit != nullptr},
                       {"launch", p.graph.launch != nullptr},
                       {"destroy", p.graph.destroy != nullptr}},
                      "required by create");
  return problem;
}

std::string take_sub_tables(Plugin& p) {
  std::string problem = take_table("device", p.table.device, TOLK_LEAST(tolk_device_vt, caps), p.device);
  if (problem.empty())
    problem = take_table("buffer", p.table.buffer, TOLK_LEAST(tolk_buffer_vt, destroy), p.buffer);
  if (problem.empty())
    problem = take_table("stream", p.table.stream, TOLK_LEAST(tolk_stream_vt, copy_out), p.stream);
  if (problem.empty())
    problem = take_table("program", p.table.program, TOLK_LEAST(tolk_program_vt, launch), p.program);
  if (problem.empty() && p.table.graph)
    problem = take_table("graph", p.table.graph, TOLK_LEAST(tolk_graph_vt, struct_size), p.graph);
  return problem;
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
  if (std::string problem = take_table("plugin", table, TOLK_LEAST(tolk_plugin, device_open), plugin.table);
      !problem.empty())
    return problem;
  const tolk_plugin& t = plugin.table;
  if (!good_name(t.name))
    return std::string("plugin table: the name \"") + (t.name ? t.name : "(NULL)") +
           "\" is not of the form [A-Z][A-Z0-9_]{0,31}";
  for (const char* text : {t.display_name, t.vendor, t.version, t.compiler_id})
    if (!text) return "plugin table: display_name, vendor, version and compiler_id must not be NULL";
  if (std::string problem = take_sub_tables(plugin); !problem.empty()) return problem;
  if (std::string problem = check_entries(plugin); !problem.empty()) return problem;

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
  fill_plugin_table(plugin.table);
  fill_device_table(plugin.device);
  fill_buffer_table(plugin.buffer);
  fill_stream_table(plugin.stream);
  fill_program_table(plugin.program);
  fill_graph_table(plugin.graph);
  plugin.table.device = &plugin.device;
  plugin.table.buffer = &plugin.buffer;
  plugin.table.stream = &plugin.stream;
  plugin.table.program = &plugin.program;
  plugin.table.graph = &plugin.graph;
  return {};
}

std::unique_ptr<Plugin> load_plugin(PluginCandidate& candidate, const Interposer& interposer,
                                    std::chrono::milliseconds patience) {
  std::error_code ec;
  std::string path = std::filesystem::canonical(candidate.path, ec).string();
  if (ec) path = candidate.path;
  dlerror(); // NOLINT(concurrency-mt-unsafe): forgets an older message
  boost::dll::shared_library library;
  library.load(path, ec, boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local);
  if (!library.is_loaded()) {
    reject(candidate, CandidateState::Loader, loader_text(path));
    return nullptr;
  }
  auto owned = std::make_unique<boost::dll::shared_library>(std::move(library));
  boost::dll::shared_library& handle = *owned;
  {
    std::lock_guard lock(kept_for_ever().mutex);
    kept_for_ever().libraries.push_back(std::move(owned));
  }
  struct stat s{};
  if (stat(path.c_str(), &s) != 0 || s.st_ino != candidate.inode || s.st_dev != candidate.device_id) {
    reject(candidate, CandidateState::Unsafe, "the file was replaced while it was being loaded");
    return nullptr;
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
    std::lock_guard lock(kept_for_ever().mutex);
    kept_for_ever().hosts.push_back(std::move(plugin->host));
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
