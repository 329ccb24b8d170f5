#include "outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tolk/base/error.h"
#include "tolk/base/text.h"
#include "tolk/io/npy.h"
#include "tolk/io/npz.h"
#include "tolk/io/tensor_proto.h"

namespace tolk::run {
namespace {

const io::HostTensor& tensor_of(const io::NamedValue& output, const std::string& file) {
  const io::Value* value = &output.value;
  while (value->kind == io::ValueKind::Optional && !value->items.empty()) value = &value->items.front();
  if (value->kind != io::ValueKind::Tensor)
    throw InvalidArgument(fmt::format("{}: output \"{}\" is a {}, only tensors can be stored", file,
                                      output.name, io::type_text(output.value)));
  return value->tensor;
}

} // namespace

void check_outputs(const std::vector<onnx::ValueInfo>& outputs, const std::vector<NamedFile>& files) {
  std::vector<std::string> names;
  for (const onnx::ValueInfo& info : outputs) names.push_back(info.name);
  std::set<std::pair<std::string, std::string>> seen;
  for (const NamedFile& f : files) {
    bool archive = f.file.ends_with(".npz");
    if (!archive && !f.file.ends_with(".npy") && !f.file.ends_with(".pb"))
      throw InvalidArgument(
          fmt::format("--output {}: the ending says how to store, and .npy, .npz and .pb are known", f.file));
    if (f.name.empty() && !archive && outputs.size() != 1)
      throw InvalidArgument(
          fmt::format("--output {}: the model has {} outputs; name one (NAME={}) or store all in a .npz file",
                      f.file, outputs.size(), f.file));
    if (!f.name.empty() && std::ranges::find(names, f.name) == names.end()) {
      std::string near = nearest_word(f.name, names);
      throw InvalidArgument(fmt::format("--output: there is no output \"{}\"{}; the outputs are {}", f.name,
                                        near.empty() ? "" : fmt::format(", did you mean \"{}\"?", near),
                                        join(names, ", ")));
    }
    if (!seen.emplace(archive ? f.name : "", f.file).second)
      throw InvalidArgument(fmt::format("--output: {} would be written twice", f.file));
  }
}

std::map<std::string, std::string> store_outputs(const std::vector<io::NamedValue>& outputs,
                                                 const std::vector<NamedFile>& files) {
  std::map<std::string, std::string> stored;
  std::map<std::string, std::vector<io::NamedTensor>> archives;
  for (const NamedFile& f : files) {
    for (const io::NamedValue& output : outputs) {
      if (!f.name.empty() && output.name != f.name) continue;
      const io::HostTensor& tensor = tensor_of(output, f.file);
      stored[output.name] = f.file;
      if (f.file.ends_with(".npz"))
        archives[f.file].push_back({output.name, tensor});
      else if (f.file.ends_with(".npy"))
        io::write_npy(f.file, tensor);
      else
        io::write_tensor_pb(f.file, tensor, output.name);
    }
  }
  for (const auto& [file, tensors] : archives) io::write_npz(file, tensors);
  return stored;
}

} // namespace tolk::run
