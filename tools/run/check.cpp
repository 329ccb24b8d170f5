#include "check.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "tolk/base/error.h"
#include "tolk/base/text.h"
#include "tolk/onnx/reader.h"

namespace tolk::run {
namespace {

bool same_tensor(const io::HostTensor& a, const io::HostTensor& b) {
  return a.dtype == b.dtype && !a.is_string() && a.shape == b.shape && std::ranges::equal(a.bytes, b.bytes);
}

// The suite node-1.12 states bf16 outputs as their bits.
io::Value as_stated(const io::Value& expected, const io::Value& actual) {
  io::Value value = expected;
  bool stored_bits = value.kind == io::ValueKind::Tensor && actual.kind == io::ValueKind::Tensor &&
                     value.tensor.dtype == DType::U16 && actual.tensor.dtype == DType::BF16;
  if (stored_bits) value.tensor.dtype = DType::BF16;
  return value;
}

// Puts what the model gave last time in place of inputs that repeat what was expected then.
std::vector<std::string> chain(CaseSet& set, const std::vector<ExpectedOutput>& expected,
                               const std::vector<io::NamedValue>& actual) {
  std::vector<std::string> names;
  for (io::NamedValue& input : set.inputs) {
    if (input.value.kind != io::ValueKind::Tensor || input.value.tensor.count() < 2) continue;
    for (const ExpectedOutput& e : expected) {
      if (e.value.kind != io::ValueKind::Tensor || !same_tensor(input.value.tensor, e.value.tensor)) continue;
      for (const io::NamedValue& a : actual) {
        if (a.name != e.name || a.value.kind != io::ValueKind::Tensor ||
            a.value.tensor.shape != e.value.tensor.shape)
          continue;
        input.value = a.value;
        names.push_back(input.name);
      }
      break;
    }
  }
  return names;
}

OutputResult compare_output(const ExpectedOutput& expected, const std::vector<io::NamedValue>& actual,
                            bool types_only) {
  OutputResult result;
  result.name = expected.name;
  result.tolerance = expected.tolerance;
  auto found = std::ranges::find_if(actual, [&](const io::NamedValue& v) { return v.name == expected.name; });
  if (found == actual.end()) {
    result.comparison.equal = false;
    result.comparison.reason = "the model gave no such output";
    return result;
  }
  result.type = io::type_text(found->value);
  io::Value wanted = as_stated(expected.value, found->value);
  result.comparison = types_only ? io::compare_type(found->value, wanted)
                                 : io::compare(found->value, wanted, expected.tolerance);
  return result;
}

nlohmann::json output_json(const OutputResult& output) {
  const io::Comparison& c = output.comparison;
  nlohmann::json entry = {{"name", output.name},
                          {"type", output.type},
                          {"passed", c.equal},
                          {"text", io::comparison_text(c)},
                          {"rtol", output.tolerance.rtol},
                          {"atol", output.tolerance.atol}};
  if (!c.reason.empty() || c.count == 0) return entry;
  entry["mismatches"] = c.mismatches;
  entry["elements"] = c.count;
  // JSON knows no infinity; a difference that is not finite reads null.
  entry["worst"] = {{"at", c.where},
                    {"actual", c.actual},
                    {"expected", c.expected},
                    {"difference", c.difference},
                    {"allowed", c.allowed}};
  return entry;
}

// The distinct operators of the model's own graph; known even when one of them is not supported.
std::set<std::string> operators_of(const std::string& path) {
  std::set<std::string> names;
  for (const onnx::Node& node : onnx::read_model(path).graph.nodes) names.insert(node.op_type);
  return names;
}

std::string dump(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

} // namespace

bool SetResult::passed() const {
  return std::ranges::all_of(outputs, [](const OutputResult& o) { return o.comparison.equal; });
}

bool CaseResult::passed() const {
  return std::ranges::all_of(sets, [](const SetResult& s) { return s.passed(); });
}

std::string CaseResult::reason() const {
  for (const SetResult& set : sets)
    for (const OutputResult& output : set.outputs)
      if (!output.comparison.equal)
        return fmt::format("{}: output \"{}\": {}", set.name, output.name,
                           io::comparison_text(output.comparison));
  return "";
}

CaseResult check_case(const CaseFolder& folder, const LoadedModel& model, bool types_only) {
  CaseResult result;
  std::vector<ExpectedOutput> expected_before;
  std::vector<io::NamedValue> actual_before;
  for (size_t i = 0; i < folder.sets(); ++i) {
    CaseSet set = folder.read(i, model);
    SetResult outcome;
    outcome.name = set.name;
    if (folder.chained()) outcome.chained = chain(set, expected_before, actual_before);
    std::vector<io::NamedValue> actual = model.run(set.inputs);
    for (const ExpectedOutput& expected : set.outputs)
      outcome.outputs.push_back(compare_output(expected, actual, types_only));
    result.sets.push_back(std::move(outcome));
    expected_before = std::move(set.outputs);
    actual_before = std::move(actual);
  }
  return result;
}

std::string case_text(const CaseResult& result) {
  std::string text;
  size_t outputs = 0, failed = 0;
  for (const SetResult& set : result.sets) {
    text += fmt::format("{}  {}", set.passed() ? "PASS" : "FAIL", set.name);
    if (!set.chained.empty())
      text += fmt::format("  (state taken from the set before: {})", fmt::join(set.chained, ", "));
    text += "\n";
    for (const OutputResult& o : set.outputs) {
      text += fmt::format("      {}  {}  {}\n", printable(o.name), o.type, io::comparison_text(o.comparison));
      ++outputs;
      failed += !o.comparison.equal;
    }
  }
  if (failed == 0)
    return text +
           fmt::format("PASS  {}, {}\n", counted(result.sets.size(), "set"), counted(outputs, "output"));
  return text + fmt::format("FAIL  {} of {} outputs differ\n", failed, outputs);
}

std::string case_json(const std::string& folder, const LoadedModel& model, const CaseResult& result) {
  nlohmann::json sets = nlohmann::json::array();
  for (const SetResult& set : result.sets) {
    nlohmann::json outputs = nlohmann::json::array();
    for (const OutputResult& output : set.outputs) outputs.push_back(output_json(output));
    sets.push_back(
        {{"name", set.name}, {"passed", set.passed()}, {"chained", set.chained}, {"outputs", outputs}});
  }
  return dump({{"case", folder}, {"device", model.device}, {"passed", result.passed()}, {"sets", sets}}) +
         "\n";
}

void check_many(std::FILE* in, std::FILE* out, const Loader& load) {
  char* line = nullptr;
  size_t capacity = 0;
  for (ssize_t length = 0; (length = ::getline(&line, &capacity, in)) >= 0;) {
    std::string folder(line, static_cast<size_t>(length));
    while (!folder.empty() && (folder.back() == '\n' || folder.back() == '\r')) folder.pop_back();
    if (folder.empty()) continue;
    constexpr std::string_view mark = "types-only\t";
    bool types_only = folder.starts_with(mark);
    if (types_only) folder.erase(0, mark.size());
    nlohmann::json report = {{"case", folder}};
    auto start = std::chrono::steady_clock::now();
    try {
      CaseFolder files(folder);
      report["operators"] = operators_of(files.model_path());
      LoadedModel model = load(files.model_path());
      CaseResult result = check_case(files, model, types_only);
      report["status"] = result.passed() ? "pass" : "fail";
      report["reason"] = result.reason();
    } catch (const std::exception& e) {
      report["status"] = "error";
      report["reason"] = e.what();
    }
    report["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::fputs((dump(report) + "\n").c_str(), out);
    std::fflush(out);
  }
  std::free(line);
}

} // namespace tolk::run
