// Device memory under small numbers. Every block of a device is a pool, storage is a pool and an offset:
// BufferLoc. Locations can be printed and compared, and are the same in every run that allocates in the same
// order.
//
//   int32_t p = d.pools().next_pool_id();            // 1, 2, 3 ...; never the same twice
//   d.pools().alloc_pool(p, 4096, 64);
//   d.pools().memset_zero(p, 0, 4096);
//   tolk_ref r = d.pools().resolve_pool({p, 128});   // handle and offset
//   d.pools().free_pool(p);
//
// Buffers take their numbers from the same counter, so a Buffer's location resolves here too.
#pragma once

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include <tolk/plugin/tolk_plugin.h>

#include "tolk/base/api.h"
#include "tolk/device/storage.h"

namespace tolk {

class Buffer;

struct BufferLoc {
  int32_t pool_id = 0;
  uint64_t offset = 0;
  auto operator<=>(const BufferLoc&) const = default;
};

// A hint: a device without such memory gives its default.
enum class MemoryMode : uint8_t {
  Default,
  DeviceOnly,
  HostVisible, // one memory for both sides
  Upload,      // device memory that the host can write
  Readback     // host memory that the device can reach
};

constexpr int32_t kMergePoolId = 0; // the scratch of merge_in, its only tenant

// Any thread.
class TOLK_API PoolTable {
public:
  explicit PoolTable(Device& device) : device_(device) {}

  // `alignment` is a power of two; the device rounds up to its own. A size of 0 gives one byte. Throws
  // InvalidArgument "pool N already allocated" for a live number other than kMergePoolId, for a negative
  // number and for a bad alignment; OutOfMemory.
  void alloc_pool(int32_t id, uint64_t size, uint64_t alignment, MemoryMode mode = MemoryMode::Default);
  // Forgets the number and frees the block once nothing pending uses it. Throws InvalidArgument "unknown pool
  // N", and for the block of a Buffer, which frees it itself.
  void free_pool(int32_t id);
  // In order with what else is submitted for that block. Throws InvalidArgument "unknown pool N", and for a
  // range that leaves the block.
  void memset_zero(int32_t id, uint64_t offset, uint64_t size);
  // Handle, offset in it, and the bytes to the block's end. Throws InvalidArgument that names pool and device
  // when there is no such pool, and for an offset beyond its end.
  tolk_ref resolve_pool(BufferLoc loc) const;
  // The bytes themselves once pending work is done, where the host can see them, else null. Throws
  // InvalidArgument "unknown pool N".
  std::byte* host_data(int32_t id);
  int32_t next_pool_id() { return next_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t size_of(int32_t id) const; // throws InvalidArgument "unknown pool N"
  bool has(int32_t id) const;
  bool is_own(int32_t id) const;    // made by alloc_pool, not a buffer's
  std::vector<int32_t> ids() const; // ascending

  // Copies a buffer of any device into pool 0 of this one, which grows when it is too small and never
  // shrinks; its next tenant waits for readers of the last. Throws what copies throw.
  BufferLoc merge_in(Buffer& source);

  // Constants that every context of the device shares: a node's number and its location. They are freed with
  // the device.
  void keep_constant(uint64_t node, BufferLoc loc);
  const BufferLoc* find_constant(uint64_t node) const; // null when unknown; valid until the device closes
  bool is_constant_pool(int32_t id) const;

  // --- for this layer
  // A block under `id`, or under the next number when that is negative; the number.
  int32_t enter(Storage* storage, int32_t id);
  void leave(int32_t id);
  Storage& storage(int32_t id) const; // throws InvalidArgument "unknown pool N"

private:
  struct Pool {
    Storage* storage;
    bool own; // made by alloc_pool
  };
  const Pool& at(int32_t id) const;

  Device& device_;
  mutable std::mutex mutex_;
  std::map<int32_t, Pool> pools_;
  std::map<uint64_t, BufferLoc> constants_;
  std::atomic<int32_t> next_{1};
};

// Offsets for `items` in as few blocks as fit when they are placed in order; no block exceeds `cap`.
struct SegmentPlan {
  struct Place {
    size_t segment;
    uint64_t offset;
  };
  std::vector<Place> places;   // by item
  std::vector<uint64_t> sizes; // by segment
};
struct SegmentItem {
  uint64_t size, align;
};
// Throws InvalidArgument for an item larger than `cap` and for an alignment that is no power of two.
TOLK_API SegmentPlan plan_pool_segments(std::span<const SegmentItem> items, uint64_t cap);

} // namespace tolk
