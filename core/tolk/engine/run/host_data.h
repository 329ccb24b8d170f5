// Staged host data: HOST storage that a tensor was made from and that only the COPY to its device reads. It is never
// written, so the copy may run at any time, and runs once.
#pragma once

#include "tolk/base/api.h"
#include "tolk/uop/uop.h"

namespace tolk::engine {

// Marks a BUFFER from host_storage() as staged host data. Users have no handle on it.
TOLK_API void set_host_data(const UOp& buffer);
// The marked BUFFER when the node is a COPY of one; null otherwise.
TOLK_API UOp host_data_of(const UOp& copy);

} // namespace tolk::engine
