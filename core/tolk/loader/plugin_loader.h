// A loaded plugin: its tables copied to full size, every optional entry that was NULL replaced by the host's
// answer. Libraries stay mapped for the life of the process.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include <tolk/plugin/tolk_plugin.h>

#include "tolk/loader/entries.h"
#include "tolk/loader/plugin_search.h"

namespace tolk {

struct HostContext; // plugin_host.h

struct Plugin : PluginTables {
  std::string name, display_name, vendor, version, compiler_id;
  std::string path; // empty when built in
  PluginOrigin origin = PluginOrigin::BuiltIn;
  uint32_t abi_minor = 0, flags = 0;
  void* self = nullptr;

  // The tables, complete: every entry can be called. See fill_tables in entries.h.
  bool synchronous = true; // has no streams: NULL stands for the only one
  bool has_compile = false, has_graph = false, has_memory = false;

  std::shared_ptr<void> layers;      // of TOLK_LAYERS, see layers.h; null without
  std::unique_ptr<HostContext> host; // what its host table's ctx points to
  bool shut_down = false;

  // Held around every call of a plugin that asked for TOLK_PLUGIN_SERIALIZE; empty for others.
  std::unique_lock<std::recursive_mutex> serialize() const {
    return flags & TOLK_PLUGIN_SERIALIZE ? std::unique_lock(serial_)
                                         : std::unique_lock<std::recursive_mutex>();
  }
  Plugin();
  ~Plugin();

private:
  mutable std::recursive_mutex serial_;
};

// What stands between the core and a plugin's tables, as core/tolk/layers does. Empty functions do nothing.
struct Interposer {
  std::function<void(HostContext&)> before_entry; // may replace functions of the host's table
  // After adopt_table: may replace functions of the plugin's tables. The second argument is the table of the entry.
  std::function<void(Plugin&, const tolk_plugin*)> after_load;
};

// Loads an acceptable candidate. On success its state is Loaded and its name is the table's; on failure the
// state and the reason say why and the result is null. Runs foreign code on a thread of its own, which is
// left behind when the entry takes longer than `patience`.
std::unique_ptr<Plugin> load_plugin(PluginCandidate& candidate, const Interposer& interposer = {},
                                    std::chrono::milliseconds patience = std::chrono::milliseconds(5000));

// Checks a table that an entry handed over and fills the copies. Returns the problem ("program table: launch
// is NULL (mandatory)") and its state, or an empty text. Used for built-in plugins as well.
std::string adopt_table(Plugin& plugin, const tolk_plugin* table, CandidateState& state);

} // namespace tolk
