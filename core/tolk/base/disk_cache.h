// A cache of compiled code on disk, shared by processes and keyed by content. An unusable cache gives one
// warning; then every lookup misses and every store is dropped. Nothing here throws.
//
// Layout of the folder, which belongs to the user alone (0700): ab/cdef... one blob per key, index.sqlite
// with size and last use of each. A blob is a header with magic, key, size and checksum, then a zstd frame.
// It gets its name by rename, so readers see whole blobs only; one that fails a check is deleted and counts as a miss.
// The index only bounds the size: losing it costs a rescan, and what it names is checked before it becomes a path.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tolk/base/api.h"
#include "tolk/base/hash.h"

namespace tolk {

struct DiskCacheStats {
  uint64_t hits = 0, misses = 0, damaged = 0, stored = 0, evicted = 0;
};

// Safe for several threads and several processes on one folder.
class TOLK_API DiskCache {
public:
  // `folder` is created when missing. A folder or blob that belongs to another user, or that others can write, is not used,
  // because blobs can be code; for a folder there is a warning. When blobs exceed `limit_bytes`, the least recently used
  // ones are removed until a tenth is free.
  DiskCache(std::string folder, uint64_t limit_bytes);
  ~DiskCache(); // as flush()
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;

  // The process's cache: TOLK_CACHE_DIR, else tolk below XDG_CACHE_HOME or ~/.cache; bounded by
  // TOLK_CACHE_LIMIT. Flushed at exit. Callers ask Config::compile_cache before they use it.
  static DiskCache& shared();

  // Marks the blob as used now.
  std::optional<std::string> get(const ContentKey& key);
  // A blob that is there already is replaced.
  void put(const ContentKey& key, std::string_view value);

  // Writes pending times of use to the index.
  void flush();

  // False when the folder was refused or could not be made.
  bool usable() const;
  const std::string& folder() const;
  DiskCacheStats stats() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace tolk
