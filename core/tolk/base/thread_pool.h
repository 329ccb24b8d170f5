// Threads for core's own work (compiling kernels side by side). Kernels do not run here; a device has its own
// workers.
#pragma once

#include <cstddef>
#include <functional>

#include "tolk/base/api.h"

namespace tolk {

// Threads that compile: PARALLEL, or when that is 0 one per core this process may use; at least 1.
TOLK_API unsigned compile_threads();

// Calls body(0) .. body(count - 1), each once, in no fixed order, on up to `threads` threads of which the
// caller is one, and returns when all are done. Workers see the caller's settings (ScopedConfig). When a body
// throws, indices not yet begun are skipped and the first exception is thrown again in the caller. A body may
// itself call parallel_for.
TOLK_API void parallel_for(size_t count, unsigned threads, const std::function<void(size_t)>& body);

} // namespace tolk
