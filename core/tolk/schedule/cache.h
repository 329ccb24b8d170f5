// Finished schedules by content.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tolk/base/hash.h"
#include "tolk/schedule/schedule.h"
#include "tolk/uop/uop.h"

namespace tolk::schedule {

// A schedule without this call's storage and values; all nodes are global. PARAM k below the number of
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

// A lowered SINK (kernel_graph.h) and what it became; both global.
struct LoweredSink {
  UOp sink, linear;
};
// The same for these; `sink` is compared in builds with TOLK_VERIFY.
UOp find_lowered(const ContentKey& key, const UOp& sink);
void keep_lowered(const ContentKey& key, LoweredSink lowered);

// "scheduled N kernels in T ms | cache hit KEY", for DEBUG=1 and, when it is one kernel, 3.
void log_scheduled(size_t kernels, double ms, bool hit, const ContentKey& key);

} // namespace tolk::schedule
