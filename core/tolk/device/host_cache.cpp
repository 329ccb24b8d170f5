#include "tolk/device/host_cache.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "tolk/base/config.h"
#include "tolk/base/log.h"

namespace tolk {
namespace fs = std::filesystem;
namespace {

std::string hex(XXH128_hash_t h) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(h.high64),
                static_cast<unsigned long long>(h.low64));
  return text;
}

// The checksum covers the key as well: an entry is never taken for another whose name collides.
XXH128_hash_t checksum(std::string_view key, std::string_view value) {
  std::string text(key);
  text += '\0';
  text += value;
  return XXH3_128bits(text.data(), text.size());
}

bool private_folder(const std::string& path) {
  struct stat s;
  return stat(path.c_str(), &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == geteuid() && (s.st_mode & 077) == 0;
}

std::string entry_path(const std::string& folder, std::string_view key) {
  return folder + "/" + hex(XXH3_128bits(key.data(), key.size()));
}

} // namespace

std::string open_cache_folder(std::string_view plugin, std::string_view compiler_id) {
  const Config& config = Config::current();
  if (!config.compile_cache) return {};
  fs::path root = config.cache_dir;
  if (root.empty()) {
    std::string base = environment("XDG_CACHE_HOME");
    if (base.empty() && !environment("HOME").empty()) base = environment("HOME") + "/.cache";
    if (base.empty() || base[0] != '/') return {};
    root = fs::path(base) / "tolk";
  }
  std::string name(plugin);
  for (char& c : name)
    if (c == '/' || c == '.') c = '_';
  std::error_code ec;
  fs::path folder = root / "plugins" /
                    (name + "-" + hex(XXH3_128bits(compiler_id.data(), compiler_id.size())).substr(0, 16));
  fs::create_directories(folder.parent_path(), ec);
  if (mkdir(folder.c_str(), 0700) != 0 && !private_folder(folder)) {
    log::warning_once("the cache folder " + folder.string() +
                      " cannot be used: it must be writable and private to its owner");
    return {};
  }
  return folder.string();
}

bool read_cache_entry(const std::string& folder, std::string_view key, std::string& value) {
  if (folder.empty()) return false;
  std::ifstream file(entry_path(folder, key), std::ios::binary);
  XXH128_hash_t stored;
  if (!file.read(reinterpret_cast<char*>(&stored), sizeof stored)) return false;
  value.assign(std::istreambuf_iterator<char>(file), {});
  return XXH128_isEqual(stored, checksum(key, value)) != 0;
}

bool write_cache_entry(const std::string& folder, std::string_view key, std::string_view value) {
  if (folder.empty()) return false;
  static std::atomic<uint64_t> counter{0};
  std::string path = entry_path(folder, key);
  std::string temporary = path + "." + std::to_string(getpid()) + "." + std::to_string(counter++);
  XXH128_hash_t sum = checksum(key, value);
  {
    std::ofstream file(temporary, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&sum), sizeof sum);
    file.write(value.data(), static_cast<std::streamsize>(value.size()));
    if (!file.flush()) {
      file.close();
      std::remove(temporary.c_str());
      return false;
    }
  }
  if (std::rename(temporary.c_str(), path.c_str()) == 0) return true;
  std::remove(temporary.c_str());
  return false;
}

} // namespace tolk
