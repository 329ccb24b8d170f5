// What tensors were made from, before a device asked for it: HOST storage that only the COPY to the device
// reads and that nobody writes. Such a copy can be made at any time, and once is enough.
#pragma once

#include "tolk/base/api.h"
#include "tolk/uop/uop.h"

namespace tolk::engine {

// Says it of a BUFFER from host_storage() on which no handle is given out. The BUFFER has its device Buffer.
TOLK_API void set_host_data(const UOp& buffer);
// The BUFFER when the node is a COPY of such data; null otherwise.
TOLK_API UOp host_data_of(const UOp& copy);

} // namespace tolk::engine
