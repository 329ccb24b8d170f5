// Dependencies between operations, from the bytes that each reads and writes.
//
//   DepsTracker tracker;
//   std::vector<StorageUse> all{{{base, 0, 12}, true}}, part{{{base, 4, 8}, true}};
//   std::vector<StorageUse> rest{{{base, 0, 4}, false}};
//   tracker.access(all, 0);  // {}
//   tracker.access(part, 1); // {0}
//   tracker.access(rest, 2); // {0}: the bytes that 1 did not write
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/engine/run/storage_range.h"

namespace tolk::engine {

// Tracks bytes, not whole storages: temporaries share an arena, and those whose bytes are disjoint are
// independent.
class TOLK_API DepsTracker {
public:
  // Records the uses of the operation `token` and returns the tokens of its direct dependencies, ascending,
  // each once. Together these imply all indirect ones. Empty ranges do not count.
  std::vector<uint32_t> access(std::span<const StorageUse> uses, uint32_t token);

private:
  struct Entry {
    uint64_t begin, end;
    uint32_t token;
  };
  struct Storage {
    std::vector<Entry> writes; // disjoint: a later write replaces earlier ones of its bytes
    std::vector<Entry> reads;  // since the last write of their bytes
  };
  static void cut(std::vector<Entry>& entries, uint64_t begin, uint64_t end);
  std::unordered_map<uint64_t, Storage> storages_;
};

} // namespace tolk::engine
