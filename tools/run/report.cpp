#include "report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tolk/base/text.h"
#include "tolk/io/summary.h"

namespace tolk::run {
namespace {

struct Time {
  const char* key;
  std::string label;
  double seconds;
};

// The median stands there when there were runs after the first.
std::vector<Time> times_of(const RunReport& report) {
  const onnx::Timings& t = report.timings;
  std::vector<Time> times = {{"import", "import", t.import / 1e3},
                             {"schedule", "schedule", t.schedule / 1e3},
                             {"compile", "compile", t.compile / 1e3},
                             {"first_run", "first run", t.first_run / 1e3}};
  if (!t.runs.empty())
    times.push_back({"median_run",
                     t.runs.size() == 1
                         ? "second run"
                         : fmt::format("median {} of {}", t.rebuilds ? "call" : "run", t.runs.size()),
                     median_run(t) / 1e3});
  return times;
}

// The first line goes beside the name, the items of a sequence below.
void add_value(TextTable& table, const std::string& name, const io::Value& value, const std::string& beside) {
  std::string text = io::summary_text(value);
  size_t end = text.find('\n');
  std::string first = text.substr(0, end);
  table.add_row({printable(name), io::type_text(value), beside.empty() ? first : first + "  " + beside});
  while (end != std::string::npos) {
    size_t start = end + 1;
    end = text.find('\n', start);
    table.add_row({"", "", text.substr(start, end - start)});
  }
}

// A number where JSON has it; NaN and infinities as text.
nlohmann::ordered_json number_json(const std::string& text) {
  nlohmann::ordered_json number = nlohmann::ordered_json::parse(text, nullptr, false);
  return number.is_discarded() ? nlohmann::ordered_json(text) : number;
}

nlohmann::ordered_json value_json(const io::Value& value) {
  nlohmann::ordered_json entry;
  if (value.kind != io::ValueKind::Tensor) {
    entry["kind"] = value.kind == io::ValueKind::Sequence ? "sequence"
                    : value.kind == io::ValueKind::Map    ? "map"
                                                          : "optional";
    entry["items"] = nlohmann::ordered_json::array();
    for (const io::Value& item : value.items) entry["items"].push_back(value_json(item));
    return entry;
  }
  const io::HostTensor& tensor = value.tensor;
  io::Summary s = io::summarize(tensor);
  entry = {{"dtype", io::type_name(tensor)}, {"shape", tensor.shape}, {"elements", tensor.count()}};
  entry["first"] = nlohmann::ordered_json::array();
  for (uint64_t i = 0; i < s.first.size(); ++i) {
    if (tensor.is_string())
      entry["first"].push_back(tensor.strings[i]);
    else
      entry["first"].push_back(number_json(s.first[i]));
  }
  if (tensor.is_string()) return entry;
  if (s.finite) entry.update({{"min", s.min}, {"max", s.max}, {"mean", s.mean}});
  entry["nan"] = s.nan;
  entry["infinite"] = s.infinite;
  return entry;
}

} // namespace

double median_run(const onnx::Timings& timings) {
  std::vector<double> runs = timings.runs;
  if (runs.empty()) return 0;
  size_t middle = runs.size() / 2;
  std::nth_element(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(middle), runs.end());
  if (runs.size() % 2 == 1) return runs[middle];
  double below = *std::max_element(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(middle));
  return (below + runs[middle]) / 2;
}

std::string report_text(const RunReport& report) {
  std::string text = fmt::format("{} on {}\n", printable(report.model), report.device);
  if (!report.inputs.empty()) {
    TextTable inputs({"input", "type", "values"});
    for (const InputValue& input : report.inputs)
      add_value(inputs, input.name, input.value, fmt::format("({})", input.source));
    text += "\n" + inputs.text();
  }
  for (const std::string& note : report.notes) text += fmt::format("note: {}\n", note);
  TextTable outputs({"output", "type", "values"});
  for (const io::NamedValue& output : report.outputs) {
    auto stored = report.stored.find(output.name);
    add_value(outputs, output.name, output.value,
              stored == report.stored.end() ? "" : fmt::format("-> {}", stored->second));
  }
  text += "\n" + outputs.text();
  TextTable times({"time", ""});
  times.align(1, TextTable::Align::Right);
  for (const Time& t : times_of(report)) times.add_row({t.label, human_seconds(t.seconds)});
  return text + "\n" + times.text();
}

std::string report_json(const RunReport& report) {
  nlohmann::ordered_json document = {
      {"model", report.model}, {"device", report.device}, {"runs", report.runs}};
  document["inputs"] = nlohmann::ordered_json::array();
  for (const InputValue& input : report.inputs) {
    nlohmann::ordered_json entry = {{"name", input.name}, {"source", input.source}};
    entry.update(value_json(input.value));
    document["inputs"].push_back(entry);
  }
  document["outputs"] = nlohmann::ordered_json::array();
  for (const io::NamedValue& output : report.outputs) {
    nlohmann::ordered_json entry = {{"name", output.name}};
    entry.update(value_json(output.value));
    auto stored = report.stored.find(output.name);
    if (stored != report.stored.end()) entry["file"] = stored->second;
    document["outputs"].push_back(entry);
  }
  document["notes"] = report.notes;
  for (const Time& t : times_of(report)) document["times"][t.key] = t.seconds;
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

} // namespace tolk::run
