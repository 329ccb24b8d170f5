#include "case_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "inputs.h"
#include "tolk/base/error.h"
#include "tolk/io/mapped_file.h"
#include "tolk/io/npy.h"
#include "tolk/io/tensor_proto.h"

namespace tolk::run {
namespace fs = std::filesystem;
namespace {

// The K of "prefixK" or "prefixK.pb"; nothing for other names.
std::optional<uint64_t> index_of(const std::string& name, std::string_view prefix, std::string_view suffix) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix) || name.size() <= prefix.size() + suffix.size())
    return std::nullopt;
  std::string_view digits(name.data() + prefix.size(), name.size() - prefix.size() - suffix.size());
  uint64_t k = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), k);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return k;
}

// Entries "prefixK suffix" of a folder in the order of K.
std::vector<std::string> numbered(const fs::path& folder, std::string_view prefix, std::string_view suffix) {
  std::vector<std::pair<uint64_t, std::string>> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (std::optional<uint64_t> k = index_of(entry.path().filename(), prefix, suffix))
      found.emplace_back(*k, entry.path());
  std::sort(found.begin(), found.end());
  std::vector<std::string> paths;
  for (auto& [k, path] : found) paths.push_back(std::move(path));
  return paths;
}

// The declared value a file is for: by name, else the one in this place.
const onnx::ValueInfo* place_of(const std::vector<onnx::ValueInfo>& list, const std::string& name,
                                size_t position) {
  for (const onnx::ValueInfo& info : list)
    if (!name.empty() && info.name == name) return &info;
  return position < list.size() ? &list[position] : nullptr;
}

// The name that a .pb file states when it is one of these; other files state none.
std::string stated_name(const std::string& file, const std::vector<onnx::ValueInfo>& list) {
  if (!file.ends_with(".pb")) return "";
  // The file does not say what it holds. What reads as a tensor is one; sequences and optionals share their
  // form.
  std::string name;
  try {
    name = io::read_tensor_pb(file).name;
  } catch (const Error&) {
    try {
      name = io::read_value_pb(file, io::ValueKind::Sequence).name;
    } catch (const Error&) {
      return "";
    }
  }
  bool known = std::ranges::any_of(list, [&](const onnx::ValueInfo& info) { return info.name == name; });
  return known ? name : "";
}

// An expected output, as the file has it: what differs from the model's declaration is found by the
// comparison.
io::Value read_output(const onnx::ValueInfo& info, const std::string& file) {
  using Kind = onnx::Type::Kind;
  if (file.ends_with(".npy")) return io::read_npy(file, {info.type.dtype});
  if (!file.ends_with(".pb"))
    throw InvalidArgument(fmt::format("{}: expected values are .npy or .pb files", file));
  io::ValueKind kind = info.type.kind == Kind::Sequence   ? io::ValueKind::Sequence
                       : info.type.kind == Kind::Optional ? io::ValueKind::Optional
                                                          : io::ValueKind::Tensor;
  return io::read_value_pb(file, kind).value;
}

} // namespace

CaseFolder::CaseFolder(const std::string& folder) : folder_(folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored))
    throw InvalidArgument(fmt::format("{}: is not a folder; --check takes the folder of a case", folder));
  std::string json = (fs::path(folder) / "case.json").string();
  if (fs::exists(json, ignored)) {
    chained_ = true;
    read_json(json);
  } else {
    model_ = (fs::path(folder) / "model.onnx").string();
    find_onnx_sets();
  }
  if (!fs::exists(model_, ignored)) throw InvalidArgument(fmt::format("{}: there is no such model", model_));
  if (sets_.empty())
    throw InvalidArgument(
        fmt::format("{}: has neither test_data_set_* nor a case.json with sets: nothing to compare", folder));
  for (const SetRow& set : sets_)
    if (set.outputs.empty())
      throw InvalidArgument(
          fmt::format("{}: {} has no expected outputs: nothing to compare", folder, set.name));
}

CaseFolder::~CaseFolder() = default;

void CaseFolder::find_onnx_sets() {
  for (const std::string& path : numbered(folder_, "test_data_set_", "")) {
    SetRow set;
    set.name = fs::path(path).filename();
    for (const std::string& file : numbered(path, "input_", ".pb")) set.inputs.push_back({"", file, {}});
    for (const std::string& file : numbered(path, "output_", ".pb")) set.outputs.push_back({"", file, {}});
    sets_.push_back(std::move(set));
  }
}

void CaseFolder::read_json(const std::string& path) {
  using nlohmann::json;
  std::shared_ptr<const io::MappedFile> file = io::MappedFile::open(path);
  json document = json::parse(file->text(), nullptr, false);
  if (document.is_discarded()) throw FormatError(fmt::format("{}: is not a JSON document", path));
  auto bad = [&path](const std::string& what) { return FormatError(fmt::format("{}: {}", path, what)); };
  auto file_name = [&](const json& value, const char* what) {
    if (!value.is_string()) throw bad(fmt::format("{} must be the name of a file", what));
    return (fs::path(folder_) / value.get<std::string>()).string();
  };
  if (!document.is_object() || !document.contains("sets") || !document["sets"].is_array())
    throw bad("an object with a list \"sets\" was expected");
  model_ = document.contains("model") ? file_name(document["model"], "\"model\"")
                                      : (fs::path(folder_) / "model.onnx").string();
  size_t number = 0;
  for (const json& entry : document["sets"]) {
    SetRow set;
    set.name = fmt::format("set{}", number++);
    bool sound = entry.is_object() && entry.contains("inputs") && entry["inputs"].is_object() &&
                 entry.contains("outputs") && entry["outputs"].is_object();
    if (!sound) throw bad(fmt::format("{}: objects \"inputs\" and \"outputs\" were expected", set.name));
    for (const auto& [name, value] : entry["inputs"].items())
      set.inputs.push_back({name, file_name(value, "an input"), {}});
    for (const auto& [name, value] : entry["outputs"].items()) {
      bool plain = value.is_string();
      if (!plain && !(value.is_object() && value.contains("file")))
        throw bad(fmt::format("{}: output \"{}\" needs a \"file\"", set.name, name));
      FileRow row{name, file_name(plain ? value : value["file"], "an output's file"), {}};
      auto tolerance = [&](const char* key, double& into) {
        if (plain || !value.contains(key)) return;
        if (!value[key].is_number() || value[key].get<double>() < 0)
          throw bad(
              fmt::format("{}: \"{}\" of output \"{}\" must be a number of 0 or more", set.name, key, name));
        into = value[key].get<double>();
      };
      tolerance("rtol", row.tolerance.rtol);
      tolerance("atol", row.tolerance.atol);
      set.outputs.push_back(std::move(row));
    }
    sets_.push_back(std::move(set));
  }
}

CaseSet CaseFolder::read(size_t set, const LoadedModel& model) const {
  const SetRow& row = sets_[set];
  CaseSet result;
  result.name = row.name;
  std::vector<onnx::ValueInfo> inputs = model.inputs;
  inputs.insert(inputs.end(), model.optional_inputs.begin(), model.optional_inputs.end());
  for (size_t i = 0; i < row.inputs.size(); ++i) {
    const FileRow& f = row.inputs[i];
    const onnx::ValueInfo* info = place_of(inputs, f.name.empty() ? stated_name(f.file, inputs) : f.name, i);
    if (!info || (!f.name.empty() && info->name != f.name))
      throw InvalidArgument(fmt::format("{}: the model has no input for this value", f.file));
    result.inputs.push_back({info->name, read_input(*info, f.file, Rank::Any)});
  }
  for (size_t i = 0; i < row.outputs.size(); ++i) {
    const FileRow& f = row.outputs[i];
    const onnx::ValueInfo* info =
        place_of(model.outputs, f.name.empty() ? stated_name(f.file, model.outputs) : f.name, i);
    if (!info || (!f.name.empty() && info->name != f.name))
      throw InvalidArgument(fmt::format("{}: the model has no output for this value", f.file));
    result.outputs.push_back({info->name, read_output(*info, f.file), f.tolerance});
  }
  return result;
}

} // namespace tolk::run
