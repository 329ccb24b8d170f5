// A file's bytes, mapped read-only. What cannot be mapped (a pipe) is read whole.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "tolk/base/api.h"

namespace tolk::io {

class TruncationWatch; // truncation.h

class TOLK_API MappedFile {
public:
  // Throws InvalidArgument that names the file and the system's reason; a folder or a pipe of more than 1 GiB
  // is refused. What a file that is cut short meanwhile no longer has reads as zeros; see require_whole_files.
  static std::shared_ptr<const MappedFile> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  bool cut_short() const; // while it was mapped
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

private:
  explicit MappedFile(std::string path);
  std::string path_;
  std::span<const std::byte> bytes_;
  std::string read_;                       // the bytes of what could not be mapped
  std::unique_ptr<TruncationWatch> watch_; // of a mapping
};

// Throws InvalidArgument when a file was cut short while it was mapped: by name, those that are mapped now, and once those
// that no longer are. Whoever has computed with mapped data calls it before the results go out. Any thread.
TOLK_API void require_whole_files();

// Writes a whole file: to a temporary file beside it, then renamed, so that a reader never sees half of it
// and the old content stays when writing fails. A link stays one: the file that it leads to is written. What
// is neither file nor folder (a device, a pipe) is written directly. Throws InvalidArgument with the system's
// reason.
TOLK_API void write_file(const std::string& path, std::span<const std::byte> bytes);

} // namespace tolk::io
