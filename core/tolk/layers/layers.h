// TOLK_LAYERS: tools between tolk and every plugin, for finding out which side of the interface is at fault.
//
//   TOLK_LAYERS=validate               misuse by either side is named with the call and the rule
//   TOLK_LAYERS=trace or trace=FILE    one line per call
//   TOLK_LAYERS=record=FILE            calls and data, for tolk-run --replay
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
#include "tolk/loader/plugin_loader.h"

namespace tolk {

struct LayerSetting {
  std::string name, place; // place: what stands after =, else empty
};
// Reads the setting's text. Throws InvalidArgument that lists the layers for an unknown or repeated name, for
// record without a file, for a file where none is taken, and for one file that two layers write.
TOLK_API std::vector<LayerSetting> parse_layers(std::string_view text);

// What load_plugin calls to put the layers in. Before the entry runs it opens their files and replaces the host functions that
// they watch; it throws DeviceError for a file that cannot be written. After loading it replaces the plugin's functions.
Interposer interposer_of(std::vector<LayerSetting> layers);

enum class LayerSide { Host, Plugin, Hint };

struct LayerRule {
  const char* id;
  LayerSide side;
  const char* calls;
  const char* sentence;
};
TOLK_API const std::vector<LayerRule>& layer_rules();

// What `validate` found. Each was also logged as an error, or as a warning when its side is Hint.
struct Violation {
  std::string rule, plugin, call, text;
  LayerSide side;
};
// Those since the last call, oldest first, at most 1,000. Any thread.
TOLK_API std::vector<Violation> take_layer_violations();

} // namespace tolk
