#include "tolk/engine/compile/view_limits.h"

#include <algorithm>

#include "tolk/base/error.h"
#include "tolk/device/registry.h"
#include "tolk/uop/build.h"

namespace tolk::engine {
namespace {

schedule::ViewLimits limits_of(const std::string& name) {
  schedule::ViewLimits limits;
  try {
    const tolk_caps& caps = device(name).caps();
    limits.alignment =
        caps.flags & TOLK_CAP_NO_OFFSET_VIEWS ? 0 : int64_t(std::max<uint64_t>(caps.offset_align, 1));
    if (caps.offset_max != 0)
      limits.largest_offset = int64_t(std::min<uint64_t>(caps.offset_max, uint64_t(limits.largest_offset)));
  } catch (const DeviceError&) {
    return {};
  }
  return limits;
}

} // namespace

schedule::ViewLimitsTable view_limits(const std::set<std::string>& devices) {
  schedule::ViewLimitsTable table;
  for (const std::string& names : devices)
    for (const std::string& name : split_devices(names)) {
      if (name.empty() || name == "HOST" || table.contains(name)) continue;
      if (schedule::ViewLimits limits = limits_of(name); limits != schedule::ViewLimits{})
        table.emplace(name, limits);
    }
  return table;
}

} // namespace tolk::engine
