#include "tolk/engine/run/statistics.h"

#include <mutex>

#include "tolk/device/registry.h"

namespace tolk::engine {
namespace {

std::mutex mutex;
GlobalCounters total;

} // namespace

GlobalCounters GlobalCounters::get() {
  GlobalCounters out;
  {
    std::lock_guard lock(mutex);
    out = total;
  }
  for (Device* device : open_devices()) {
    auto live = int64_t(device->memory().live_bytes);
    out.mem_used += live;
    out.mem_used_per_device[device->name()] = live;
  }
  return out;
}

void GlobalCounters::reset() {
  std::lock_guard lock(mutex);
  total = {};
}

void count_execution(int64_t launches, double ops, double mem, double seconds) {
  std::lock_guard lock(mutex);
  total.kernel_count += launches;
  total.global_ops += int64_t(ops);
  total.global_mem += int64_t(mem);
  total.time_sum_s += seconds;
}

} // namespace tolk::engine
