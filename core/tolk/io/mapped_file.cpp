#include "tolk/io/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>
#include <utility>

#include "tolk/base/error.h"
#include "tolk/io/truncation.h"

namespace tolk::io {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

struct Mappings {
  std::mutex mutex;
  std::set<const MappedFile*> live;
  std::set<std::string> cut; // cut short, and no longer mapped
};
Mappings& mappings() {
  static auto* all = new Mappings; // leaked: files may be closed by static destructors
  return *all;
}

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw InvalidArgument(fmt::format("{}: cannot {}: {}", path, what, std::strerror(errno)));
}

std::string read_all(int fd, const std::string& path) {
  constexpr size_t limit = size_t{1} << 30;
  std::string all;
  char chunk[1 << 16];
  for (;;) {
    ssize_t n = ::read(fd, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, "read");
    if (n == 0) return all;
    all.append(chunk, static_cast<size_t>(n));
    if (all.size() > limit)
      throw InvalidArgument(
          fmt::format("{}: a pipe or device gave over 1 GiB; store it in a file first", path));
  }
}

void write_all(int fd, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, "write");
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

// The file that a chain of links leads to, whether it exists or not.
std::string link_target(const std::string& path) {
  namespace fs = std::filesystem;
  fs::path at = path;
  std::error_code error;
  for (int steps = 0; fs::is_symlink(fs::symlink_status(at, error)); ++steps) {
    if (steps == 40) throw InvalidArgument(fmt::format("{}: is a link that leads to itself", path));
    at = at.parent_path() / fs::read_symlink(at, error); // an absolute one stands for itself
    if (error) throw InvalidArgument(fmt::format("{}: cannot read a link: {}", path, error.message()));
  }
  return at.string();
}

// A new file in the folder of `target`, under an unpredictable name; -1 with errno when there can be none. Not
// mkstemp, whose files the umask does not open to others.
int create_beside(const std::string& target, std::string& name) {
  for (int attempt = 0; attempt < 16; attempt++) {
    uint64_t random = 0;
    if (::getrandom(&random, sizeof random, 0) != sizeof random) return -1;
    name = fmt::format("{}.part.{:016x}", target, random);
    const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

} // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) fail(path, "open");
  struct stat info{};
  if (::fstat(file.fd, &info) != 0) fail(path, "stat");
  if (S_ISDIR(info.st_mode)) throw InvalidArgument(fmt::format("{}: is a folder, a file was expected", path));

  std::shared_ptr<MappedFile> result(new MappedFile(path));
  if (!S_ISREG(info.st_mode)) {
    result->read_ = read_all(file.fd, path);
    result->bytes_ = std::as_bytes(std::span<const char>(result->read_));
    return result;
  }
  auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return result;
  void* base = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (base == MAP_FAILED) fail(path, "map");
  result->bytes_ = {static_cast<const std::byte*>(base), size};
  result->watch_ = std::make_unique<TruncationWatch>(base, size);
  std::lock_guard lock(mappings().mutex);
  mappings().live.insert(result.get());
  return result;
}

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {}

bool MappedFile::cut_short() const { return watch_ && watch_->cut_short(); }

MappedFile::~MappedFile() {
  if (!watch_) return;
  {
    std::lock_guard lock(mappings().mutex);
    mappings().live.erase(this);
    if (watch_->cut_short()) mappings().cut.insert(path_);
  }
  watch_.reset();
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void require_whole_files() {
  std::lock_guard lock(mappings().mutex);
  std::set<std::string> cut;
  cut.swap(mappings().cut);
  for (const MappedFile* file : mappings().live)
    if (file->cut_short()) cut.insert(file->path());
  if (cut.empty()) return;
  throw InvalidArgument(fmt::format("{}: was cut short while it was in use, so its values are not what the "
                                    "file had; write files by renaming, "
                                    "and run again",
                                    fmt::join(cut, ", ")));
}

void write_file(const std::string& path, std::span<const std::byte> bytes) {
  struct stat info{};
  bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode))
    throw InvalidArgument(fmt::format("{}: is a folder, a file was expected", path));
  if (exists && !S_ISREG(info.st_mode)) {
    Descriptor file{::open(path.c_str(), O_WRONLY | O_CLOEXEC)};
    if (file.fd < 0) fail(path, "open for writing");
    write_all(file.fd, bytes, path);
    return;
  }
  std::string target = link_target(path), temporary;
  auto give_up = [&](const char* what) {
    int reason = errno;
    ::unlink(temporary.c_str());
    errno = reason;
    fail(path, what);
  };
  {
    Descriptor file{create_beside(target, temporary)};
    if (file.fd < 0) fail(path, "write a file beside it");
    // As the one that it replaces, except set-user-id and the like, which other contents must not get.
    if (exists) (void)::fchmod(file.fd, info.st_mode & 0777);
    try {
      write_all(file.fd, bytes, path);
    } catch (...) {
      ::unlink(temporary.c_str());
      throw;
    }
    int fd = std::exchange(file.fd, -1);
    if (::close(fd) != 0) give_up("write"); // some systems say only now that the disk is full
  }
  if (::rename(temporary.c_str(), target.c_str()) != 0) give_up("rename");
}

} // namespace tolk::io
