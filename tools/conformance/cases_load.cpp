// Conformance cases on the library file and its table, before a device is opened.
#include "session.h"

#include <cstring>
#include <elf.h>
#include <fmt/format.h>
#include <regex>

#include "case.h"
#include "elf_file.h"
#include "tolk/loader/status.h"

namespace conformance {
namespace {

void symbol(Session& s) {
  uint32_t entries = 0;
  for (const ElfSymbol& symbol : exported_symbols(s.path())) entries += symbol.name == "tolk_plugin_entry_v1";
  expect(entries == 1, "one exported symbol tolk_plugin_entry_v1", std::to_string(entries));
}

void exports(Session& s) {
  for (const ElfSymbol& symbol : exported_symbols(s.path()))
    expect(symbol.name.starts_with("tolk_plugin_entry_v"), "no exported symbol but the entry",
           symbol.name + "; hide it: -fvisibility=hidden, --exclude-libs,ALL or a version script");
}

void unique(Session& s) {
  for (const ElfSymbol& symbol : exported_symbols(s.path()))
    expect(symbol.binding != STB_GNU_UNIQUE, "no unique-binding symbol", symbol.name + "; -fno-gnu-unique");
}

void needed(Session& s) {
  for (const std::string& library : needed_libraries(s.path()))
    expect(!library.starts_with("libtolk"), "no dependency on a library of tolk", library);
}

void execstack(Session& s) {
  expect(!has_executable_stack(s.path()), "a stack that is not executable", "PT_GNU_STACK with the flag X");
  expect(!has_text_relocations(s.path()), "no text relocations", "DT_TEXTREL; compile with -fPIC");
}

void names(Session& s) {
  const tolk::Plugin& p = s.plugin();
  expect(std::regex_match(p.name, std::regex("[A-Z][A-Z0-9_]{0,31}")),
         "a name of the form [A-Z][A-Z0-9_]{0,31}", p.name);
  expect(!p.version.empty(), "a version", "an empty text");
  expect(!p.vendor.empty(), "a vendor", "an empty text");
  expect(!p.compiler_id.empty(), "a compiler_id", "an empty text");
}

void stamp(Session& s) {
  const tolk::PluginCandidate c = tolk::inspect_plugin_file(s.path(), tolk::PluginOrigin::File);
  if (!c.stamped) throw Skipped{"a stamp"};
  expect(c.name == s.plugin().name, "the name of the table in the stamp: " + s.plugin().name, c.name);
  expect(c.abi_minor == s.plugin().abi_minor, fmt::format("ABI minor {} in the stamp", s.plugin().abi_minor),
         std::to_string(c.abi_minor));
}

template <class T> void size_is(const char* name, const T* table) {
  expect(table->struct_size <= sizeof(T),
         fmt::format("struct_size of the {} table at most {} for ABI minor 0", name, sizeof(T)),
         std::to_string(table->struct_size));
  expect(table->struct_size % 8 == 0, fmt::format("struct_size of the {} table a multiple of 8", name),
         std::to_string(table->struct_size));
}

// The host has refused a plugin without its mandatory entries; what remains is what it accepts silently.
void mandatory(Session& s) {
  const tolk_plugin* t = s.table();
  if (t->abi_minor > TOLK_ABI_MINOR) throw Skipped{"a table of a minor that this program knows"};
  size_is("plugin", t), size_is("device", t->device), size_is("buffer", t->buffer);
  size_is("stream", t->stream), size_is("program", t->program);
  if (t->graph) size_is("graph", t->graph);
}

void pairs(Session& s) {
  const tolk::PluginTables& t = s.raw();
  expect(!t.buffer.map == !t.buffer.unmap, "map and unmap both or none", "one of them");
  if (!t.stream.create)
    expect(!t.stream.destroy && !t.stream.event_create && !t.stream.wait,
           "no stream entries without stream.create", "some");
  if (!t.graph.create)
    expect(!t.graph.launch && !t.graph.commit, "no graph entries without graph.create", "some");
}

// Bytes of every table before and after a session.
void table_constant(Session& s) {
  const tolk::PluginTables before = s.raw();
  s.open();
  {
    auto buffer = s.buffer(64);
  }
  s.close();
  tolk::PluginTables after;
  const std::string problem = tolk::copy_tables(s.table(), after);
  expect(problem.empty(), "the tables as they were after a session", problem);
  auto same = [](const auto& a, const auto& b) { return std::memcmp(&a, &b, sizeof a) == 0; };
  expect(same(before.device, after.device) && same(before.buffer, after.buffer) &&
             same(before.stream, after.stream) && same(before.program, after.program) &&
             same(before.graph, after.graph),
         "tables that never change", "other bytes after a session");
}

void extension_unknown(Session& s) {
  const void* table = &s;
  const tolk_status status =
      s.plugin().table.get_extension(s.plugin().self, "tolk.conformance.unknown", 1, &table);
  expect(status == TOLK_E_NOT_FOUND, "TOLK_E_NOT_FOUND from get_extension of an unknown name",
         tolk::status_name(status)); // an answer, not a failure: it needs no sentence
  expect(table == &s, "an untouched result", "another pointer");
}

constexpr Case kCases[] = {
    {"load.symbol", Tier::Required, kNothing, symbol},
    {"load.exports", Tier::Required, kNothing, exports},
    {"load.unique", Tier::Required, kNothing, unique},
    {"load.needed", Tier::Required, kNothing, needed},
    {"load.execstack", Tier::Required, kNothing, execstack},
    {"load.names", Tier::Required, kNothing, names},
    {"load.stamp", Tier::Optional, kNothing, stamp},
    {"load.mandatory", Tier::Required, kNothing, mandatory},
    {"load.pairs", Tier::Required, kNothing, pairs},
    {"load.table_constant", Tier::Required, kNothing, table_constant},
    {"abi.extension_unknown", Tier::Required, kNothing, extension_unknown},
};

} // namespace

std::span<const Case> load_cases() { return kCases; }

} // namespace conformance
