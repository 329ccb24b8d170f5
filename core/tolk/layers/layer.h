// A layer sits between tolk and the tables of a plugin: it has one method per entry, which passes the call on
// unless the layer has something to do with it. Handles are the plugin's own everywhere.
#pragma once

#include <memory>
#include <string>

#include <tolk/plugin/tolk_plugin.h>

namespace tolk {

struct HostContext; // plugin_host.h

// What layers know about the plugin that they wrap.
struct LayerSubject {
  std::string name;
  HostContext* host = nullptr;
  bool has_streams = false;
  bool has_graph = false;
  bool device_synchronizes = false; // device.synchronize is the plugin's, not the host's answer for NULL
};

class Layer {
public:
  virtual ~Layer() = default;
  std::unique_ptr<Layer> next;

#define TOLK_ENTRY(table, slot, entry, need, since, otherwise, result, parameters, arguments)                \
  virtual result table##_##entry parameters { return next->table##_##entry arguments; }
#include <tolk/plugin/entries.def>
#undef TOLK_ENTRY
};

// Opens or starts the file of trace=FILE or record=FILE; throws DeviceError when that fails.
void open_trace(const std::string& place);
void open_recording(const std::string& place);

// `place` is the file of trace=FILE and record=FILE.
std::unique_ptr<Layer> make_validate_layer(const LayerSubject& subject);
std::unique_ptr<Layer> make_trace_layer(const LayerSubject& subject, const std::string& place);
std::unique_ptr<Layer> make_record_layer(const LayerSubject& subject, const std::string& place);

} // namespace tolk
