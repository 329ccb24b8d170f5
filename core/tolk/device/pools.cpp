#include "tolk/device/pools.h"

#include <algorithm>

#include "tolk/base/error.h"
#include "tolk/device/allocator.h"
#include "tolk/device/buffer.h"
#include "tolk/device/copy.h"
#include "tolk/device/device.h"

namespace tolk {
namespace {

bool power_of_two(uint64_t n) { return n != 0 && (n & (n - 1)) == 0; }

uint32_t kind_of(MemoryMode mode, uint32_t offered) {
  auto pick = [&](uint32_t first, uint32_t second) {
    if (offered >> first & 1) return first;
    return offered >> second & 1 ? second : uint32_t{TOLK_BUFFER_DEVICE};
  };
  switch (mode) {
  case MemoryMode::HostVisible:
    return pick(TOLK_BUFFER_UNIFIED, TOLK_BUFFER_STAGING);
  case MemoryMode::Upload:
    return pick(TOLK_BUFFER_DEVICE_WRITABLE, TOLK_BUFFER_STAGING);
  case MemoryMode::Readback:
    return pick(TOLK_BUFFER_STAGING, TOLK_BUFFER_DEVICE);
  default:
    return TOLK_BUFFER_DEVICE;
  }
}

} // namespace

const PoolTable::Pool& PoolTable::at(int32_t id) const {
  auto it = pools_.find(id);
  if (it == pools_.end())
    throw InvalidArgument("unknown pool " + std::to_string(id) + " on " + device_.get_name());
  return it->second;
}

int32_t PoolTable::enter(Storage* storage, int32_t id) {
  std::lock_guard lock(mutex_);
  const bool own = id >= 0;
  if (!own) id = next_pool_id();
  int32_t next = next_.load(std::memory_order_relaxed);
  while (next <= id && !next_.compare_exchange_weak(next, id + 1, std::memory_order_relaxed)) {
  }
  pools_.insert_or_assign(id, Pool{storage, own});
  return id;
}

void PoolTable::leave(int32_t id) {
  std::lock_guard lock(mutex_);
  pools_.erase(id);
}

Storage& PoolTable::storage(int32_t id) const {
  std::lock_guard lock(mutex_);
  return *at(id).storage;
}

bool PoolTable::has(int32_t id) const {
  std::lock_guard lock(mutex_);
  return pools_.contains(id);
}

bool PoolTable::is_own(int32_t id) const {
  std::lock_guard lock(mutex_);
  return at(id).own;
}

std::vector<int32_t> PoolTable::ids() const {
  std::lock_guard lock(mutex_);
  std::vector<int32_t> all;
  for (const auto& [id, pool] : pools_) all.push_back(id);
  return all;
}

uint64_t PoolTable::size_of(int32_t id) const { return storage(id).request.bytes; }

void PoolTable::alloc_pool(int32_t id, uint64_t size, uint64_t alignment, MemoryMode mode) {
  if (id < 0) throw InvalidArgument("pool " + std::to_string(id) + ": numbers of pools are not negative");
  if (!power_of_two(alignment))
    throw InvalidArgument("pool " + std::to_string(id) + ": the alignment " + std::to_string(alignment) +
                          " is no power of two");
  if (has(id)) {
    if (id != kMergePoolId)
      throw InvalidArgument("pool " + std::to_string(id) + " already allocated on " + device_.get_name());
    free_pool(id);
  }
  AllocationRequest request;
  request.bytes = std::max<uint64_t>(size, 1);
  request.align = alignment;
  request.kind = kind_of(mode, device_.caps().buffer_kinds);
  request.usage =
      TOLK_USAGE_KERNEL_READ | TOLK_USAGE_KERNEL_WRITE | TOLK_USAGE_COPY_SOURCE | TOLK_USAGE_COPY_DESTINATION;
  request.cached = false; // the number means this block and no other
  request.pool = id;
  device_.allocator().allocate(request);
}

void PoolTable::free_pool(int32_t id) {
  Storage* storage;
  {
    std::lock_guard lock(mutex_);
    const Pool& pool = at(id);
    if (!pool.own)
      throw InvalidArgument("pool " + std::to_string(id) + " on " + device_.get_name() +
                            " is the storage of a buffer, which frees it");
    storage = pool.storage;
    pools_.erase(id); // the block may live on until its last use is done
    storage->pool = -1;
  }
  device_.allocator().release(storage);
}

void PoolTable::memset_zero(int32_t id, uint64_t offset, uint64_t size) {
  Storage& block = storage(id);
  if (offset > block.request.bytes || size > block.request.bytes - offset)
    throw InvalidArgument("pool " + std::to_string(id) + " on " + device_.get_name() + ": " +
                          std::to_string(size) + " bytes at offset " + std::to_string(offset) +
                          " are out of range; it has " + std::to_string(block.request.bytes));
  if (size != 0) fill_range(block, block.ref(offset, size), 0, 1);
}

tolk_ref PoolTable::resolve_pool(BufferLoc loc) const {
  Storage& block = storage(loc.pool_id);
  if (loc.offset > block.request.bytes)
    throw InvalidArgument("pool " + std::to_string(loc.pool_id) + " on " + device_.get_name() + " has " +
                          std::to_string(block.request.bytes) + " bytes, none at offset " +
                          std::to_string(loc.offset));
  return block.ref(loc.offset, block.request.bytes - loc.offset);
}

std::byte* PoolTable::host_data(int32_t id) { return map_storage(storage(id), true); }

BufferLoc PoolTable::merge_in(Buffer& source) {
  Storage& from = source.storage();
  if (!has(kMergePoolId) || size_of(kMergePoolId) < source.bytes())
    alloc_pool(kMergePoolId, source.bytes(), device_.caps().buffer_align);
  if (source.bytes() != 0) {
    Storage& block = storage(kMergePoolId);
    copy_range(block, block.ref(0, source.bytes()), from, source.ref());
  }
  return {kMergePoolId, 0};
}

void PoolTable::keep_constant(uint64_t node, BufferLoc loc) {
  std::lock_guard lock(mutex_);
  at(loc.pool_id);
  constants_.insert_or_assign(node, loc);
}

const BufferLoc* PoolTable::find_constant(uint64_t node) const {
  std::lock_guard lock(mutex_);
  auto it = constants_.find(node);
  return it == constants_.end() ? nullptr : &it->second;
}

bool PoolTable::is_constant_pool(int32_t id) const {
  std::lock_guard lock(mutex_);
  return std::any_of(constants_.begin(), constants_.end(),
                     [id](const auto& entry) { return entry.second.pool_id == id; });
}

SegmentPlan plan_pool_segments(std::span<const SegmentItem> items, uint64_t cap) {
  SegmentPlan plan;
  uint64_t end = 0;
  for (size_t i = 0; i < items.size(); i++) {
    const auto& [size, align] = items[i];
    if (!power_of_two(align))
      throw InvalidArgument("item " + std::to_string(i) + ": the alignment " + std::to_string(align) +
                            " is no power of two");
    if (size > cap)
      throw InvalidArgument("item " + std::to_string(i) + " of " + std::to_string(size) +
                            " bytes does not fit into a segment of " + std::to_string(cap));
    uint64_t at = (end + (align - 1)) & ~(align - 1); // wraps to something below `end` at the top
    if (plan.sizes.empty() || at < end || at > cap - size) {
      plan.sizes.push_back(0);
      at = 0;
    }
    plan.places.push_back({plan.sizes.size() - 1, at});
    end = at + size;
    plan.sizes.back() = end;
  }
  return plan;
}

} // namespace tolk
