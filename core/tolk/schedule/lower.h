// From a body to the schedule that all its calls share.
#pragma once

#include <memory>

#include "tolk/schedule/cache.h"
#include "tolk/schedule/options.h"
#include "tolk/schedule/tensor/parametrize.h"

namespace tolk::schedule {

// The schedule of a body, from the cache or made and kept there, unless Options::cache is off. Null for a
// kernel's SINK, which needs no schedule. The body is in the thread's home; the result is global and not to be
// run as it is, as every call needs temporaries of its own. Throws as create_schedule does.
std::shared_ptr<const Template> lower_sink_to_linear(const Body& body, const Options& options);

} // namespace tolk::schedule
