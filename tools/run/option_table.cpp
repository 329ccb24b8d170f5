#include "option_table.h"

#include <fmt/format.h>

#include <string_view>

#include "tolk/base/text.h"

namespace tolk::run {
namespace {

constexpr const char* kValues = "Values";
constexpr const char* kDevices = "Devices";
constexpr const char* kRuns = "Runs and output";
constexpr const char* kChecks = "Checks";
constexpr const char* kAbout = "About";

constexpr OptionRow kRows[] = {
    {"input", 0, "NAME=FILE", true, kValues,
     "Value of an input: a .npy file, a .pb file (ONNX TensorProto), or the array NAME of a .npz file. The "
     "text is split "
     "at its last \"=\". FILE alone: a .npz file gives every input that it names, another file the next "
     "input in order."},
    {"output", 0, "NAME=FILE", true, kValues,
     "Store an output as .npy or .pb, or together with others in one .npz file. A .npz FILE alone stores all "
     "outputs."},
    {"shape", 0, "NAME=SHAPE", true, kValues,
     "Shape of an input that is not given: 1x3x224x224; \"scalar\" for no dimensions."},
    {"dim", 0, "NAME=N", true, kValues,
     "Upper bound of a symbolic dimension of the model, and its size in inputs that are not given."},
    {"fill", 0, "NAME=LO..HI", true, kValues,
     "Range of the random values of an input: floats from LO up to HI, integers from LO to HI, both "
     "included. "
     "Without it floats are in -1..1, integers 0 or 1, bools fair."},
    {"seed", 0, "N", false, kValues,
     "Seed of the random values; 0 when not given. Equal seeds give equal values everywhere."},

    {"device", 0, "NAME", false, kDevices,
     "Device to run on, as in DEVICE=: CPU, CPU:1, VULKAN. It wins over the variable. One device; a list is "
     "refused."},
    {"plugin", 0, "FILE", true, kDevices, "Load this plugin; it precedes all others of its name."},
    {"plugin-option", 0, "PLUGIN.KEY=VALUE", true, kDevices,
     "Option of a plugin, for example CPU.threads=2."},
    {"list-devices", 0, nullptr, false, kDevices,
     "List plugins and devices. With -v also every searched folder and every candidate with the reason why "
     "it was not taken."},
    {"verbose", 'v', nullptr, false, kDevices, "More detail in --list-devices."},

    {"runs", 0, "N", false, kRuns,
     "Run N times, 1 when not given. The median is over all runs after the first, which also warms caches."},
    {"save", 0, "FILE", false, kRuns,
     "Store the compiled model - kernels, weights, plan - for the shapes of this run; FILE ends in .tolk. "
     "tolk-run FILE then runs it without importing or scheduling, and without compiling what the compile "
     "cache "
     "has. Refused for models "
     "whose shapes or branches depend on the values of inputs, for inputs that are texts, and for inputs or "
     "outputs that are sequences or optionals."},
    {"trust-code", 0, nullptr, false, kRuns,
     "Run the machine code that is stored in a saved model, which needs no compiler and no cache. Only for "
     "files "
     "that you would run as a program: the code can do whatever you can. Without it kernels come from your "
     "own "
     "compile cache or are compiled from their graphs."},
    {"json", 0, nullptr, false, kRuns,
     "Print one JSON object on standard output instead of text; also with --check, --replay, --list-devices "
     "and --env. "
     "Times are in "
     "seconds."},

    {"check", 0, "DIR", false, kChecks,
     "Run a case and compare: a folder with model.onnx and test_data_set_*, or with a case.json. Prints "
     "PASS, or for each "
     "output the worst difference, where it is, and the allowed one. Exit status 1 when something differs."},
    {"types-only", 0, nullptr, false, kChecks,
     "With --check: compare types and shapes, not values (random operators)."},
    {"check-many", 0, nullptr, false, kChecks,
     "Read case folders from standard input, one a line, and print one JSON object a line for each. A line "
     "that starts with "
     "\"types-only\" and a tab compares types and shapes only. scripts/onnx-cases works through this."},

    {"replay", 0, "FILE", false, kChecks,
     "Repeat what TOLK_LAYERS=record=FILE recorded, without the model, on a device of the same backend, and "
     "compare what comes "
     "back. A recording that breaks off, as a crash leaves it, is repeated as far as it goes. Exit status 1 "
     "when bytes "
     "differ."},

    {"env", 0, nullptr, false, kAbout, "Print every setting with its present value and meaning."},
    {"help", 'h', nullptr, false, kAbout, "Print this text."},
    {"version", 'V', nullptr, false, kAbout, "Print the version."},
};

constexpr const char* kUsage = "Usage: tolk-run MODEL.onnx [options]\n"
                               "       tolk-run MODEL.tolk [options]       a model stored by --save\n"
                               "       tolk-run --check DIR [options]\n"
                               "       tolk-run --replay FILE [options]\n"
                               "       tolk-run --list-devices | --env | --help | --version\n";
constexpr const char* kIntroduction =
    "Runs an ONNX model and prints a summary of its outputs and the times. Inputs that "
    "are not given are made from seeded random values.";
constexpr const char* kStatus = "Exit status: 0 all well, 1 a comparison failed, 2 everything else.";

struct Example {
  const char *command, *meaning;
};
constexpr Example kExamples[] = {
    {"tolk-run net.onnx", "random inputs, the best device found"},
    {"DEVICE=CPU tolk-run net.onnx --input x=image.npy --output y=scores.npy",
     "one input, one stored output"},
    {"tolk-run gpt.onnx --dim batch=2 --dim seq=16 --fill ids=0..96", "sizes and values for open dimensions"},
    {"tolk-run net.onnx --save net.tolk && tolk-run net.tolk", "compile once, start fast from then on"},
    {"tolk-run --check cases/test_relu", "compare with stored results"},
    {"tolk-run --list-devices -v", "why is my device not there?"},
};

// Words wrapped to `width` columns, each line after the first indented by `indent`.
std::string wrapped(std::string_view text, size_t indent, size_t width) {
  std::string out;
  size_t column = indent;
  while (!text.empty()) {
    size_t end = text.find(' ');
    std::string_view word = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (column > indent && column + 1 + word.size() > width) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

std::string usage_of(const OptionRow& row) {
  std::string text = row.letter ? fmt::format("-{}, ", row.letter) : std::string();
  text += fmt::format("--{}", row.name);
  return row.argument ? text + " " + row.argument : text;
}

} // namespace

std::span<const OptionRow> option_rows() { return kRows; }

std::string help_text() {
  constexpr size_t left = 36, width = 100;
  std::string text = fmt::format("{}\n{}\n", kUsage, wrapped(kIntroduction, 0, width));
  std::string_view group;
  for (const OptionRow& row : kRows) {
    if (group != row.group) text += fmt::format("\n{}:\n", group = row.group);
    text += fmt::format("  {:<{}}{}\n", usage_of(row), left - 2, wrapped(row.help, left, width));
  }
  text += "\nExamples:\n";
  for (const Example& e : kExamples) text += fmt::format("  {}\n      {}\n", e.command, e.meaning);
  return text + fmt::format("\n{}\n", kStatus);
}

std::string flags_page() {
  std::string text =
      fmt::format("# tolk-run\n\nGenerated from `tools/run/option_table.cpp`; a test fails when this page is "
                  "stale.\n\n```\n{}```\n\n{}\n\n{}\n",
                  kUsage, kIntroduction, kStatus);
  std::string_view group;
  for (const OptionRow& row : kRows) {
    if (group != row.group) text += fmt::format("\n## {}\n\n", group = row.group);
    text += fmt::format("- `{}`{}: {}\n", usage_of(row), row.repeats ? " (repeatable)" : "", row.help);
  }
  text += "\n## Examples\n\n";
  for (const Example& e : kExamples) text += fmt::format("- `{}`: {}\n", e.command, e.meaning);
  return text;
}

} // namespace tolk::run
