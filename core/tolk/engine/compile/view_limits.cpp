#include "tolk/engine/compile/view_limits.h"

#include <algorithm>

#include "tolk/base/error.h"
#include "tolk/device/registry.h"

namespace tolk::engine {

schedule::ViewLimits view_limits(const std::string& device) {
  schedule::ViewLimits limits;
  try {
    const tolk_caps& caps = tolk::device(device).caps();
    limits.alignment =
        caps.flags & TOLK_CAP_NO_OFFSET_VIEWS ? 0 : int64_t(std::max<uint64_t>(caps.offset_align, 1));
    if (caps.offset_max != 0)
      limits.largest_offset = int64_t(std::min<uint64_t>(caps.offset_max, uint64_t(limits.largest_offset)));
  } catch (const DeviceError&) {
    return {};
  }
  return limits;
}

} // namespace tolk::engine
