// Bounds checks for kernels from files: no access leaves its argument, whatever the graph says.
#pragma once

#include "tolk/uop/uop.h"

namespace tolk::engine {

// The kernel's SINK with a bounds test in the gate of each access that is not proven to stay inside its storage, by
// the bounds of the index or by its gate. Loads outside give 0, stores outside do nothing. A kernel without such an
// access is returned as it is; kernels of the scheduler have them only where data are indices.
UOp bounded_kernel(const UOp& sink);

} // namespace tolk::engine
