// Kernels of handed-in graphs that move data between devices.
#pragma once

#include <vector>

#include "tolk/uop/uop.h"

namespace tolk::schedule {

// Replaces every kernel that copies the whole of one buffer to a buffer on another device by a COPY. Throws
// InvalidArgument "all buffers must be on the same device: [...]" for other kernels with arguments on several
// devices; a device tuple is one device here.
void copy_between_devices(std::vector<UOp>& calls);

} // namespace tolk::schedule
