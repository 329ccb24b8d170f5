#include "tolk/io/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "tolk/base/error.h"

namespace tolk::io {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

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
  result->mapped_ = true;
  result->bytes_ = {static_cast<const std::byte*>(base), size};
  return result;
}

MappedFile::~MappedFile() {
  if (mapped_) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
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
  std::string target = link_target(path), temporary = fmt::format("{}.part.{}", target, ::getpid());
  auto give_up = [&](const char* what) {
    int reason = errno;
    ::unlink(temporary.c_str());
    errno = reason;
    fail(path, what);
  };
  {
    Descriptor file{::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
    if (file.fd < 0) fail(path, "write a file beside it");
    if (exists) (void)::fchmod(file.fd, info.st_mode & 07777); // as the one that it replaces
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
