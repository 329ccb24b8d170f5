#include "tolk/engine/graph/deps_tracker.h"

#include <algorithm>

namespace tolk::engine {

// Removes the bytes begin .. end-1 from the entries; the remainders on both sides stay.
void DepsTracker::cut(std::vector<Entry>& entries, uint64_t begin, uint64_t end) {
  size_t count = entries.size();
  for (size_t i = 0; i < count; ++i) {
    Entry entry = entries[i];
    if (entry.begin >= end || begin >= entry.end) continue;
    bool left = entry.begin < begin, right = end < entry.end;
    if (left) entries[i].end = begin;
    if (left && right)
      entries.push_back({end, entry.end, entry.token});
    else if (right)
      entries[i].begin = end;
    else if (!left)
      entries[i].end = entries[i].begin; // empty, dropped below
  }
  std::erase_if(entries, [](const Entry& e) { return e.begin == e.end; });
}

std::vector<uint32_t> DepsTracker::access(std::span<const StorageUse> uses, uint32_t token) {
  std::vector<uint32_t> deps;
  auto collect = [&](const std::vector<Entry>& entries, const StorageRange& r) {
    for (const Entry& e : entries)
      if (e.begin < r.end && r.begin < e.end && e.token != token) deps.push_back(e.token);
  };
  // All lookups come before all records: an operation does not depend on itself.
  for (const auto& [range, written] : uses) {
    if (range.begin >= range.end) continue;
    auto it = storages_.find(range.base);
    if (it == storages_.end()) continue;
    collect(it->second.writes, range);
    if (written) collect(it->second.reads, range);
  }
  for (const auto& [range, written] : uses) {
    if (range.begin >= range.end) continue;
    Storage& storage = storages_[range.base];
    if (written) {
      cut(storage.writes, range.begin, range.end);
      cut(storage.reads, range.begin, range.end);
      storage.writes.push_back({range.begin, range.end, token});
    } else {
      storage.reads.push_back({range.begin, range.end, token});
    }
  }
  std::sort(deps.begin(), deps.end());
  deps.erase(std::unique(deps.begin(), deps.end()), deps.end());
  return deps;
}

} // namespace tolk::engine
