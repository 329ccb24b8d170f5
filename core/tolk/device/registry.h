// Devices by name.
//
//   Device& cpu = device("CPU");                 // opened at first use, the same object ever after
//   Device& second = device("cpu:1");            // names are not case-sensitive; CPU:0 is CPU
//   for (const std::string& name : default_devices()) device(name);   // of DEVICE=, else the best device found
//
// All functions may be called from any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/device/device.h"
#include "tolk/loader/plugin_search.h"

namespace tolk {

// NAME[:SUFFIX] in its one spelling: NAME upper case, an index without leading zeros, ":0" dropped. SUFFIX is
// digits, pci=... or uuid=... (for DISK: any text). Knows nothing of what exists. Throws InvalidArgument.
TOLK_API std::string canonical_device_name(std::string_view name);

// A comma-separated list as in DEVICE=; canonical names. Throws InvalidArgument for an empty element or bad
// suffix and DeviceError for HOST and DISK, which hold data and run nothing.
TOLK_API std::vector<std::string> parse_device_list(std::string_view text);

// The device to use when none is named: the first of DEVICE=, else the best one of the plugins in tolk/plugins beside libtolk
// whose stamps have a default priority: a discrete GPU, an integrated GPU, an accelerator, a CPU; among equals that of the
// higher priority. The choice is made once. Throws DeviceError when there is none.
TOLK_API std::string default_device();
// All of DEVICE=, else the default alone.
TOLK_API std::vector<std::string> default_devices();

// Opens on first use. Throws InvalidArgument for bad syntax; DeviceError when no plugin provides the name
// (the message lists every searched directory and every rejected candidate with its reason), when the index
// is out of range, when opening fails (not remembered: a later call tries again), after shutdown_devices, and
// in a forked child.
TOLK_API Device& device(std::string_view name);
// The device when it is open, else null; never opens or loads.
TOLK_API Device* find_open_device(std::string_view name);
// Every open device that is alive, HOST too when it is in use.
TOLK_API std::vector<Device*> open_devices();
// Plain host memory, built in; kernels do not run on it.
TOLK_API Device& host_device();

// One line of --list-devices.
struct DeviceEntry {
  std::string name; // as DEVICE= takes it
  tolk_device_info info;
};
struct PluginEntry : PluginCandidate {
  std::string display_name, version, compiler_id;
  bool test_only = false;
  std::string device_problem; // why the devices could not be counted
  std::vector<DeviceEntry> devices;
};
struct PluginReport {
  std::vector<SearchedDirectory> directories;
  std::vector<PluginEntry> plugins; // every candidate, in search order
  // Options given with set_plugin_option that name no plugin, or that their plugin has not asked for so far.
  std::vector<std::string> option_problems;
};
// Loads every acceptable candidate and counts its devices; opens none. report.h has it as text.
TOLK_API PluginReport discover();

// Adds a file that precedes every other plugin of its name, and loads it. Returns the device name. The path
// may be relative; the ownership rules are waived, since the caller named it. Throws PluginError with the
// reason.
TOLK_API std::string load_plugin_file(const std::string& path);

// A table of the plugin beyond the plugin interface (tolk_plugin.get_extension), or null when the plugin has
// none of that name and version. Loads the plugin; throws DeviceError when nothing provides it.
TOLK_API const void* plugin_extension(std::string_view plugin, const char* name, uint32_t version);

// Value of a plugin's option, `key` being NAME.option as in --plugin-option CPU.threads=2. Must come before
// the plugin asks. Throws InvalidArgument when there is no dot. shutdown_devices warns of options that name
// no plugin, and of those that a plugin whose devices were used never asked for.
TOLK_API void set_plugin_option(std::string_view key, std::string_view value);

// Waits for every device, frees caches, buffers and programs, closes the devices and calls each plugin's
// shutdown in reverse order of loading. Buffers and programs that still live become harmless shells.
// Idempotent; nothing can be opened afterwards.
TOLK_API void shutdown_devices();

} // namespace tolk
