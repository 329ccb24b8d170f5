#include "tolk/loader/entries.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <string_view>

#include "tolk/loader/clamp.h"

namespace tolk {
namespace {

enum Table { plugin, device, buffer, stream, program, graph };
enum Need { MANDATORY, OPTIONAL, WITH_create, WITH_map };
constexpr const char* kNames[] = {"plugin", "device", "buffer", "stream", "program", "graph"};

struct EntryRow {
  Table table;
  std::string_view name;
  Need need;
  size_t offset; // in its table
};
#define TOLK_ENTRY(table, slot, entry, need, since, otherwise, result, parameters, arguments)                \
  {table, #entry, need, offsetof(std::remove_reference_t<decltype(PluginTables::TOLK_TABLE_##table)>, entry)},
constexpr EntryRow kEntries[] = {
#include <tolk/plugin/entries.def>
};
#undef TOLK_ENTRY

bool is_set(const void* table, const EntryRow& entry) {
  void (*function)() = nullptr;
  std::memcpy(&function, static_cast<const char*>(table) + entry.offset, sizeof function);
  return function != nullptr;
}

bool is_set(Table table, const void* copy, std::string_view name) {
  return std::any_of(std::begin(kEntries), std::end(kEntries), [&](const EntryRow& e) {
    return e.table == table && e.name == name && is_set(copy, e);
  });
}

// Bytes through the last mandatory entry.
size_t min_size(Table table) {
  size_t size = sizeof(uint32_t);
  for (const EntryRow& e : kEntries)
    if (e.table == table && e.need == MANDATORY) size = std::max(size, e.offset + sizeof(void (*)()));
  return size;
}

template <typename T> std::string copy_table(Table table, const T* from, T& to) {
  if (!from) return std::string("plugin table: ") + kNames[table] + " is NULL (mandatory)";
  uint32_t size = 0;
  std::memcpy(&size, from, sizeof size);
  if (size < min_size(table))
    return std::string(kNames[table]) + " table: struct_size is " + std::to_string(size) + ", at least " +
           std::to_string(min_size(table)) + " expected";
  to = clamp_copy(from);
  return {};
}

// The first entry that is missing though `why` demands it.
std::string missing_entry(Table table, const void* copy, Need need, const char* why) {
  for (const EntryRow& e : kEntries)
    if (e.table == table && e.need == need && !is_set(copy, e))
      return std::string(kNames[table]) + " table: " + std::string(e.name) + " is NULL (" + why + ")";
  return {};
}

std::string missing_entry(const PluginTables& t) {
  const std::pair<Table, const void*> tables[] = {{plugin, &t.table},    {device, &t.device},
                                                  {buffer, &t.buffer},   {stream, &t.stream},
                                                  {program, &t.program}, {graph, &t.graph}};
  std::string problem;
  for (const auto& [table, copy] : tables)
    if (problem.empty()) problem = missing_entry(table, copy, MANDATORY, "mandatory");
  for (const auto& [table, copy] : tables) {
    if (problem.empty() && is_set(table, copy, "map"))
      problem = missing_entry(table, copy, WITH_map, "required by map");
    if (problem.empty() && is_set(table, copy, "create"))
      problem = missing_entry(table, copy, WITH_create, "required by create");
  }
  return problem;
}

// Any non-null address does for an event that is always done.
tolk_event* done_event() {
  static char place;
  return reinterpret_cast<tolk_event*>(&place);
}

template <typename... T> void unused(const T&...) {}

} // namespace

std::string copy_tables(const tolk_plugin* from, PluginTables& to) {
  std::string problem = copy_table(plugin, from, to.table);
  if (problem.empty()) problem = copy_table(device, to.table.device, to.device);
  if (problem.empty()) problem = copy_table(buffer, to.table.buffer, to.buffer);
  if (problem.empty()) problem = copy_table(stream, to.table.stream, to.stream);
  if (problem.empty()) problem = copy_table(program, to.table.program, to.program);
  if (problem.empty() && to.table.graph) problem = copy_table(graph, to.table.graph, to.graph);
  return problem.empty() ? missing_entry(to) : problem;
}

void fill_tables(PluginTables& t) {
  const bool stream_create = t.stream.create, graph_create = t.graph.create, buffer_create = true;
  const bool buffer_map = t.buffer.map;
  unused(buffer_create);
#define TOLK_ANSWER(table, entry, otherwise, result, parameters, arguments)                                  \
  t.TOLK_TABLE_##table.entry = [] parameters -> result {                                                     \
    unused arguments;                                                                                        \
    return otherwise;                                                                                        \
  }
#define TOLK_FILL_MANDATORY(table, ...)
#define TOLK_FILL_OPTIONAL(table, entry, ...)                                                                \
  if (!t.TOLK_TABLE_##table.entry) TOLK_ANSWER(table, entry, __VA_ARGS__);
#define TOLK_FILL_WITH_create(table, entry, ...)                                                             \
  if (!table##_create) TOLK_ANSWER(table, entry, __VA_ARGS__);
#define TOLK_FILL_WITH_map(table, entry, ...)                                                                \
  if (!table##_map) TOLK_ANSWER(table, entry, __VA_ARGS__);
#define TOLK_ENTRY(table, slot, entry, need, since, otherwise, result, parameters, arguments)                \
  TOLK_FILL_##need(table, entry, otherwise, result, parameters, arguments)
#include <tolk/plugin/entries.def>
#undef TOLK_ENTRY
#undef TOLK_FILL_WITH_map
#undef TOLK_FILL_WITH_create
#undef TOLK_FILL_OPTIONAL
#undef TOLK_FILL_MANDATORY
#undef TOLK_ANSWER
  t.relink_tables();
}

} // namespace tolk
