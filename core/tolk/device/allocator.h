// Storage of one device: asks the plugin, keeps what is freed for reuse, and counts.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include <tolk/plugin/buffer.h>

#include "tolk/device/device.h"

namespace tolk {

struct AllocationRequest {
  uint64_t bytes = 0;
  uint32_t kind = TOLK_BUFFER_DEVICE;
  uint32_t usage = 0;
  bool zeroed = false;
  bool cached = true; // may come from the cache and go back to it
  std::string label;
};

// Any thread. Freed storage is reused most recent first. The cache holds at most as much as was ever in use
// at once (64 MB at least), dropping the oldest. Reuse is safe without waiting because a device has one
// in-order queue.
class Allocator {
public:
  explicit Allocator(Device& device) : device_(device) {}

  // Throws OutOfMemory with figures when the plugin has none left even after the cache was given back;
  // DeviceError.
  tolk_buffer* allocate(const AllocationRequest& request);
  // No use of the storage may be submitted after this call.
  void release(tolk_buffer* buffer);
  // Counts storage that exists otherwise (imported memory is not counted as live bytes), so that close can
  // destroy it.
  void adopt(tolk_buffer* buffer);

  void trim(); // destroys cached storage
  DeviceMemory memory() const;
  void destroy_all(); // at close: cached and live

private:
  using Key = std::pair<uint64_t, uint32_t>; // bytes, kind
  struct Cached {
    Key key;
    tolk_buffer* buffer;
  };
  struct Live {
    AllocationRequest request;
    bool imported;
  };
  tolk_status create(const AllocationRequest& request, tolk_buffer** out);
  void destroy(tolk_buffer* buffer);
  void trim_locked(uint64_t keep_bytes);
  std::string out_of_memory_text(const AllocationRequest& request, const DeviceMemory& before);

  Device& device_;
  mutable std::mutex mutex_;
  std::list<Cached> cache_;                                    // oldest first
  std::map<Key, std::list<std::list<Cached>::iterator>> free_; // newest first
  std::unordered_map<tolk_buffer*, Live> live_;
  uint64_t live_bytes_ = 0, live_count_ = 0, peak_bytes_ = 0, cached_bytes_ = 0;
};

} // namespace tolk
