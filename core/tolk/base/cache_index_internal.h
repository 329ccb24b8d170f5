// The index of a DiskCache: key, size and time of last use of every blob. An SQLite database that processes
// share.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

struct sqlite3;

namespace tolk {

// Not thread-safe: DiskCache holds a lock. No function throws. A failure disables the index for the rest of the
// process with one warning; the cache then grows without bound until another process repairs the index.
class CacheIndex {
public:
  struct Entry {
    std::string key;
    uint64_t bytes = 0;
    int64_t used = 0; // microseconds since 1970
  };

  // `rescan` lists the existing blobs; it is called when the index file is new or damaged.
  CacheIndex(std::string path, std::function<std::vector<Entry>()> rescan);
  ~CacheIndex();
  CacheIndex(const CacheIndex&) = delete;
  CacheIndex& operator=(const CacheIndex&) = delete;

  void add(const std::vector<Entry>& entries);
  void touch(const std::vector<std::string>& keys, int64_t now);
  void remove(const std::vector<std::string>& keys);
  // Sum of all sizes, including entries that other processes added.
  uint64_t total_bytes();
  // The least recently used entries whose sizes add up to at least `bytes`.
  std::vector<Entry> oldest(uint64_t bytes);

private:
  bool open();
  bool run(const char* sql);
  void close();
  void repair();
  template <class Body> void transaction(const char* sql, Body body);

  std::string path_;
  std::function<std::vector<Entry>()> rescan_;
  sqlite3* database_ = nullptr;
  bool failed_ = false, repaired_ = false;
};

} // namespace tolk
