// Device limits for memory planning; the schedule layer has no access to devices.
#pragma once

#include <set>
#include <string>

#include "tolk/base/api.h"
#include "tolk/schedule/memory/memory_plan.h"

namespace tolk::engine {

// The limits of the devices, by their capabilities. `devices` are canonical names, also several joined by
// commas. Devices without limits are left out, and so are those that cannot be opened: running reports the
// error.
TOLK_API schedule::ViewLimitsTable view_limits(const std::set<std::string>& devices);

} // namespace tolk::engine
