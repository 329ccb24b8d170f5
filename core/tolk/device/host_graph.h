// Where a DeviceGraph records its nodes: the plugin's graph table, or the host's, which has the same entries.
#pragma once

#include <tolk/plugin/tolk_plugin.h>

#include "tolk/device/graph.h"

namespace tolk {

struct GraphTable {
  const tolk_graph_vt* entries;
  GraphAbility ability;
  uint32_t update_flags;                  // of TOLK_GRAPH_UPDATE_*
  tolk_device* (*device)(Device& device); // what the entries take as a device,
  tolk_buffer* (*buffer)(Storage& block); // and as a buffer
};

// The plugin's own; only for devices whose plugin has graphs.
GraphTable plugin_graph_table(const Device& device);
// The host's: it keeps the nodes and submits them one by one, on the compute streams of their devices. Its devices are
// Device objects and its buffers Storage objects; kernels and streams are the plugin's.
GraphTable host_graph_table(const Device& device);

} // namespace tolk
