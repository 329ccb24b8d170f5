#include "tolk/schedule/cache.h"

#include <deque>
#include <mutex>
#include <unordered_map>

#include "tolk/uop/key.h"

namespace tolk::schedule {
namespace {

constexpr size_t kMaxEntries = 4096;

struct Cache {
  std::mutex mutex;
  std::unordered_map<ContentKey, std::shared_ptr<const Template>> entries;
  std::deque<ContentKey> oldest;
  CacheCounters counters;
};

// Leaked on purpose: a thread may still schedule while static objects are destroyed.
Cache& cache() {
  static auto* one = new Cache;
  return *one;
}

} // namespace

ContentKey schedule_key(const UOp& body, const Options& options) {
  return Hasher().key(graph_key(body)).number(options.digest()).finish();
}

std::shared_ptr<const Template> find_schedule(const ContentKey& key) {
  Cache& c = cache();
  std::lock_guard lock(c.mutex);
  auto it = c.entries.find(key);
  ++(it == c.entries.end() ? c.counters.misses : c.counters.hits);
  return it == c.entries.end() ? nullptr : it->second;
}

void keep_schedule(const ContentKey& key, std::shared_ptr<const Template> schedule) {
  Cache& c = cache();
  std::shared_ptr<const Template> dropped; // its nodes are freed after the lock is
  std::lock_guard lock(c.mutex);
  if (!c.entries.emplace(key, std::move(schedule)).second) return;
  c.oldest.push_back(key);
  if (c.oldest.size() <= kMaxEntries) return;
  auto it = c.entries.find(c.oldest.front());
  dropped = std::move(it->second);
  c.entries.erase(it);
  c.oldest.pop_front();
}

CacheCounters schedule_cache_counters() {
  Cache& c = cache();
  std::lock_guard lock(c.mutex);
  CacheCounters out = c.counters;
  out.entries = c.entries.size();
  return out;
}

void clear_schedule_cache() {
  Cache& c = cache();
  decltype(c.entries) dropped;
  std::lock_guard lock(c.mutex);
  dropped.swap(c.entries);
  c.oldest.clear();
}

} // namespace tolk::schedule
