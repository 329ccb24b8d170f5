// Counters of what the process executed since its start or the last reset, and of the memory it holds.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tolk/base/api.h"

namespace tolk::engine {

// Kernels and copies count once for each device position. A graph call counts as one kernel with the work of
// its inner calls, so only kernel_count depends on batching. Runs with update_stats false (validation,
// tuning, internal copies) do not count.
struct TOLK_API GlobalCounters {
  int64_t global_ops = 0, global_mem = 0; // arithmetic operations; bytes touched
  int64_t kernel_count = 0;
  double time_sum_s = 0; // of timed runs only
  // Bytes of live buffers, without imported memory, views and blocks cached for reuse.
  int64_t mem_used = 0;
  std::map<std::string, int64_t> mem_used_per_device;

  static GlobalCounters get(); // a copy; any thread
  static void reset();         // everything but the memory
};

// Adds to the counters.
TOLK_API void count_execution(int64_t launches, double ops, double mem, double seconds = 0);

} // namespace tolk::engine
