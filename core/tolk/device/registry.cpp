#include "tolk/device/registry.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <memory>
#include <mutex>

#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/device/host_backend.h"
#include "tolk/layers/layers.h"
#include "tolk/loader/clamp.h"
#include "tolk/loader/fork_guard.h"
#include "tolk/loader/plugin_host.h"
#include "tolk/loader/plugin_loader.h"
#include "tolk/loader/status.h"

namespace tolk {
namespace {

struct Registry {
  // Held while plugins are loaded and devices opened: both happen rarely and must happen once.
  std::recursive_mutex mutex;
  std::vector<std::string> files; // load_plugin_file, in order of preference
  PluginSearch search;
  std::vector<PluginCandidate> judged; // what was loaded or refused by loading, ever
  bool searched = false, closed = false;
  std::vector<std::unique_ptr<Plugin>> plugins;                        // in order of loading
  std::vector<std::unique_ptr<Plugin>> unused;                         // loaded, but the name was taken
  std::map<std::string, std::unique_ptr<Device>, std::less<>> devices; // by canonical name
  std::unique_ptr<Plugin> host_plugin;
  std::unique_ptr<Device> host;
  std::string found_default;
};

// Never destroyed: a buffer in a static object may outlive everything else.
Registry& registry() {
  static auto* r = new Registry;
  return *r;
}

struct NameParts {
  std::string name, suffix; // suffix without the colon
};

NameParts split_name(std::string_view text) {
  size_t colon = text.find(':');
  NameParts parts{std::string(text.substr(0, colon)),
                  colon == text.npos ? "" : std::string(text.substr(colon + 1))};
  for (char& c : parts.name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (parts.name.empty()) throw InvalidArgument("empty device name in \"" + std::string(text) + "\"");
  if (colon != text.npos && parts.suffix.empty())
    throw InvalidArgument("empty suffix in \"" + std::string(text) + "\"");
  return parts;
}

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

void search_again(Registry& r) {
  r.search = search_plugins(r.files);
  r.searched = true;
  // What was loaded or refused by loading keeps its verdict: an entry is called once per process.
  for (PluginCandidate& now : r.search.candidates)
    for (const PluginCandidate& before : r.judged)
      if (before.path == now.path && before.inode == now.inode && before.device_id == now.device_id &&
          now.state == CandidateState::Found)
        now = before;
}

void search_once(Registry& r) {
  if (!r.searched) search_again(r);
}

Plugin* loaded_plugin(Registry& r, std::string_view name) {
  for (const auto& p : r.plugins)
    if (p->name == name) return p.get();
  return nullptr;
}

// Loads a candidate that is still in state Found; null when it is refused.
Plugin* try_load(Registry& r, PluginCandidate& candidate) {
  if (candidate.state != CandidateState::Found) return nullptr;
  auto taken = [&](std::string_view name) {
    const Plugin* other = loaded_plugin(r, name);
    if (!other) return false;
    candidate.state = CandidateState::Duplicate;
    candidate.reason = "the name is taken by " + other->path + "; use --plugin to prefer this one";
    return true;
  };
  if (candidate.stamped && taken(candidate.name)) return nullptr;
  std::unique_ptr<Plugin> plugin =
      load_plugin(candidate, interposer_of(parse_layers(Config::current().layers)));
  Plugin* result = nullptr;
  if (plugin && !taken(plugin->name)) {
    result = plugin.get();
    r.plugins.push_back(std::move(plugin));
  } else if (plugin) {
    r.unused.push_back(std::move(plugin)); // its entry ran and may have kept the host table
  }
  r.judged.push_back(candidate);
  return result;
}

// Those whose file or stamp carries the name first, then those that say nothing about themselves.
Plugin* find_among_candidates(Registry& r, const std::string& name) {
  for (bool anonymous : {false, true})
    for (PluginCandidate& c : r.search.candidates) {
      if (anonymous ? c.stamped : c.name != name) continue;
      Plugin* p = try_load(r, c);
      if (p && p->name == name) return p;
    }
  return nullptr;
}

Plugin* find_plugin(Registry& r, const std::string& name) {
  if (Plugin* p = loaded_plugin(r, name)) return p;
  search_once(r);
  if (Plugin* p = find_among_candidates(r, name)) return p;
  // The file may have come since, or the search path changed.
  search_again(r);
  return find_among_candidates(r, name);
}

// Where was looked and what was refused, for the message about a device that does not exist.
std::string search_text(const Registry& r) {
  std::string text = "Searched directories:";
  if (r.search.directories.empty()) text += " none";
  for (const SearchedDirectory& d : r.search.directories)
    text += "\n  " + d.path + " (" + origin_name(d.origin) + "): " +
            (!d.problem.empty()
                 ? d.problem
                 : std::to_string(d.candidates) + (d.candidates == 1 ? " candidate" : " candidates"));
  std::string rejected, usable;
  for (const PluginCandidate& c : r.search.candidates) {
    if (c.state == CandidateState::Found || c.state == CandidateState::Loaded)
      usable += (usable.empty() ? "" : ", ") + c.name;
    else
      rejected += "\n  " + c.path + ": " + c.reason;
  }
  text += "\nRejected candidates:" + (rejected.empty() ? " none" : rejected);
  return text + "\nDevices that exist: " + (usable.empty() ? "none" : usable);
}

uint32_t count_devices(Plugin& plugin) {
  watch_for_fork();
  uint32_t count = 0;
  auto serial = plugin.serialize();
  check_status(plugin.table.device_count(plugin.self, &count), plugin.name, "counting devices");
  return count;
}

tolk_device_info device_record(Plugin& plugin, uint32_t index) {
  const tolk_device_info* record = nullptr;
  auto serial = plugin.serialize();
  check_status(plugin.table.device_info(plugin.self, index, &record), plugin.name, "device information");
  if (!record) throw PluginError(plugin.name + ": device_info succeeded but gave no record");
  tolk_device_info info = clamp_copy(record);
  for (const char** text : {&info.name, &info.description, &info.arch, &info.driver_version})
    if (!*text) *text = "";
  return info;
}

std::string uuid_text(const tolk_device_info& info) {
  std::string text;
  for (uint8_t b : info.uuid) {
    static constexpr char kDigits[] = "0123456789abcdef";
    text += kDigits[b >> 4];
    text += kDigits[b & 15];
  }
  return text;
}

std::string bare_hex(std::string_view text) {
  std::string out;
  for (char c : text)
    if (c != '-') out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string index_name(const std::string& name, uint32_t index) {
  return index == 0 ? name : name + ":" + std::to_string(index);
}

// Index that a suffix stands for; checked against what the plugin has.
uint32_t resolve_index(Plugin& plugin, const std::string& name, const std::string& suffix) {
  uint32_t count = count_devices(plugin);
  if (count == 0)
    throw DeviceError("no device " + name + ": the plugin " + plugin.path + " is loaded but finds no device");
  if (suffix.empty()) return 0;
  if (!all_digits(suffix)) {
    for (uint32_t i = 0; i < count; i++) {
      tolk_device_info info = device_record(plugin, i);
      if (suffix.starts_with("pci=") && info.pci_id && suffix.substr(4) == info.pci_id) return i;
      if (suffix.starts_with("uuid=") && bare_hex(suffix.substr(5)) == uuid_text(info)) return i;
    }
    throw DeviceError("no device " + name + ":" + suffix + ": none of the " + std::to_string(count) +
                      " devices of " + name + " has that identity; --list-devices -v shows them");
  }
  uint32_t index = 0;
  auto [end, code] = std::from_chars(suffix.data(), suffix.data() + suffix.size(), index);
  tolk_device_info last = device_record(plugin, count - 1);
  const bool extra =
      (last.kind == TOLK_KIND_CPU || last.kind == TOLK_KIND_NULL) && (last.flags & TOLK_DEVICE_REOPENABLE);
  if (code != std::errc() || (index >= count && !extra))
    throw DeviceError("no device " + name + ":" + suffix + ": the index is out of range, " + name + " has " +
                      std::to_string(count) + (count == 1 ? " device" : " devices"));
  return index;
}

int kind_rank(uint32_t kind) {
  switch (kind) {
  case TOLK_KIND_DISCRETE_GPU:
    return 0;
  case TOLK_KIND_INTEGRATED_GPU:
    return 1;
  case TOLK_KIND_ACCELERATOR:
    return 2;
  case TOLK_KIND_CPU:
    return 3;
  default:
    return -1;
  }
}

// Candidates that may be the default device, highest priority first. The first of a name stands for it, since that is the
// one that the name loads.
std::vector<PluginCandidate> default_candidates(const Registry& r) {
  std::vector<PluginCandidate> first;
  for (const PluginCandidate& c : r.search.candidates) {
    if (c.state != CandidateState::Found && c.state != CandidateState::Loaded) continue;
    if (std::none_of(first.begin(), first.end(), [&](const auto& other) { return other.name == c.name; }))
      first.push_back(c);
  }
  std::erase_if(first, [](const PluginCandidate& c) { return c.default_priority == 0; });
  std::stable_sort(first.begin(), first.end(),
                   [](const auto& a, const auto& b) { return a.default_priority > b.default_priority; });
  return first;
}

std::string best_default(Registry& r) {
  search_once(r);
  std::string best;
  int best_rank = 4;
  for (const PluginCandidate& candidate : default_candidates(r)) {
    Plugin* plugin = find_plugin(r, candidate.name);
    if (!plugin || plugin->path != candidate.path || (plugin->flags & TOLK_PLUGIN_TEST_ONLY)) continue;
    try {
      uint32_t count = count_devices(*plugin);
      for (uint32_t i = 0; i < count; i++) {
        int rank = kind_rank(device_record(*plugin, i).kind);
        if (rank >= 0 && rank < best_rank) {
          best_rank = rank;
          best = index_name(plugin->name, i);
        }
      }
    } catch (const Error& e) {
      log::debug(1, std::string("not a default device: ") + e.what());
    }
  }
  if (best.empty())
    throw DeviceError("no device is usable by default, and DEVICE= names none.\n" + search_text(r));
  return best;
}

// A sentence per option that does nothing. `used`: leave out plugins that are not in use, which ask for
// nothing.
std::vector<std::string> option_problems(Registry& r, bool used) {
  std::vector<std::string> problems;
  const std::vector<UnaskedOption> unasked = unasked_plugin_options();
  if (unasked.empty() && r.devices.empty()) return problems;
  search_once(r);
  std::vector<std::string> names;
  for (const PluginCandidate& c : r.search.candidates)
    if (std::find(names.begin(), names.end(), c.name) == names.end()) names.push_back(c.name);
  auto list = [](const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
    return text.empty() ? std::string("none") : text;
  };
  for (const UnaskedOption& o : unasked) {
    std::string key = o.key;
    for (char& c : key) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const std::string option = "the plugin option " + o.plugin + "." + key + " does nothing: ";
    if (std::find(names.begin(), names.end(), o.plugin) == names.end() && !loaded_plugin(r, o.plugin)) {
      problems.push_back(option + "there is no plugin " + o.plugin + "; there are " + list(names));
      continue;
    }
    const bool in_use = std::any_of(r.devices.begin(), r.devices.end(),
                                    [&](const auto& d) { return d.second->plugin().name == o.plugin; });
    if (used && !in_use) continue;
    problems.push_back(option + o.plugin + " has not asked for it; what it asked for is " +
                       list(asked_plugin_options(o.plugin)));
  }
  // Variables of the form TOLK_<plugin>_* are that plugin's own: whether one means anything shows when it was in use.
  for (const std::string& plugin : names) {
    if (std::none_of(r.devices.begin(), r.devices.end(),
                     [&](const auto& d) { return d.second->plugin().name == plugin; }))
      continue;
    std::vector<std::string> others, asked = asked_plugin_options(plugin);
    std::copy_if(names.begin(), names.end(), std::back_inserter(others),
                 [&](const std::string& name) { return name != plugin; });
    const std::string prefix = "TOLK_" + plugin + "_";
    for (const std::string& text : unknown_variables(others)) {
      std::string name = text.substr(0, text.find(';'));
      if (!name.starts_with(prefix)) continue;
      std::string key = name.substr(prefix.size());
      for (char& c : key) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      if (std::find(asked.begin(), asked.end(), key) != asked.end()) continue;
      problems.push_back("the variable " + name + " does nothing: " + plugin +
                         " has not asked for it; what it asked for is " + list(asked));
    }
  }
  return problems;
}

} // namespace

std::string canonical_device_name(std::string_view text) {
  NameParts p = split_name(text);
  if (p.suffix.empty()) return p.name;
  if (all_digits(p.suffix)) {
    size_t first = p.suffix.find_first_not_of('0');
    return first == std::string::npos ? p.name : p.name + ":" + p.suffix.substr(first);
  }
  if (p.name != "DISK" && !p.suffix.starts_with("pci=") && !p.suffix.starts_with("uuid="))
    throw InvalidArgument("device \"" + std::string(text) +
                          "\": after the colon comes an index, pci=... or uuid=...");
  return p.name + ":" + p.suffix;
}

std::vector<std::string> parse_device_list(std::string_view text) {
  std::vector<std::string> names;
  while (true) {
    size_t comma = text.find(',');
    std::string name = canonical_device_name(text.substr(0, comma));
    std::string kind = name.substr(0, name.find(':'));
    if (kind == "HOST" || kind == "DISK")
      throw DeviceError("DEVICE=" + name + ": " + kind +
                        " holds data and runs nothing; name a device that computes");
    names.push_back(std::move(name));
    if (comma == text.npos) return names;
    text.remove_prefix(comma + 1);
  }
}

std::string default_device() {
  const Config& config = Config::current();
  if (!config.device.empty()) return parse_device_list(config.device).front();
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  if (r.found_default.empty()) r.found_default = best_default(r);
  return r.found_default;
}

std::vector<std::string> default_devices() {
  const Config& config = Config::current();
  if (!config.device.empty()) return parse_device_list(config.device);
  return {default_device()};
}

Device& device(std::string_view text) {
  std::string name = canonical_device_name(text);
  if (name == "HOST") return host_device();
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  if (auto it = r.devices.find(name); it != r.devices.end()) {
    it->second->require_usable();
    return *it->second;
  }
  if (in_forked_child())
    throw DeviceError("device " + name + ": tolk was initialised before fork; use spawn or fork earlier");
  if (r.closed) throw DeviceError("device " + name + ": the devices were shut down");
  NameParts parts = split_name(name);
  if (parts.name == "DISK")
    throw DeviceError("device " + name + ": files are read through HOST buffers; there is no DISK device");
  Plugin* plugin = find_plugin(r, parts.name);
  if (!plugin) throw DeviceError("no device " + parts.name + ": no plugin provides it.\n" + search_text(r));
  uint32_t index = resolve_index(*plugin, parts.name, parts.suffix);
  std::string canonical = index_name(parts.name, index);
  auto& slot = r.devices[canonical]; // pci= and uuid= names lead to the device of that index
  if (!slot) {
    try {
      slot = std::make_unique<Device>(*plugin, index, canonical);
    } catch (...) {
      r.devices.erase(canonical);
      throw;
    }
  }
  return *slot;
}

Device* find_open_device(std::string_view text) {
  std::string name = canonical_device_name(text);
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  if (name == "HOST") return r.host.get();
  auto it = r.devices.find(name);
  return it == r.devices.end() ? nullptr : it->second.get();
}

std::vector<Device*> open_devices() {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  std::vector<Device*> open;
  if (r.host && r.host->alive()) open.push_back(r.host.get());
  for (auto& [name, device] : r.devices)
    if (device && device->alive()) open.push_back(device.get());
  return open;
}

Device& host_device() {
  static Device& host = [&]() -> Device& {
    Registry& r = registry();
    std::lock_guard lock(r.mutex);
    r.host_plugin = std::make_unique<Plugin>();
    r.host_plugin->host = std::make_unique<HostContext>("HOST");
    CandidateState state;
    if (std::string problem = adopt_table(*r.host_plugin, host_backend_table(), state); !problem.empty())
      throw InternalError("HOST: " + problem);
    r.host = std::make_unique<Device>(*r.host_plugin, 0, "HOST");
    return *r.host;
  }();
  return host;
}

PluginReport discover() {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  if (!r.closed) search_again(r);
  for (PluginCandidate& c : r.search.candidates)
    if (!r.closed) try_load(r, c);
  PluginReport report{r.search.directories, {}, {}};
  for (const PluginCandidate& c : r.search.candidates) {
    PluginEntry& entry = report.plugins.emplace_back();
    static_cast<PluginCandidate&>(entry) = c;
    Plugin* plugin = c.state == CandidateState::Loaded ? loaded_plugin(r, c.name) : nullptr;
    if (!plugin) continue;
    entry.display_name = plugin->display_name;
    entry.version = plugin->version;
    entry.compiler_id = plugin->compiler_id;
    entry.test_only = plugin->flags & TOLK_PLUGIN_TEST_ONLY;
    if (r.closed) continue;
    try {
      uint32_t count = count_devices(*plugin);
      for (uint32_t i = 0; i < count; i++)
        entry.devices.push_back({index_name(plugin->name, i), device_record(*plugin, i)});
    } catch (const Error& e) {
      entry.device_problem = e.what();
    }
  }
  report.option_problems = option_problems(r, false);
  return report;
}

std::string load_plugin_file(const std::string& path) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  if (r.closed) throw PluginError(path + ": the devices were shut down");
  r.files.insert(r.files.begin(), path);
  search_again(r);
  PluginCandidate& candidate = r.search.candidates.front();
  if (candidate.state == CandidateState::Loaded) return candidate.name;
  try_load(r, candidate);
  if (candidate.state == CandidateState::Loaded) return candidate.name;
  r.files.erase(r.files.begin());
  throw PluginError("plugin " + candidate.path + ": " + candidate.reason);
}

const void* plugin_extension(std::string_view plugin_name, const char* name, uint32_t version) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  if (r.closed) throw DeviceError("plugin " + std::string(plugin_name) + ": the devices were shut down");
  Plugin* plugin = find_plugin(r, std::string(plugin_name));
  if (!plugin)
    throw DeviceError("no device " + std::string(plugin_name) + ": no plugin provides it.\n" +
                      search_text(r));
  const void* table = nullptr;
  auto serial = plugin->serialize();
  tolk_status status = plugin->table.get_extension(plugin->self, name, version, &table);
  if (status < 0) take_error_text(status);
  return status < 0 ? nullptr : table;
}

void set_plugin_option(std::string_view key, std::string_view value) {
  size_t dot = key.find('.');
  if (dot == key.npos || dot == 0 || dot + 1 == key.size())
    throw InvalidArgument("plugin option \"" + std::string(key) +
                          "\" is not of the form NAME.option, such as CPU.threads");
  store_plugin_option(key.substr(0, dot), key.substr(dot + 1), value);
}

void shutdown_devices() {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  if (r.closed || in_forked_child()) return;
  try {
    for (const std::string& problem : option_problems(r, true)) log::warning(problem);
  } catch (const std::exception& e) { // devices are closed all the same
    log::warning(std::string("plugin options: ") + e.what());
  }
  r.closed = true;
  // Work of one device may still read buffers of another: all of it ends before anything is destroyed.
  for (auto& [name, device] : r.devices) device->settle();
  for (auto& [name, device] : r.devices) device->close();
  if (r.host) r.host->close();
  for (auto it = r.plugins.rbegin(); it != r.plugins.rend(); ++it) {
    Plugin& plugin = **it;
    auto serial = plugin.serialize();
    plugin.table.shutdown(plugin.self);
    plugin.shut_down = true;
    if (uint64_t left = plugin.host->live_allocations; left != 0)
      log::debug(1, plugin.name + ": " + std::to_string(left) + " host allocations were not freed");
  }
}

} // namespace tolk
