// Threads for work of the core, such as compiling kernels in parallel. Kernels do not run here; a device has
// its own workers.
#pragma once

#include <cstddef>
#include <functional>

#include "tolk/base/api.h"

namespace tolk {

// Number of compile threads: PARALLEL, or if that is 0 one per core available to this process; at least 1.
TOLK_API unsigned compile_threads();

// Calls body(0) .. body(count - 1) once each, in unspecified order, on up to `threads` threads including the
// caller's, and returns when all are done. Workers inherit the caller's settings (ScopedConfig). If a body
// throws, indices not yet started are skipped and the first exception is rethrown in the caller. Calls may nest.
TOLK_API void parallel_for(size_t count, unsigned threads, const std::function<void(size_t)>& body);

} // namespace tolk
