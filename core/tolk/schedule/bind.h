// Step 8: this call's storage in a cached schedule.
#pragma once

#include <span>

#include "tolk/schedule/cache.h"
#include "tolk/schedule/tensor/parametrize.h"

namespace tolk::schedule {

// Arguments in the place of PARAMs, fresh user buffers for the outputs, fresh internal ones for temporaries.
// Needs the global table as the thread's present home.
Schedule bind_schedule(const Template& schedule, const Callified& call);

} // namespace tolk::schedule
