// Kernels of files, made safe to compile: whatever the graph says, no access leaves its argument.
#pragma once

#include "tolk/uop/uop.h"

namespace tolk::engine {

// The kernel's SINK with a bounds test in the gate of each access whose index is not proven to lie inside the
// storage: by its bounds, or under the gate that it has. Loads outside give 0, stores outside do nothing. A
// kernel whose accesses are all proven is returned as it is, which those of the scheduler are, except
// indices that are data.
UOp bounded_kernel(const UOp& sink);

} // namespace tolk::engine
