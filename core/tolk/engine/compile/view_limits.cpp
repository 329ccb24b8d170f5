#include "tolk/engine/compile/view_limits.h"

#include <algorithm>

#include "tolk/base/error.h"
#include "tolk/device/registry.h"
#include "tolk/uop/build.h"

namespace tolk::engine {

void each_device(const std::set<std::string>& devices,
                 const std::function<void(const std::string& name, const tolk_caps& caps)>& visit) {
  for (const std::string& names : devices)
    for (const std::string& name : split_devices(names)) {
      if (name.empty() || name == "HOST") continue;
      try {
        visit(name, device(name).caps());
      } catch (const DeviceError&) {
      }
    }
}

schedule::ViewLimitsTable view_limits(const std::set<std::string>& devices) {
  schedule::ViewLimitsTable table;
  each_device(devices, [&](const std::string& name, const tolk_caps& caps) {
    schedule::ViewLimits limits;
    limits.alignment =
        caps.flags & TOLK_CAP_NO_OFFSET_VIEWS ? 0 : int64_t(std::max<uint64_t>(caps.offset_align, 1));
    if (caps.offset_max != 0)
      limits.largest_offset = int64_t(std::min<uint64_t>(caps.offset_max, uint64_t(limits.largest_offset)));
    if (limits != schedule::ViewLimits{}) table.emplace(name, limits);
  });
  return table;
}

} // namespace tolk::engine
