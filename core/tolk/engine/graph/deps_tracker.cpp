#include "tolk/engine/graph/deps_tracker.h"

#include <algorithm>

namespace tolk::engine {

// Takes the bytes begin .. end-1 out of the entries; what is left on both sides stays.
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

std::vector<uint32_t> DepsTracker::access(std::span<const Access> accesses, uint32_t token) {
  std::vector<uint32_t> deps;
  auto collect = [&](const std::vector<Entry>& entries, const Access& a) {
    for (const Entry& e : entries)
      if (e.begin < a.end && a.begin < e.end && e.token != token) deps.push_back(e.token);
  };
  // All are looked up before any is noted: an operation does not wait for itself.
  for (const Access& a : accesses) {
    if (a.begin >= a.end) continue;
    auto it = storages_.find(a.base);
    if (it == storages_.end()) continue;
    collect(it->second.writes, a);
    if (a.written) collect(it->second.reads, a);
  }
  for (const Access& a : accesses) {
    if (a.begin >= a.end) continue;
    Storage& storage = storages_[a.base];
    if (a.written) {
      cut(storage.writes, a.begin, a.end);
      cut(storage.reads, a.begin, a.end);
      storage.writes.push_back({a.begin, a.end, token});
    } else {
      storage.reads.push_back({a.begin, a.end, token});
    }
  }
  std::sort(deps.begin(), deps.end());
  deps.erase(std::unique(deps.begin(), deps.end()), deps.end());
  return deps;
}

} // namespace tolk::engine
