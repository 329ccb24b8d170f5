// Device limits for memory planning; the schedule layer has no access to devices.
#pragma once

#include <string>

#include "tolk/base/api.h"
#include "tolk/schedule/memory/memory_plan.h"

namespace tolk::engine {

// Where views of the device's buffers may begin, by its capabilities; for schedule::Options::view_limits and
// schedule::plan_memory. A device that cannot be opened has no limits here: running says what is wrong.
TOLK_API schedule::ViewLimits view_limits(const std::string& device);

} // namespace tolk::engine
