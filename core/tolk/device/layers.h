// TOLK_LAYERS: tools between tolk and every plugin, for finding out which side of the interface is at fault.
//
//   TOLK_LAYERS=validate               misuse by either side is named with the call and the rule
//   TOLK_LAYERS=trace or trace=FILE    one line per call
//   TOLK_LAYERS=record=FILE            calls and data, for replay_recording
//
// Several are separated by commas; the first stands nearest to tolk, the last nearest to the plugin. They are
// put in when a plugin is loaded. Without the setting a plugin's own functions stay in the tables.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <tolk/plugin/tolk_plugin.h>

#include "tolk/base/api.h"

namespace tolk {

class Device;
struct HostContext;
struct Plugin;

struct LayerSetting {
  std::string name, place; // place: what stands after =, else empty
};
// Reads the setting's text. Throws InvalidArgument that lists the layers for an unknown or repeated name, for
// record without a file, for a file where none is taken, and for one file that two layers write.
TOLK_API std::vector<LayerSetting> parse_layers(std::string_view text);

// Before the entry runs: files are opened, and the host functions that layers watch are replaced. Throws
// DeviceError for a file that cannot be written.
void prepare_host_for_layers(HostContext& host, const std::vector<LayerSetting>& layers);
// After adopt_table: replaces the functions in the plugin's tables. `original` is what the entry gave.
void wrap_in_layers(Plugin& plugin, const tolk_plugin* original, const std::vector<LayerSetting>& layers);

enum class LayerSide { Host, Plugin, Hint };

struct LayerRule {
  const char* id;
  LayerSide side;
  const char* calls;
  const char* sentence;
};
TOLK_API const std::vector<LayerRule>& layer_rules();

// What `validate` found, oldest first, at most 1,000 of them. Each was also logged as an error, or as a
// warning when its side is Hint.
struct Violation {
  std::string rule, plugin, call, text;
  LayerSide side;
};
TOLK_API std::vector<Violation> layer_violations();
TOLK_API void clear_layer_violations();

// What came of a replay.
struct Replay {
  uint64_t calls = 0;            // carried out
  uint64_t compared = 0;         // times that bytes came back and were held against the recorded ones
  uint64_t different = 0;        // of these, with other bytes
  std::string first_difference;  // where the first of them was
  std::vector<std::string> read; // the bytes, one element per comparison, when asked for
  std::string missing;           // with ReplayOptions::incomplete: where the recording breaks off, else empty
};
struct ReplayOptions {
  bool keep_bytes = false; // fill Replay::read
  bool incomplete = false; // take what is there of a recording that breaks off, as a crash leaves it
};
// Carries out the recorded calls of the plugin that `device` belongs to, on `device` and, where the recording
// used several, on the devices of the same plugin with the recorded indices. Throws FormatError for a file
// that is damaged, cut off or no recording, InvalidArgument when it has no call of that plugin, DeviceError
// when a call fails that had succeeded.
TOLK_API Replay replay_recording(const std::string& file, Device& device, ReplayOptions options = {});

} // namespace tolk
