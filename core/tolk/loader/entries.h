// A plugin's tables as data: what follows from the rows of tolk/plugin/entries.def.
#pragma once

#include <string>

#include <tolk/plugin/tolk_plugin.h>

namespace tolk {

// Full-size copies of a plugin's tables. Each is reached directly, and through the pointers in `table` once they are
// linked: relink_tables() comes after every copy or change of address.
struct PluginTables {
  tolk_plugin table{};
  tolk_device_vt device{};
  tolk_buffer_vt buffer{};
  tolk_stream_vt stream{};
  tolk_program_vt program{};
  tolk_graph_vt graph{};

  void relink_tables() {
    table.device = &device;
    table.buffer = &buffer;
    table.stream = &stream;
    table.program = &program;
    table.graph = &graph;
  }
};

// The member of PluginTables for a table of entries.def.
#define TOLK_TABLE_plugin table
#define TOLK_TABLE_device device
#define TOLK_TABLE_buffer buffer
#define TOLK_TABLE_stream stream
#define TOLK_TABLE_program program
#define TOLK_TABLE_graph graph

// Copies the tables that `from` leads to, as far as their sizes say; what lies beyond is NULL. Returns the problem, such as
// "program table: launch is NULL (mandatory)", or an empty string.
std::string copy_tables(const tolk_plugin* from, PluginTables& to);

// Replaces every entry that is NULL by the host's answer, and links the tables. What needs to know the device
// (copy, fill, map, import) answers TOLK_E_UNSUPPORTED, and Buffer does it by copies; the rest is complete here. A stream
// table without `create` becomes a synchronous device: events are always done.
void fill_tables(PluginTables& tables);

} // namespace tolk
