#include "tolk/device/allocator.h"

#include <algorithm>
#include <random>

#include "tolk/base/check.h"
#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/base/test_switches.h"
#include "tolk/base/text.h"
#include "tolk/device/copy.h"
#include "tolk/device/pools.h"
#include "tolk/loader/plugin_loader.h"
#include "tolk/loader/status.h"

namespace tolk {
namespace {

bool scattered() { return test_switches().scatter.load(std::memory_order_relaxed); }

// A random place for the first byte that breaks no alignment; 0 where refs must begin at the handle's start.
uint64_t random_shift(const tolk_caps& caps, uint64_t align) {
  if (caps.flags & TOLK_CAP_NO_OFFSET_VIEWS) return 0;
  static thread_local std::minstd_rand random{std::random_device{}()};
  const uint64_t step = std::max({caps.buffer_align, caps.offset_align, caps.copy_align, caps.map_align,
                                  align, uint64_t{caps.vector_bytes}, uint64_t{64}});
  const uint64_t shift = step * (random() % 16);
  return caps.offset_max && shift > caps.offset_max ? 0 : shift;
}

bool out_of_memory(tolk_status status) { return status == TOLK_E_DEVICE_OOM || status == TOLK_E_HOST_OOM; }

} // namespace

Storage* Allocator::take_cached(const AllocationRequest& request) {
  if (!request.cached || request.zeroed) return nullptr;
  auto it = free_.find({request.bytes, request.kind});
  if (it == free_.end()) return nullptr;
  auto position = it->second.front();
  it->second.pop_front();
  if (it->second.empty()) free_.erase(it);
  Storage* storage = *position;
  cache_.erase(position);
  cached_bytes_ -= request.bytes;
  storage->owners.store(1, std::memory_order_relaxed);
  storage->request = request; // label and usage are the new owner's; its uses stay
  live_.insert(storage);
  return storage;
}

Storage* Allocator::allocate(const AllocationRequest& request) {
  device_.require_usable();
  const uint64_t limit = device_.caps().max_buffer_bytes;
  if (limit != 0 && request.bytes > limit)
    throw OutOfMemory("allocation of " + human_bytes(request.bytes) + " failed on " + device_.name() +
                      ": one buffer can have " + human_bytes(limit) + " at most");
  const bool scatter = scattered();
  std::lock_guard lock(mutex_);
  reap_locked(false);
  Storage* storage = scatter ? nullptr : take_cached(request);
  if (!storage) {
    const uint64_t shift = scatter ? random_shift(device_.caps(), request.align) : 0;
    tolk_status status = device_.pools().create(request, shift, storage);
    if (out_of_memory(status)) {
      take_error_text(status);
      DeviceMemory before{live_bytes_, live_count_, peak_bytes_, cached_bytes_, {}};
      trim_locked(0);
      reap_locked(true);
      {
        auto serial = device_.plugin().serialize();
        device_.plugin().device.trim(device_.handle());
      }
      status = device_.pools().create(request, shift, storage);
      if (out_of_memory(status)) {
        take_error_text(status);
        throw OutOfMemory(out_of_memory_text(request, before));
      }
    }
    device_.check(status, "allocation of " + human_bytes(request.bytes));
    storage->shift = shift;
    live_.insert(storage);
  }
  live_bytes_ += request.bytes;
  live_count_++;
  peak_bytes_ = std::max(peak_bytes_, live_bytes_);
  return storage;
}

Storage* Allocator::adopt(tolk_buffer* buffer, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  AllocationRequest request;
  request.bytes = bytes;
  Storage* storage = device_.pools().adopt(buffer, request, true);
  live_.insert(storage);
  return storage;
}

void Allocator::release(Storage* storage) {
  if (storage->owners.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  const bool scatter = scattered();
  std::lock_guard lock(mutex_);
  if (live_.erase(storage) == 0) return; // the device was closed in between and destroyed it
  unmap_storage(*storage);
  if (!storage->imported) {
    live_bytes_ -= storage->request.bytes;
    live_count_--;
  }
  reap_locked(false);
  const bool keep = !scatter && storage->shift == 0 && !storage->imported && storage->request.cached &&
                    !storage->request.zeroed && storage->request.bytes > 0 && Config::current().lru &&
                    device_.alive();
  if (!keep) {
    free_when_unused(storage);
    return;
  }
  cache_.push_back(storage);
  free_[key_of(*storage)].push_front(std::prev(cache_.end()));
  cached_bytes_ += storage->request.bytes;
  trim_locked(std::max<uint64_t>(peak_bytes_, 64 << 20));
}

void Allocator::free_when_unused(Storage* storage) {
  std::vector<Event> uses;
  if (device_.alive()) {
    SubmitLock submit(device_);
    try {
      if (!storage->uses.empty()) uses = Stream::pending(*storage);
    } catch (const Error&) { // no event to be had: destructors come here, so wait instead
      device_.compute().settle();
      if (device_.copy()) device_.copy()->settle();
    }
  }
  if (uses.empty())
    device_.pools().destroy(storage);
  else
    waiting_.push_back({storage, std::move(uses)});
}

void Allocator::reap_locked(bool wait) {
  if (waiting_.empty()) return;
  std::erase_if(waiting_, [&](Waiting& w) {
    for (const Event& use : w.uses) {
      if (use.is_done()) continue;
      if (!wait) return false;
      try {
        use.sync();
      } catch (const DeviceError& e) { // the stream keeps it for its next user
        log::debug(2, e.what());
      }
    }
    device_.pools().destroy(w.storage);
    return true;
  });
}

void Allocator::trim_locked(uint64_t keep_bytes) {
  while (cached_bytes_ > keep_bytes && !cache_.empty()) {
    Storage* oldest = cache_.front();
    auto slot = free_.find(key_of(*oldest));
    TOLK_CHECK(slot != free_.end(), "a cached buffer is not in the free lists");
    slot->second.pop_back(); // newest first: the oldest of its size is the last
    if (slot->second.empty()) free_.erase(slot);
    cached_bytes_ -= oldest->request.bytes;
    cache_.pop_front();
    free_when_unused(oldest);
  }
}

void Allocator::trim() {
  std::lock_guard lock(mutex_);
  trim_locked(0);
  reap_locked(true);
}

void Allocator::reap() {
  std::lock_guard lock(mutex_);
  reap_locked(false);
}

DeviceMemory Allocator::memory() const {
  std::lock_guard lock(mutex_);
  return {live_bytes_, live_count_, peak_bytes_, cached_bytes_, {}};
}

void Allocator::destroy_all() {
  std::lock_guard lock(mutex_);
  trim_locked(0);
  reap_locked(true);
  for (Storage* storage : live_) PoolTable::close(*storage);
  live_bytes_ = live_count_ = 0;
}

std::string Allocator::out_of_memory_text(const AllocationRequest& request, const DeviceMemory& before) {
  std::string text = "allocation of " + human_bytes(request.bytes) + " failed on " + device_.name() +
                     ". Used: " + human_bytes(live_bytes_) + " in " + counted(live_count_, "buffer") +
                     ", peak " + human_bytes(peak_bytes_) + "; " + human_bytes(before.cached_bytes) +
                     " of cached buffers were given back and did not suffice";
  tolk_memory driver{};
  driver.struct_size = sizeof driver;
  {
    auto serial = device_.plugin().serialize();
    device_.plugin().device.memory(device_.handle(), &driver);
  }
  if (driver.total_bytes != 0)
    text +=
        "; the device has " + human_bytes(driver.free_bytes) + " free of " + human_bytes(driver.total_bytes);
  std::vector<const AllocationRequest*> largest;
  for (const Storage* storage : live_)
    if (!storage->imported) largest.push_back(&storage->request);
  size_t shown = std::min<size_t>(5, largest.size());
  std::partial_sort(largest.begin(), largest.begin() + static_cast<std::ptrdiff_t>(shown), largest.end(),
                    [](const auto* a, const auto* b) { return a->bytes > b->bytes; });
  for (size_t i = 0; i < shown; i++)
    text += (i == 0 ? ". Largest: " : ", ") + human_bytes(largest[i]->bytes) +
            (largest[i]->label.empty() ? "" : " (" + largest[i]->label + ")");
  return text;
}

} // namespace tolk
