// When blocks of a device are made, reused and freed. The blocks themselves are the device's pools (pools.h).
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tolk/device/device.h"
#include "tolk/device/storage.h"
#include "tolk/device/stream.h"

namespace tolk {

// Any thread. Freed storage is reused most recent first, without waiting: it keeps its uses, and the next operation on
// another stream waits for those. The cache holds at most as much as was ever in use at once (64 MB at least) and drops the
// oldest. Storage that is freed for good while work on it is pending is destroyed when that work is done, at the latest when
// memory is short.
//
// TOLK_TEST_SCATTER=1, for tests: nothing is reused and every block begins at a random place of its handle, so that an
// address that is kept too long has other bytes.
class Allocator {
public:
  explicit Allocator(Device& device) : device_(device) {}

  // Throws OutOfMemory with figures when the plugin has none left even after the cache was given back;
  // DeviceError.
  Storage* allocate(const AllocationRequest& request);
  // One owner less. After the last one no use of the storage may be submitted.
  void release(Storage* storage);
  // Storage around a handle that exists (imported memory is not counted as live bytes), so that close can
  // destroy it.
  Storage* adopt(tolk_buffer* buffer, uint64_t bytes);

  void trim(); // destroys cached storage
  void reap(); // destroys what was freed and is used no more
  DeviceMemory memory() const;
  void destroy_all(); // at close: cached, waiting and live; the device is idle

private:
  using Key = std::pair<uint64_t, uint32_t>; // bytes, kind
  struct Waiting {
    Storage* storage;
    std::vector<Event> uses;
  };
  static Key key_of(const Storage& s) { return {s.request.bytes, s.request.kind}; }
  Storage* take_cached(const AllocationRequest& request);
  void free_when_unused(Storage* storage);
  void reap_locked(bool wait);
  void trim_locked(uint64_t keep_bytes);
  std::string out_of_memory_text(const AllocationRequest& request, const DeviceMemory& before);

  Device& device_;
  mutable std::mutex mutex_;                                     // taken before submission locks
  std::list<Storage*> cache_;                                    // oldest first
  std::map<Key, std::list<std::list<Storage*>::iterator>> free_; // newest first
  std::unordered_set<Storage*> live_;
  std::vector<Waiting> waiting_;
  uint64_t live_bytes_ = 0, live_count_ = 0, peak_bytes_ = 0, cached_bytes_ = 0;
};

} // namespace tolk
