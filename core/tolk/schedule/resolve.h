// Lists of calls with the storage of one call: arguments replace PARAMs, temporaries are fresh.
#pragma once

#include <vector>

#include "tolk/schedule/cache.h"
#include "tolk/schedule/options.h"
#include "tolk/schedule/tensor/parametrize.h"

namespace tolk::schedule {

// The schedule for one call: its arguments, fresh user buffers for the outputs, fresh internal buffers for
// temporaries. The thread's home is the global table.
Schedule resolve(const Template& shared, const Parametrized& call);

// The calls of a LINEAR, with calls of LINEARs replaced by the calls in these. Throws InvalidArgument for a PARAM that no argument is given for, and for a
// variable whose bounds exceed those of its parameter.
std::vector<UOp> inline_functions(const UOp& linear);

} // namespace tolk::schedule
