#include "tolk/device/pools.h"

#include <algorithm>

#include "tolk/base/error.h"
#include "tolk/device/allocator.h"
#include "tolk/device/buffer.h"
#include "tolk/device/copy.h"
#include "tolk/device/device.h"
#include "tolk/loader/plugin_loader.h"

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

tolk_status PoolTable::create(const AllocationRequest& request, uint64_t extra, Storage*& out) {
  tolk_buffer_desc desc{};
  desc.struct_size = sizeof desc;
  desc.kind = request.kind;
  desc.usage = request.usage;
  desc.flags = request.zeroed ? uint32_t{TOLK_BUFFER_ZEROED} : 0u;
  desc.size = request.bytes + extra;
  desc.align = request.align;
  tolk_buffer* handle = nullptr;
  {
    auto serial = device_.plugin().serialize();
    if (tolk_status status = device_.plugin().buffer.create(device_.handle(), &desc, &handle); status < 0)
      return status;
  }
  if (!handle) throw PluginError(device_.name() + ": buffer create succeeded but gave no buffer");
  out = adopt(handle, request, false);
  return TOLK_OK;
}

Storage* PoolTable::adopt(tolk_buffer* handle, const AllocationRequest& request, bool imported) {
  auto block = std::make_unique<Storage>(device_);
  block->handle = handle;
  block->request = request;
  block->imported = imported;
  Storage* out = block.get();
  std::lock_guard lock(mutex_);
  blocks_.emplace(out, std::move(block));
  out->pool = enter(out, request.pool);
  return out;
}

void PoolTable::destroy(Storage* block) {
  close(*block);
  std::lock_guard lock(mutex_);
  pools_.erase(block->pool);
  blocks_.erase(block);
}

void PoolTable::close(Storage& block) {
  auto serial = block.device.plugin().serialize();
  block.device.plugin().buffer.destroy(block.handle);
  block.handle = nullptr;
}

int32_t PoolTable::enter(Storage* storage, int32_t id) {
  const bool own = id >= 0;
  if (!own) id = next_pool_id();
  int32_t next = next_.load(std::memory_order_relaxed);
  while (next <= id && !next_.compare_exchange_weak(next, id + 1, std::memory_order_relaxed)) {
  }
  pools_.insert_or_assign(id, Pool{storage, own});
  return id;
}

Storage& PoolTable::storage(int32_t id) const {
  std::lock_guard lock(mutex_);
  return *at(id).storage;
}

Storage& PoolTable::share(int32_t id) const {
  std::lock_guard lock(mutex_);
  Storage& block = *at(id).storage;
  block.owners.fetch_add(1, std::memory_order_relaxed);
  return block;
}

bool PoolTable::has(int32_t id) const {
  std::lock_guard lock(mutex_);
  return pools_.contains(id);
}

bool PoolTable::is_own(int32_t id) const {
  std::lock_guard lock(mutex_);
  return at(id).own;
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

} // namespace tolk
