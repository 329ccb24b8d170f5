// The process-wide worker threads behind tolk_host.parallel_for.
#pragma once

#include <cstdint>

#include <tolk/plugin/host.h>

namespace tolk {

// Threads that take part in a loop, the caller included; constant after the first call.
uint32_t host_pool_width();
// Calls fn on pieces of at most `grain` indices (0: about four pieces per thread) and returns when all are
// done. Any thread; a call from inside a piece runs inline. Threads start at first use.
void host_parallel_for(uint64_t count, uint64_t grain, tolk_range_fn fn, void* arg);
// Joins the threads; later loops run inline.
void stop_host_pool();

} // namespace tolk
