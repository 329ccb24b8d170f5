#include "tolk/base/disk_cache.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zstd.h>

#include "tolk/base/cache_index_internal.h"
#include "tolk/base/config.h"
#include "tolk/base/log.h"

namespace tolk {
namespace {

constexpr char kMagic[8] = {'T', 'O', 'L', 'K', 'B', 'L', 'B', '1'};
constexpr uint64_t kLargestBlob = uint64_t{1} << 30;

struct Header {
  char magic[8];
  uint64_t key_high, key_low;
  uint64_t size;     // of the value
  uint64_t checksum; // XXH3-64 of the value
};

class File {
public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() { close(); }
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  bool ok() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }
  bool close() {
    int old = std::exchange(descriptor_, -1);
    return old < 0 || ::close(old) == 0;
  }

private:
  int descriptor_;
};

bool read_all(int descriptor, char* to, size_t size) {
  while (size > 0) {
    ssize_t n = ::read(descriptor, to, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

bool write_all(int descriptor, const char* from, size_t size) {
  while (size > 0) {
    ssize_t n = ::write(descriptor, from, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    from += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

std::string error_text(int error) { return std::generic_category().message(error); }

// Creates the folder and its parents with mode 0700. Returns why it cannot be used, or an empty string.
std::string prepare_folder(const std::string& folder) {
  if (folder.empty()) return "there is no home folder to put it in; set TOLK_CACHE_DIR";
  if (folder.front() != '/') return "the path is not absolute";
  for (size_t at = 1; at != std::string::npos;) {
    at = folder.find('/', at + 1);
    std::string part = folder.substr(0, at);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST && errno != EROFS && errno != EACCES)
      return part + " cannot be made: " + error_text(errno);
  }
  File opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info;
  if (!opened.ok() || ::fstat(opened.get(), &info) != 0) return error_text(errno);
  if (info.st_uid != ::geteuid()) return "it belongs to another user";
  if ((info.st_mode & 022) != 0) return "others may write to it; take that right away with chmod go-w";
  return {};
}

std::string default_folder() {
  const Config& config = Config::current();
  if (!config.cache_dir.empty()) return config.cache_dir;
  if (std::string xdg = environment("XDG_CACHE_HOME"); xdg.starts_with('/')) return xdg + "/tolk";
  if (std::string home = environment("HOME"); home.starts_with('/')) return home + "/.cache/tolk";
  return {};
}

int64_t microseconds(const timespec& time) { return int64_t{time.tv_sec} * 1000000 + time.tv_nsec / 1000; }

int64_t now() {
  timespec time = {};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return microseconds(time);
}

} // namespace

struct DiskCache::State {
  std::string folder;
  uint64_t limit;
  bool usable = false;

  mutable std::mutex mutex; // guards all below
  std::unique_ptr<CacheIndex> index;
  std::unordered_set<std::string> touched;
  DiskCacheStats stats;
  uint64_t total = 0; // as this process believes
  bool total_known = false;

  std::string blob_path(const std::string& hex) const {
    return folder + "/" + hex.substr(0, 2) + "/" + hex.substr(2);
  }

  // What the index may name: whoever wrote it, nothing outside the folder is removed.
  static bool is_key(std::string_view text) {
    return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == text.npos;
  }

  std::vector<CacheIndex::Entry> scan() const {
    std::vector<CacheIndex::Entry> entries;
    std::error_code error;
    for (std::filesystem::directory_iterator dir(folder, error), end; !error && dir != end;
         dir.increment(error)) {
      std::string prefix = dir->path().filename().string();
      if (prefix.size() != 2) continue;
      std::error_code inner;
      for (std::filesystem::directory_iterator file(dir->path(), inner); !inner && file != end;
           file.increment(inner)) {
        std::string name = file->path().filename().string();
        struct stat info;
        if (::lstat(file->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
        // Leftovers of a process that died while writing.
        if (!is_key(prefix + name)) {
          if (now() - microseconds(info.st_mtim) > int64_t{3600} * 1000000) ::unlink(file->path().c_str());
          continue;
        }
        entries.push_back({prefix + name, static_cast<uint64_t>(info.st_size), microseconds(info.st_mtim)});
      }
    }
    return entries;
  }

  bool write_blob(const std::string& hex, const Header& header, const std::string& frame) const {
    static std::atomic<uint64_t> serial = 0;
    std::string path = blob_path(hex);
    std::string temporary =
        path + ".new." + std::to_string(::getpid()) + "." + std::to_string(serial.fetch_add(1));
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    File file(::open(temporary.c_str(), flags, 0600));
    if (!file.ok() && errno == ENOENT) {
      if (::mkdir((folder + "/" + hex.substr(0, 2)).c_str(), 0700) != 0 && errno != EEXIST) return false;
      file = File(::open(temporary.c_str(), flags, 0600));
    }
    if (!file.ok()) return false;
    bool ok = write_all(file.get(), reinterpret_cast<const char*>(&header), sizeof header) &&
              write_all(file.get(), frame.data(), frame.size());
    ok = file.close() && ok && ::rename(temporary.c_str(), path.c_str()) == 0;
    if (!ok) {
      int error = errno;
      ::unlink(temporary.c_str());
      errno = error;
    }
    return ok;
  }

  // The value, or nothing; `damaged` tells whether there was a blob that failed a check.
  std::optional<std::string> read_blob(const std::string& hex, const ContentKey& key, bool& damaged) const {
    File file(::open(blob_path(hex).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!file.ok()) return std::nullopt;
    damaged = true;
    struct stat info;
    if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != ::geteuid() ||
        (info.st_mode & 022) != 0)
      return std::nullopt;
    auto size = static_cast<uint64_t>(info.st_size);
    Header header;
    if (size < sizeof header || size > kLargestBlob) return std::nullopt;
    if (!read_all(file.get(), reinterpret_cast<char*>(&header), sizeof header)) return std::nullopt;
    if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.key_high != key.high ||
        header.key_low != key.low || header.size > kLargestBlob)
      return std::nullopt;
    std::string frame(size - sizeof header, '\0');
    if (!read_all(file.get(), frame.data(), frame.size())) return std::nullopt;
    if (ZSTD_getFrameContentSize(frame.data(), frame.size()) != header.size) return std::nullopt;
    std::string value(header.size, '\0');
    size_t written = ZSTD_decompress(value.data(), value.size(), frame.data(), frame.size());
    if (ZSTD_isError(written) || written != value.size() || hash64(value) != header.checksum)
      return std::nullopt;
    damaged = false;
    return value;
  }

  // Called with the lock held, after `bytes` were added.
  void bound(uint64_t bytes) {
    total = total_known ? total + bytes : index->total_bytes();
    total_known = true;
    if (total <= limit) return;
    total = index->total_bytes(); // other processes add and remove too
    if (total <= limit) return;
    index->touch({touched.begin(), touched.end()}, now());
    touched.clear();
    std::vector<std::string> gone;
    for (const CacheIndex::Entry& entry : index->oldest(total - limit + limit / 10)) {
      if (is_key(entry.key)) ::unlink(blob_path(entry.key).c_str());
      total -= std::min(total, entry.bytes);
      gone.push_back(entry.key);
    }
    index->remove(gone);
    stats.evicted += gone.size();
  }

  void flush() {
    std::lock_guard lock(mutex);
    if (touched.empty() || !index) return;
    index->touch({touched.begin(), touched.end()}, now());
    touched.clear();
  }
};

DiskCache::DiskCache(std::string folder, uint64_t limit_bytes) : state_(std::make_unique<State>()) {
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  state_->folder = std::move(folder);
  state_->limit = limit_bytes;
  if (std::string reason = prepare_folder(state_->folder); !reason.empty()) {
    log::warning_once("nothing is kept between runs: the cache folder " + state_->folder +
                      " is not used: " + reason);
    return;
  }
  state_->usable = true;
  State* state = state_.get();
  state_->index =
      std::make_unique<CacheIndex>(state_->folder + "/index.sqlite", [state] { return state->scan(); });
}

DiskCache::~DiskCache() { flush(); }

DiskCache& DiskCache::shared() {
  // Never destroyed, so that threads still running at exit find it; the exit handler only writes the times of
  // use.
  static DiskCache* const cache = [] {
    auto* made = new DiskCache(default_folder(), static_cast<uint64_t>(Config::current().cache_limit) << 20);
    std::atexit([] { shared().flush(); });
    return made;
  }();
  return *cache;
}

std::optional<std::string> DiskCache::get(const ContentKey& key) {
  if (!state_->usable) return std::nullopt;
  std::string hex = key.hex();
  bool damaged = false;
  std::optional<std::string> value = state_->read_blob(hex, key, damaged);
  std::lock_guard lock(state_->mutex);
  if (value) {
    ++state_->stats.hits;
    state_->touched.insert(hex);
    return value;
  }
  ++state_->stats.misses;
  if (damaged) {
    ++state_->stats.damaged;
    ::unlink(state_->blob_path(hex).c_str());
    log::debug(1, "a damaged cache entry was removed: " + state_->blob_path(hex));
  }
  return std::nullopt;
}

void DiskCache::put(const ContentKey& key, std::string_view value) {
  if (!state_->usable || value.size() > kLargestBlob) return;
  std::string hex = key.hex();
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.key_high = key.high;
  header.key_low = key.low;
  header.size = value.size();
  header.checksum = hash64(value);
  std::string frame(ZSTD_compressBound(value.size()), '\0');
  size_t size = ZSTD_compress(frame.data(), frame.size(), value.data(), value.size(), 1);
  if (ZSTD_isError(size) || size + sizeof header > state_->limit) return;
  frame.resize(size);
  if (!state_->write_blob(hex, header, frame)) {
    log::warning_once("nothing more is kept between runs: the cache folder " + state_->folder +
                      " cannot be written: " + error_text(errno));
    return;
  }
  std::lock_guard lock(state_->mutex);
  uint64_t bytes = size + sizeof header;
  ++state_->stats.stored;
  state_->index->add({{hex, bytes, now()}});
  state_->bound(bytes);
}

void DiskCache::flush() { state_->flush(); }
bool DiskCache::usable() const { return state_->usable; }
const std::string& DiskCache::folder() const { return state_->folder; }

DiskCacheStats DiskCache::stats() const {
  std::lock_guard lock(state_->mutex);
  return state_->stats;
}

} // namespace tolk
