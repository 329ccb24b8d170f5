// Writes the generated pages of docs/ to standard output: tolk_docgen PAGE. Tables come from the code's own
// tables.
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "tolk/base/config.h"
#include "tolk/base/text.h"
#include "tolk/dtype/dtype.h"
#include "tolk/uop/ops.h"
#include "tolk/uop/spec_internal.h"

namespace {

using tolk::DType;
using tolk::TextTable;

std::string code(std::string_view text) { return "`" + std::string(text) + "`"; }

std::string environment_page() {
  TextTable table({"name", "meaning", "values", "default", "changes code"});
  for (const tolk::ConfigRow& row : tolk::config_rows())
    table.add_row({code(row.name), std::string(row.help), row.range.empty() ? row.type : row.range,
                   row.fallback.empty() ? "" : code(row.fallback), row.affects_codegen ? "yes" : ""});
  std::string refused, accepted;
  for (const tolk::LaterRow& row : tolk::later_rows())
    (row.refused ? refused : accepted) += "- " + code(row.name) + ": " + std::string(row.why) + ".\n";
  return "# Settings\n"
         "\n"
         "Generated from `core/tolk/base/config_vars.def`; a test fails when this page is stale.\n"
         "\n"
         "Each is read from the environment once, at first use; code overrides it with `ScopedConfig`. "
         "`tolk-run --env` prints the values in force. A value that is not a number or out of range is an "
         "error that names the variable. In a process with elevated privileges all of them read as unset. A "
         "setting that changes generated code is part of the key of every compiled kernel.\n"
         "\n" +
         table.markdown() +
         "\n"
         "Not supported yet, and an error when set to anything but 0:\n\n" +
         refused + "\nNot supported yet, accepted, with a note of `tolk-run` when set:\n\n" + accepted +
         "\n"
         "Also read: `DEV`, an alias of `DEVICE`; `XDG_CACHE_HOME` and `HOME`, for the default of "
         "`TOLK_CACHE_DIR`. The options of a plugin are settings of the form `TOLK_<PLUGIN>_<OPTION>`, which "
         "its "
         "own page lists, such as `TOLK_VULKAN_VALIDATE` in `../vulkan.md`. Any other variable that begins "
         "with `TOLK_` gives a warning, with the nearest known name.\n";
}

std::string op_kind(tolk::Op op) {
  const std::pair<tolk::OpSet, const char*> kinds[] = {
      {tolk::ops::Unary, "unary"},        {tolk::ops::Binary, "binary"},
      {tolk::ops::Ternary, "ternary"},    {tolk::ops::Commutative, "commutative"},
      {tolk::ops::Compare, "comparison"}, {tolk::ops::FloatFunction, "floats"},
      {tolk::ops::Movement, "movement"},  {tolk::ops::Storage, "storage"},
      {tolk::ops::Effect, "effect"}};
  std::string text;
  for (const auto& [set, word] : kinds)
    if (set.has(op)) text += (text.empty() ? "" : ", ") + std::string(word);
  return text;
}

std::string op_table() {
  using tolk::Stage;
  const Stage stages[] = {Stage::TensorGraph, Stage::KernelGraph, Stage::Kernel, Stage::Lowered};
  TextTable table({"op", "sources", "kind", "T", "G", "K", "L", "meaning"});
  for (int i = 0; i < tolk::kOpCount; ++i) {
    auto op = static_cast<tolk::Op>(i);
    const tolk::OpInfo& info = tolk::op_info(op);
    std::string sources = std::to_string(info.min_sources);
    if (info.max_sources < 0)
      sources += " or more";
    else if (info.max_sources != info.min_sources)
      sources += " to " + std::to_string(info.max_sources);
    std::vector<std::string> row{code(info.name), sources, op_kind(op)};
    for (Stage stage : stages) row.emplace_back(tolk::spec::admitted(stage).has(op) ? "x" : "");
    row.emplace_back(info.meaning);
    table.add_row(std::move(row));
  }
  return table.markdown();
}

std::string rule_table(const std::vector<tolk::spec::Rule>& rules) {
  TextTable table({"rule", "what must hold"});
  for (const tolk::spec::Rule& rule : rules) table.add_row({code(rule.name), rule.message});
  return table.markdown() + "\n";
}

std::vector<DType> dtypes() {
  std::vector<DType> all;
  for (int i = 0; i < tolk::kDTypeCount; ++i) all.push_back(static_cast<DType>(i));
  return all;
}

std::string dtype_table() {
  TextTable table({"dtype", "bits", "kind", "mask bit", "sum in", "float functions in", "exactly held by"});
  for (DType d : dtypes()) {
    std::string holders;
    for (DType to : dtypes())
      if (to != d && tolk::lossless_cast(d, to))
        holders += (holders.empty() ? "" : " ") + std::string(name(to));
    const char* kind = is_bool(d)     ? "truth value"
                       : is_float(d)  ? "float"
                       : is_signed(d) ? "signed integer"
                                      : "unsigned integer";
    table.add_row({code(name(d)), std::to_string(bits(d)), kind, std::to_string(static_cast<int>(d)),
                   name(tolk::sum_dtype(d)), name(tolk::least_float(d)), holders});
  }
  return table.markdown();
}

std::string promotion_table() {
  std::vector<std::string> headings{""};
  for (DType d : dtypes()) headings.push_back(code(name(d)));
  TextTable table(headings);
  for (DType a : dtypes()) {
    std::vector<std::string> row{code(name(a))};
    for (DType b : dtypes()) row.emplace_back(name(tolk::promote(a, b)));
    table.add_row(std::move(row));
  }
  return table.markdown();
}

std::string uop_page() {
  return "# The graph\n"
         "\n"
         "Generated by `tests/lint/docgen.cpp` from `core/tolk/uop/ops.def`, the tables of the verifier and "
         "the promotion lattice; a test fails when this page is stale.\n"
         "\n"
         "There is one node type, `UOp`, at every stage from tensor expressions to the kernel before it is "
         "linearized. A node consists of an operation, a dtype, a number of lanes, sources and an argument, "
         "and is immutable. Equal nodes are the same node, so comparing two graphs is comparing two "
         "pointers. `core/tolk/uop/uop.h` describes the lifetime of nodes.\n"
         "\n"
         "## Operations\n"
         "\n"
         "The columns T, G, K and L mark the stages at which an operation may occur: the tensor graph, the "
         "list of calls that scheduling makes of it, a kernel, and a lowered kernel. PROGRAM (a kernel with "
         "its code) and CUSTOM_FUNCTION (a batch that is replayed as a graph) occur in compiled lists only.\n"
         "\n" +
         op_table() +
         "\n"
         "## Stages\n"
         "\n"
         "`verify(root, stage)` checks a graph against these rules. In builds with `TOLK_VERIFY` (all "
         "presets "
         "except release and quick) it runs after every pass, so a faulty pass is found where it went wrong. "
         "The error names the stage, the rule and the node.\n"
         "\n"
         "### At every stage\n"
         "\n" +
         rule_table(tolk::spec::shared_rules()) +
         "### Tensor graph (T)\n"
         "\n"
         "What `Tensor` builds. Values have shapes; elementwise operands have equal shapes, or shape ().\n"
         "\n" +
         rule_table(tolk::spec::tensor_rules()) +
         "### Calls (G)\n"
         "\n"
         "What scheduling gives: LINEAR of CALLs. The bodies of calls are verified as kernels.\n"
         "\n" +
         rule_table(tolk::spec::kernel_graph_rules()) +
         "### Kernel (K)\n"
         "\n"
         "SINK over END(STORE(PARAM, index, value [, gate]), RANGE...). Indices and gates are `index` "
         "arithmetic with floor semantics. Besides the rules below, every loop is closed once, its variable "
         "is not used outside, and axes and parameters have one number each.\n"
         "\n" +
         rule_table(tolk::spec::kernel_rules()) +
         "### Lowered kernel (L)\n"
         "\n"
         "After opts, expansion and decomposition: vectors, no `index`, no REDUCE. What follows is the flat "
         "kernel form of `plugin_api/include/tolk/plugin/kernel_ir.h`.\n"
         "\n" +
         rule_table(tolk::spec::lowered_rules()) +
         "## Element types\n"
         "\n"
         "The list is `plugin_api/include/tolk/plugin/dtypes.def`, in the order of the masks of the plugin "
         "interface. Two more types never reach memory: `index`, unbounded integers of loop and shape "
         "arithmetic, and `void`, which effects have. Numpy's and ONNX's names are read as well.\n"
         "\n" +
         dtype_table() +
         "\n"
         "Tensors have elements of 8 bits or more; narrower types occur in files, and are widened while "
         "reading.\n"
         "\n"
         "## Promotion\n"
         "\n"
         "`promote(a, b)` is the least type above both in the lattice of `core/tolk/dtype/promotion.cpp`. An "
         "integer with a float gives that float. i64 with u64 gives the default float, f32. `index` promotes "
         "with nothing else. There are no types for literals: see decision 0001.\n"
         "\n" +
         promotion_table();
}

struct LayerRow {
  const char *id, *side, *calls, *sentence;
};
constexpr const char *HOST = "tolk", *PLUGIN = "plugin", *HINT = "plugin, a hint";
constexpr LayerRow kLayerRules[] = {
#define TOLK_LAYER_RULE(id, side, calls, sentence) {#id, side, calls, sentence},
#include "tolk/layers/rules.def"
#undef TOLK_LAYER_RULE
};

std::string layers_page() {
  std::string page =
      "# Layers around plugins\n"
      "\n"
      "Generated by `tests/lint/docgen.cpp` from `core/tolk/layers/rules.def`; a test fails when this "
      "page is stale.\n"
      "\n"
      "`TOLK_LAYERS` puts tools between Tolk and the functions of every plugin that is loaded. It is a list: "
      "the first stands nearest to Tolk, the last nearest to the plugin. Without it the plugin's own "
      "functions are called, and nothing is paid.\n"
      "\n"
      "| layer | what it does |\n"
      "|---|---|\n"
      "| `validate` | holds both sides to the rules of the interface, below |\n"
      "| `trace`, `trace=FILE` | writes a line per call: thread, plugin, arguments, status, results, "
      "nanoseconds |\n"
      "| `record=FILE` | writes every call that succeeded, with its data, so that it can be repeated |\n"
      "\n"
      "The built-in HOST has no layers around it. At most 16 plugins of a process are wrapped. Handles reach "
      "a plugin as it made them.\n"
      "\n"
      "## validate\n"
      "\n"
      "Keeps a list of what is alive, what was submitted where, and what is known to be complete. A call "
      "that breaks a rule of Tolk's side does not reach the plugin: it answers `TOLK_E_INVALID`, and the "
      "caller gets an InternalError. A call in which the plugin breaks a rule answers `TOLK_E_INTERNAL`, "
      "and the caller gets a PluginError. Both carry the call, the rule and what was found, and are logged "
      "as an error; hints are logged as warnings and change nothing. Destroying in the wrong order is "
      "logged and left undone. In a program, `take_layer_violations()` of `tolk/layers/layers.h` has the "
      "list.\n"
      "\n"
      "Work counts as complete when somebody could know it: a wait or a blocking copy came back, an event "
      "was done, a timed launch returned, or a stream that waited for it was.\n"
      "\n"
      "A call costs some microseconds more. `tests/unit/layers/rules_test.cpp` breaks every rule once.\n"
      "\n";
  for (const auto& [side, heading] :
       {std::pair{HOST, "### What Tolk must do"}, std::pair{PLUGIN, "### What a plugin must do"},
        std::pair{HINT, "### Hints"}}) {
    TextTable table({"rule", "calls", "what holds"});
    for (const LayerRow& row : kLayerRules)
      if (std::strcmp(row.side, side) == 0) table.add_row({code(row.id), row.calls, row.sentence});
    page += std::string(heading) + "\n\n" + table.markdown() + "\n";
  }
  return page +
         "## trace\n"
         "\n"
         "    tolk: trace: [1] CPU buffer.create(device=d1, desc={device, 4096 bytes, usage 15}) -> OK, b7  "
         "1834 ns\n"
         "\n"
         "The number in brackets is the thread, in order of its first call. Objects are a letter and a "
         "number "
         "in order of appearance (`d`evice, `b`uffer, `s`tream, `e`vent, `p`rogram, `k`ernel, `g`raph), so "
         "that two runs differ in times and addresses only; a range is `b7[0..4096]`. In a file the lines "
         "have no "
         "`tolk: trace: `, and each is written before the next call: the last line names the call before a "
         "crash. When the file cannot be written any further, as on a full disk, a warning says so once and "
         "the "
         "run goes on.\n"
         "\n"
         "## record\n"
         "\n"
         "A recording has every buffer, program, copy, launch, graph, event and wait in the order in which "
         "the plugin saw them, the binaries, what the host wrote, and keys of what came back. Equal data is "
         "stored once. Memory that the host sees through a map or an import is looked at before each call "
         "that uses it and after each that writes it. Calls are held one at a time meanwhile, waits "
         "excepted, "
         "and copies in the background are made to wait. Compilation is not recorded; its result is.\n"
         "\n"
         "`tolk-run --replay FILE` repeats the calls on a device of the same backend, in any "
         "process, "
         "and counts the places where other bytes come back; a program calls `replay_recording` "
         "(`tolk/device/replay.h`). A file that "
         "was cut off or changed is a FormatError. What a crash leaves breaks off, maybe inside a record: "
         "with "
         "`ReplayOptions::incomplete` the calls before that are repeated, and `Replay::missing` says where "
         "it "
         "was.\n"
         "\n"
         "A recording is as private as the data that the program computed with: it has the weights and the "
         "inputs.\n";
}

struct Page {
  const char* name;
  std::string (*text)();
};
constexpr Page kPages[] = {{"env", environment_page}, {"uop", uop_page}, {"layers", layers_page}};

} // namespace

int main(int count, char** arguments) {
  for (const Page& page : kPages)
    if (count == 2 && std::strcmp(arguments[1], page.name) == 0) {
      std::fputs(page.text().c_str(), stdout);
      return 0;
    }
  std::fputs("usage: tolk_docgen env | uop | layers\n", stderr);
  return 2;
}
