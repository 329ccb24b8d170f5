// The host's side of tolk_host: one context per plugin.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <tolk/plugin/host.h>

namespace tolk {

struct HostContext {
  tolk_host table{};
  std::string name; // what log lines and options use: from the file, the stamp, finally the plugin's table
  std::string compiler_id;
  std::atomic<uint64_t> live_allocations{0}, live_bytes{0};
  std::mutex mutex;
  std::map<std::string, std::string, std::less<>> options; // strings returned by config_get, by key
  std::string cache_folder;
  bool cache_folder_known = false;

  explicit HostContext(std::string name);
  HostContext(const HostContext&) = delete;
  HostContext& operator=(const HostContext&) = delete;
};

// The bytes that a plugin returned in a blob; frees the blob. Null gives an empty string.
std::string take_blob(tolk_blob* blob);

// Options of all plugins; see set_plugin_option in registry.h. Names and keys in any case.
void store_plugin_option(std::string_view plugin, std::string_view key, std::string_view value);

// Stored options that no plugin has asked for yet, upper case.
struct UnaskedOption {
  std::string plugin, key;
};
std::vector<UnaskedOption> unasked_plugin_options();
// Names of options that the plugin has asked for, set or not, lower case and sorted.
std::vector<std::string> asked_plugin_options(std::string_view plugin);

// What tolk_host.cancelled answers from now on.
void set_cancelled(bool cancelled);

} // namespace tolk
