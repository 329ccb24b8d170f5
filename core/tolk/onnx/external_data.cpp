#include "tolk/onnx/external_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "tolk/base/error.h"

namespace tolk::onnx {
namespace fs = std::filesystem;

ExternalData::ExternalData(const std::string& model_path) : model_path_(model_path) {}

std::shared_ptr<const io::MappedFile> ExternalData::file(const std::string& location,
                                                         const io::Place& place) {
  if (auto it = files_.find(location); it != files_.end()) return it->second;
  auto refuse = [&](const std::string& why) {
    return ImportError(
        fmt::format("{}: the external data file \"{}\" {}", io::place_text(place), location, why));
  };
  fs::path relative(location);
  if (relative.is_absolute() || location.find('\0') != std::string::npos)
    throw refuse("is not relative to the model's folder");
  if (std::ranges::any_of(relative, [](const fs::path& part) { return part == ".."; }))
    throw refuse("leads out of the model's folder");

  std::error_code error;
  fs::path folder = fs::canonical(
      fs::path(model_path_).parent_path().empty() ? "." : fs::path(model_path_).parent_path(), error);
  if (error) throw refuse("cannot be looked up: " + error.message());
  fs::path real = fs::canonical(folder / relative, error);
  if (error) throw refuse(fmt::format("cannot be opened in {}: {}", folder.string(), error.message()));
  auto [end, unused] = std::mismatch(folder.begin(), folder.end(), real.begin(), real.end());
  if (end != folder.end()) throw refuse("is a link that leads out of the model's folder");
  if (!fs::is_regular_file(real, error)) throw refuse("is not a regular file");

  std::shared_ptr<const io::MappedFile> mapped = io::MappedFile::open(real.string());
  files_.emplace(location, mapped);
  return mapped;
}

io::ExternalBytes ExternalData::lookup(const io::ExternalReference& reference, uint64_t size,
                                       const io::Place& place) {
  std::shared_ptr<const io::MappedFile> mapped = file(reference.location, place);
  uint64_t offset = reference.offset.value_or(0);
  if (reference.length && *reference.length != size)
    io::fail_at(place, fmt::format("the tensor needs {} bytes, its external data have the length {}", size,
                                   *reference.length));
  uint64_t available = mapped->bytes().size();
  if (offset > available || size > available - offset)
    io::fail_at(place, fmt::format("the tensor needs {} bytes at offset {} of \"{}\", which has {} bytes",
                                   size, offset, reference.location, available));
  return {mapped->bytes().subspan(offset, size), mapped};
}

} // namespace tolk::onnx
