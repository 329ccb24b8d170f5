#include "tolk/io/npz.h"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>

#include "tolk/base/error.h"
#include "tolk/io/mapped_file.h"

namespace tolk::io {
namespace {

struct ZipCloser {
  void operator()(zip_t* z) const { zip_discard(z); }
  void operator()(zip_file_t* f) const { zip_fclose(f); }
};
using Zip = std::unique_ptr<zip_t, ZipCloser>;
using ZipFile = std::unique_ptr<zip_file_t, ZipCloser>;

std::string message_of(zip_error_t& error) {
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

Zip open_archive(const MappedFile& file, const Place& root) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(file.bytes().data(), file.bytes().size(), 0, &error);
  if (!source) fail_at(root, "the .npz archive cannot be read: " + message_of(error));
  zip_t* archive = zip_open_from_source(source, ZIP_RDONLY, &error);
  if (!archive) {
    zip_source_free(source);
    fail_at(root, "this is not a .npz (zip) archive: " + message_of(error));
  }
  zip_error_fini(&error);
  return Zip(archive);
}

// Unpacks one member. The size that the archive claims is only believed as far as bytes arrive.
std::string unpack(zip_t* archive, uint64_t index, uint64_t limit, const Place& at) {
  ZipFile member(zip_fopen_index(archive, index, 0));
  if (!member) fail_at(at, fmt::format("cannot be unpacked: {}", zip_strerror(archive)));
  std::string content;
  std::vector<char> chunk(1 << 16);
  for (;;) {
    zip_int64_t n = zip_fread(member.get(), chunk.data(), chunk.size());
    if (n < 0) fail_at(at, fmt::format("is damaged: {}", zip_file_strerror(member.get())));
    if (n == 0) return content;
    if (content.size() + static_cast<uint64_t>(n) > limit)
      fail_at(at, "the archive unpacks to far more than its size; it is refused as a likely zip bomb");
    content.append(chunk.data(), static_cast<size_t>(n));
  }
}

} // namespace

std::vector<NamedTensor> read_npz(const std::string& path, const NpyOptions& options) {
  std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  Place root{nullptr, path};
  if (file->bytes().empty()) fail_at(root, "the file is empty, a .npz (zip) archive was expected");
  Zip archive = open_archive(*file, root);
  uint64_t budget = std::max<uint64_t>(file->bytes().size() * 64, uint64_t{1} << 28);

  std::vector<NamedTensor> tensors;
  zip_int64_t entries = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < entries; ++i) {
    const char* raw = zip_get_name(archive.get(), static_cast<uint64_t>(i), 0);
    std::string member = raw ? raw : "";
    Place at = root.at(member);
    if (!member.ends_with(".npy")) fail_at(at, "a member of a .npz archive must be a .npy file");
    std::string content = unpack(archive.get(), static_cast<uint64_t>(i), budget, at);
    budget -= content.size();
    // The string becomes the owner, so that the elements are not copied again.
    auto owner = std::make_shared<const std::string>(std::move(content));
    HostTensor tensor = parse_npy(std::as_bytes(std::span<const char>(*owner)), at, owner, options);
    tensors.push_back({member.substr(0, member.size() - 4), std::move(tensor)});
  }
  return tensors;
}

void write_npz(const std::string& path, const std::vector<NamedTensor>& tensors) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* target = zip_source_buffer_create(nullptr, 0, 0, &error);
  zip_t* archive = target ? zip_open_from_source(target, ZIP_CREATE | ZIP_TRUNCATE, &error) : nullptr;
  if (!archive) {
    zip_source_free(target);
    throw InvalidArgument(fmt::format("{}: cannot make a .npz archive: {}", path, message_of(error)));
  }
  Zip guard(archive);
  zip_source_keep(target);
  std::unique_ptr<zip_source_t, void (*)(zip_source_t*)> keep(target, zip_source_free);

  // The members must stay until the archive is closed, which is when libzip writes.
  std::vector<std::string> members;
  members.reserve(tensors.size());
  std::set<std::string> names;
  for (const NamedTensor& t : tensors) {
    if (!names.insert(t.name).second)
      throw InvalidArgument(fmt::format("{}: two arrays have the name \"{}\"", path, t.name));
    members.push_back(encode_npy(t.tensor));
    zip_source_t* source = zip_source_buffer(archive, members.back().data(), members.back().size(), 0);
    zip_int64_t index =
        source ? zip_file_add(archive, (t.name + ".npy").c_str(), source, ZIP_FL_ENC_UTF_8) : -1;
    if (index < 0) {
      if (source) zip_source_free(source);
      throw InvalidArgument(
          fmt::format("{}: cannot add the array \"{}\": {}", path, t.name, zip_strerror(archive)));
    }
    zip_set_file_compression(archive, static_cast<uint64_t>(index), ZIP_CM_STORE, 0);
    // A fixed time makes equal arrays give equal files.
    zip_file_set_mtime(archive, static_cast<uint64_t>(index), 315532800 + 86400, 0);
  }
  if (zip_close(archive) != 0)
    throw InvalidArgument(fmt::format("{}: cannot write the archive: {}", path, zip_strerror(archive)));
  guard.release();

  std::string bytes;
  if (!tensors.empty()) {
    zip_stat_t stat;
    zip_source_open(target);
    zip_source_stat(target, &stat);
    bytes.resize(stat.size);
    if (zip_source_read(target, bytes.data(), bytes.size()) != static_cast<zip_int64_t>(bytes.size()))
      throw InvalidArgument(fmt::format("{}: cannot collect the archive", path));
    zip_source_close(target);
  } else {
    bytes.assign("PK\5\6", 4); // an archive without members is its end record
    bytes.append(18, '\0');
  }
  write_file(path, std::as_bytes(std::span<const char>(bytes)));
}

} // namespace tolk::io
