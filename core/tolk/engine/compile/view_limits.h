// Device limits for memory planning; the schedule layer has no access to devices.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "tolk/base/api.h"
#include "tolk/device/device.h"
#include "tolk/schedule/memory/memory_plan.h"

namespace tolk::engine {

// Visits the devices and their capabilities. `devices` are canonical names, also several joined by commas. Skips
// HOST, and devices that cannot be opened: running reports the error.
void each_device(const std::set<std::string>& devices,
                 const std::function<void(const std::string& name, const tolk_caps& caps)>& visit);

// The limits of the devices; those without limits are left out.
TOLK_API schedule::ViewLimitsTable view_limits(const std::set<std::string>& devices);

} // namespace tolk::engine
