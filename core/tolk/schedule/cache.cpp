#include "tolk/schedule/cache.h"

#include <deque>
#include <mutex>
#include <unordered_map>

#include "tolk/base/check.h"
#include "tolk/base/log.h"
#include "tolk/uop/key.h"

namespace tolk::schedule {
namespace {

constexpr size_t kMostEntries = 4096;

template <typename Value> class Cache {
public:
  Value find(const ContentKey& key) {
    std::lock_guard lock(mutex_);
    auto it = entries_.find(key);
    ++(it == entries_.end() ? misses_ : hits_);
    return it == entries_.end() ? Value() : it->second;
  }
  void keep(const ContentKey& key, Value value) {
    Value dropped; // its nodes go after the lock does
    std::lock_guard lock(mutex_);
    if (!entries_.emplace(key, std::move(value)).second) return;
    oldest_.push_back(key);
    if (oldest_.size() <= kMostEntries) return;
    auto it = entries_.find(oldest_.front());
    dropped = std::move(it->second);
    entries_.erase(it);
    oldest_.pop_front();
  }
  void add_to(CacheCounters& sum) {
    std::lock_guard lock(mutex_);
    sum.hits += hits_, sum.misses += misses_, sum.entries += entries_.size();
  }
  void clear() {
    std::unordered_map<ContentKey, Value> dropped;
    std::lock_guard lock(mutex_);
    dropped.swap(entries_);
    oldest_.clear();
  }

private:
  std::mutex mutex_;
  std::unordered_map<ContentKey, Value> entries_;
  std::deque<ContentKey> oldest_;
  uint64_t hits_ = 0, misses_ = 0;
};

// Leaked on purpose: a thread may still schedule while static objects are destroyed.
Cache<std::shared_ptr<const Template>>& templates() {
  static auto* one = new Cache<std::shared_ptr<const Template>>;
  return *one;
}
Cache<std::shared_ptr<const LoweredSink>>& lowered_sinks() {
  static auto* one = new Cache<std::shared_ptr<const LoweredSink>>;
  return *one;
}

} // namespace

ContentKey schedule_key(const UOp& body, const Options& options) {
  return Hasher().key(graph_key(body)).number(options.digest()).finish();
}

std::shared_ptr<const Template> find_schedule(const ContentKey& key) { return templates().find(key); }

void keep_schedule(const ContentKey& key, std::shared_ptr<const Template> schedule) {
  templates().keep(key, std::move(schedule));
}

UOp find_lowered(const ContentKey& key, [[maybe_unused]] const UOp& sink) {
  std::shared_ptr<const LoweredSink> found = lowered_sinks().find(key);
  if (!found) return {};
#ifdef TOLK_VERIFY
  TOLK_CHECK(found->sink == sink, "two graphs have one key");
#endif
  return found->linear;
}

void keep_lowered(const ContentKey& key, LoweredSink lowered) {
  lowered_sinks().keep(key, std::make_shared<const LoweredSink>(std::move(lowered)));
}

void log_scheduled(size_t kernels, double ms, bool hit, const ContentKey& key) {
  int level = kernels > 1 ? 1 : 3;
  if (!log::enabled(level)) return;
  log::debug(level, "scheduled " + std::to_string(kernels) + " kernels in " + std::to_string(ms) + " ms | " +
                        (hit ? "cache hit " : "CACHE MISS ") + key.hex().substr(0, 8));
}

CacheCounters schedule_cache_counters() {
  CacheCounters sum;
  templates().add_to(sum);
  lowered_sinks().add_to(sum);
  return sum;
}

void clear_schedule_cache() {
  templates().clear();
  lowered_sinks().clear();
}

} // namespace tolk::schedule
