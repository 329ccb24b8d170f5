// A file's bytes, mapped read-only. What cannot be mapped (a pipe) is read whole.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "tolk/base/api.h"

namespace tolk::io {

class TOLK_API MappedFile {
public:
  // Throws InvalidArgument that names the file and the system's reason; a folder or a pipe of more than 1 GiB
  // is refused. The file must not be truncated while the mapping lives.
  static std::shared_ptr<const MappedFile> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

private:
  explicit MappedFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
  std::span<const std::byte> bytes_;
  std::string read_; // the bytes of what could not be mapped
  bool mapped_ = false;
};

// Writes a whole file: to a temporary file beside it, then renamed, so that a reader never sees half of it
// and the old content stays when writing fails. A link stays one: the file that it leads to is written. What
// is neither file nor folder (a device, a pipe) is written directly. Throws InvalidArgument with the system's
// reason.
TOLK_API void write_file(const std::string& path, std::span<const std::byte> bytes);

} // namespace tolk::io
