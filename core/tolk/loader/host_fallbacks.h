// The host's answer for every optional entry that a plugin left NULL. What needs to know the device (copy,
// fill, map, import) answers TOLK_E_UNSUPPORTED, and Buffer does it by copies; the rest is complete here.
#pragma once

#include <tolk/plugin/tolk_plugin.h>

namespace tolk {

void fill_plugin_table(tolk_plugin& table);
void fill_device_table(tolk_device_vt& table);
void fill_buffer_table(tolk_buffer_vt& table);
// A table without `create` gets a synchronous device: events are always done.
void fill_stream_table(tolk_stream_vt& table);
void fill_program_table(tolk_program_vt& table);
// Without `create` every entry refuses.
void fill_graph_table(tolk_graph_vt& table);

} // namespace tolk
