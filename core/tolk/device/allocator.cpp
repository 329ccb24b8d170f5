#include "tolk/device/allocator.h"

#include <algorithm>
#include <vector>

#include "tolk/base/check.h"
#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/base/text.h"
#include "tolk/device/plugin_loader.h"
#include "tolk/device/status.h"

namespace tolk {

tolk_status Allocator::create(const AllocationRequest& request, tolk_buffer** out) {
  tolk_buffer_desc desc{};
  desc.struct_size = sizeof desc;
  desc.kind = request.kind;
  desc.usage = request.usage;
  desc.flags = request.zeroed ? uint32_t{TOLK_BUFFER_ZEROED} : 0u;
  desc.size = request.bytes;
  auto lock = device_.plugin().serialize();
  return device_.plugin().buffer.create(device_.handle(), &desc, out);
}

void Allocator::destroy(tolk_buffer* buffer) {
  Plugin& plugin = device_.plugin();
  if (device_.stream()) { // submitted work may still use it; an error of that work shows at the next wait
    std::lock_guard submit(device_.submit_mutex());
    auto serial = plugin.serialize();
    plugin.stream.synchronize(device_.stream(), TOLK_FOREVER);
  }
  auto serial = plugin.serialize();
  plugin.buffer.destroy(buffer);
}

tolk_buffer* Allocator::allocate(const AllocationRequest& request) {
  device_.require_usable();
  const uint64_t limit = device_.caps().max_buffer_bytes;
  if (limit != 0 && request.bytes > limit)
    throw OutOfMemory("allocation of " + human_bytes(request.bytes) + " failed on " + device_.name() +
                      ": one buffer can have " + human_bytes(limit) + " at most");
  std::lock_guard lock(mutex_);
  tolk_buffer* buffer = nullptr;
  if (request.cached && !request.zeroed) {
    auto it = free_.find({request.bytes, request.kind});
    if (it != free_.end()) {
      auto position = it->second.front();
      it->second.pop_front();
      if (it->second.empty()) free_.erase(it);
      buffer = position->buffer;
      cache_.erase(position);
      cached_bytes_ -= request.bytes;
    }
  }
  if (!buffer) {
    tolk_status status = create(request, &buffer);
    if (status == TOLK_E_DEVICE_OOM || status == TOLK_E_HOST_OOM) {
      take_error_text(status);
      DeviceMemory before{live_bytes_, live_count_, peak_bytes_, cached_bytes_, {}};
      trim_locked(0);
      {
        auto serial = device_.plugin().serialize();
        device_.plugin().device.trim(device_.handle());
      }
      status = create(request, &buffer);
      if (status == TOLK_E_DEVICE_OOM || status == TOLK_E_HOST_OOM) {
        take_error_text(status);
        throw OutOfMemory(out_of_memory_text(request, before));
      }
    }
    device_.check(status, "allocation of " + human_bytes(request.bytes));
    if (!buffer) throw PluginError(device_.name() + ": buffer create succeeded but gave no buffer");
  }
  live_.emplace(buffer, Live{request, false});
  live_bytes_ += request.bytes;
  live_count_++;
  peak_bytes_ = std::max(peak_bytes_, live_bytes_);
  return buffer;
}

void Allocator::adopt(tolk_buffer* buffer) {
  std::lock_guard lock(mutex_);
  live_.emplace(buffer, Live{{}, true});
}

void Allocator::release(tolk_buffer* buffer) {
  std::lock_guard lock(mutex_);
  auto it = live_.find(buffer);
  if (it == live_.end()) return; // the device was closed in between and destroyed it
  Live live = std::move(it->second);
  live_.erase(it);
  if (!live.imported) {
    live_bytes_ -= live.request.bytes;
    live_count_--;
  }
  const bool keep = !live.imported && live.request.cached && !live.request.zeroed && live.request.bytes > 0 &&
                    Config::current().lru && device_.alive();
  if (!keep) {
    destroy(buffer);
    return;
  }
  Key key{live.request.bytes, live.request.kind};
  cache_.push_back({key, buffer});
  free_[key].push_front(std::prev(cache_.end()));
  cached_bytes_ += live.request.bytes;
  trim_locked(std::max<uint64_t>(peak_bytes_, 64 << 20));
}

void Allocator::trim_locked(uint64_t keep_bytes) {
  while (cached_bytes_ > keep_bytes && !cache_.empty()) {
    auto oldest = cache_.begin();
    auto slot = free_.find(oldest->key);
    TOLK_CHECK(slot != free_.end(), "a cached buffer is not in the free lists");
    slot->second.pop_back(); // newest first: the oldest of its size is the last
    if (slot->second.empty()) free_.erase(slot);
    cached_bytes_ -= oldest->key.first;
    destroy(oldest->buffer);
    cache_.erase(oldest);
  }
}

void Allocator::trim() {
  std::lock_guard lock(mutex_);
  trim_locked(0);
}

DeviceMemory Allocator::memory() const {
  std::lock_guard lock(mutex_);
  return {live_bytes_, live_count_, peak_bytes_, cached_bytes_, {}};
}

void Allocator::destroy_all() {
  std::lock_guard lock(mutex_);
  trim_locked(0);
  for (auto& [buffer, live] : live_) destroy(buffer);
  live_.clear();
  live_bytes_ = live_count_ = 0;
}

std::string Allocator::out_of_memory_text(const AllocationRequest& request, const DeviceMemory& before) {
  std::string text = "allocation of " + human_bytes(request.bytes) + " failed on " + device_.name() +
                     ". Used: " + human_bytes(live_bytes_) + " in " + std::to_string(live_count_) +
                     " buffers, peak " + human_bytes(peak_bytes_) + "; " + human_bytes(before.cached_bytes) +
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
  for (const auto& [buffer, live] : live_)
    if (!live.imported) largest.push_back(&live.request);
  size_t shown = std::min<size_t>(5, largest.size());
  std::partial_sort(largest.begin(), largest.begin() + static_cast<std::ptrdiff_t>(shown), largest.end(),
                    [](const auto* a, const auto* b) { return a->bytes > b->bytes; });
  for (size_t i = 0; i < shown; i++)
    text += (i == 0 ? ". Largest: " : ", ") + human_bytes(largest[i]->bytes) +
            (largest[i]->label.empty() ? "" : " (" + largest[i]->label + ")");
  return text;
}

} // namespace tolk
