// Finished schedules by content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/base/hash.h"
#include "tolk/schedule/options.h"
#include "tolk/uop/uop.h"

namespace tolk::schedule {

// A schedule without one call's storage and values; all nodes are global. PARAM k below the number of
// arguments is argument k, those above are the outputs; BUFFERs are temporaries.
struct Template {
  UOp linear;
  std::vector<UOp> outputs;           // PARAMs
  std::vector<UOp> results;           // by root, over PARAMs and VARs
  std::vector<std::string> variables; // that kernels use
};

// Key of a body and the options: shapes, dtypes, devices and variables' bounds count, values and storage do
// not.
ContentKey schedule_key(const UOp& body, const Options& options);

// Thread-safe. The oldest entry goes when there are too many.
std::shared_ptr<const Template> find_schedule(const ContentKey& key);
void keep_schedule(const ContentKey& key, std::shared_ptr<const Template> schedule);

// Counters since the process started, and how many schedules the cache holds.
struct CacheCounters {
  uint64_t hits = 0, misses = 0;
  size_t entries = 0;
};
TOLK_API CacheCounters schedule_cache_counters();
TOLK_API void clear_schedule_cache();

} // namespace tolk::schedule
