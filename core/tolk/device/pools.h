// Device memory under small numbers. Every block of a device is a pool, and memory is addressed as a pool and an offset in
// it: BufferLoc. Locations can be printed and compared, and are the same in every run that allocates in the same order.
//
//   PoolTable& pools = device("CPU").pools();
//   int32_t p = pools.next_pool_id();                          // 1, 2, 3 ...; no number comes twice
//   pools.alloc_pool(p, 4096, 64);
//   pools.memset_zero(p, 0, 4096);
//   BufferRef row = pool_buffer(device("CPU"), {p, 128}, DType::F32, 16);   // for copies and kernels; see buffer.h
//   tolk_ref ref = pools.resolve_pool({p, 128});               // handle and offset, for the plugin's own functions
//   pools.free_pool(p);
//
// The allocator takes a number from the same table for the block of every Buffer, so a Buffer's location resolves here too.
// DeviceContext (context.h) owns pools by the nodes that lie in them.
#pragma once

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include <tolk/plugin/tolk_plugin.h>

#include "tolk/base/api.h"
#include "tolk/device/storage.h"
#include "tolk/dtype/dtype.h"

namespace tolk {

class Buffer;
using BufferRef = std::shared_ptr<Buffer>;

struct BufferLoc {
  int32_t pool_id = 0;
  uint64_t offset = 0;
  auto operator<=>(const BufferLoc&) const = default;
};

// A hint: a device without such memory uses its default.
enum class MemoryMode : uint8_t {
  Default,
  DeviceOnly,
  HostVisible, // one memory for both sides
  Upload,      // device memory that the host can write
  Readback     // host memory that the device can reach
};

constexpr int32_t kMergePoolId = 0; // scratch memory, of merge_in alone

// Any thread.
class TOLK_API PoolTable {
public:
  explicit PoolTable(Device& device) : device_(device) {}

  // `alignment` is a power of two; the device rounds up to its own. A size of 0 gives one byte. Throws
  // InvalidArgument "pool N already allocated" for a live number other than kMergePoolId, for a negative
  // number and for a bad alignment; OutOfMemory.
  void alloc_pool(int32_t id, uint64_t size, uint64_t alignment, MemoryMode mode = MemoryMode::Default);
  // Forgets the number, and frees the block once no buffer lies in it and nothing pending uses it. Throws InvalidArgument "unknown pool
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
  bool is_own(int32_t id) const; // made by alloc_pool, not a buffer's

  // Copies a buffer of any device into pool 0 of this one, which grows when it is too small and never shrinks. The next copy
  // waits for readers of the last. Throws what copies throw.
  BufferLoc merge_in(Buffer& source);

private:
  friend class Allocator;
  friend BufferRef pool_buffer(Device&, BufferLoc, DType, uint64_t);

  // --- blocks, for the allocator. The plugin's buffer is `extra` bytes longer than what was asked for.
  tolk_status create(const AllocationRequest& request, uint64_t extra, Storage*& out);
  Storage* adopt(tolk_buffer* handle, const AllocationRequest& request, bool imported);
  void destroy(Storage* block);
  // Destroys the plugin's buffer of a block that others still point to.
  static void close(Storage& block);
  int32_t enter(Storage* block, int32_t id); // under the next number when `id` is negative
  Storage& storage(int32_t id) const;        // throws InvalidArgument "unknown pool N"
  Storage& share(int32_t id) const;          // with one owner more; Allocator::release gives it back

  struct Pool {
    Storage* storage;
    bool own; // made by alloc_pool
  };
  const Pool& at(int32_t id) const;

  Device& device_;
  mutable std::mutex mutex_;
  std::map<int32_t, Pool> pools_;                                 // those that have a number
  std::unordered_map<Storage*, std::unique_ptr<Storage>> blocks_; // all
  std::atomic<int32_t> next_{1};
};

} // namespace tolk
