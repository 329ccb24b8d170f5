// Thread-local capture hook: schedules run, or a capturer records them.
//
//   std::vector<UOp> linears;
//   auto record = [&](const UOp& linear, const engine::VarVals&) { linears.push_back(linear); };
//   {
//     engine::CaptureScope scope(record);
//     y.realize(); // schedules, links the nodes to their results, runs nothing
//   }
//
// Capturers are a stack per thread; the newest gets the schedules. These have no memory plan, because a capture
// plans memory once for all of its schedules. Copies and launches that code issues directly always run at once.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/engine/run/var_vals.h"
#include "tolk/uop/uop.h"

namespace tolk::engine {

// Takes a schedule (LINEAR) and the values of the variables that it uses.
using Capturer = std::function<void(const UOp& linear, const VarVals& vars)>;

// The capturers of this thread, the newest last.
TOLK_API const std::vector<Capturer>& capturing();

// Installs a capturer while it lives. Scopes nest.
class TOLK_API CaptureScope {
public:
  explicit CaptureScope(Capturer capturer);
  ~CaptureScope();
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;

private:
  size_t place_;
};

// Whether schedules of this thread are captured: there is a capturer, and CAPTURING is not 0.
TOLK_API bool is_capturing();

// Whether a write was assigned, or a BUFFER made, before this thread's newest capture began.
TOLK_API bool is_older_than_capture(const UOp& u);

// Storage of values that this thread computed at once, under CAPTURING=0, since its newest capture began. Replays
// may read these values.
TOLK_API void note_uncaptured(const UOp& buffer);
TOLK_API bool was_uncaptured(const UOp& buffer);

// Passes a schedule to the newest capturer; there must be one. A schedule without calls is dropped.
TOLK_API void capture(const UOp& linear, const VarVals& vars);

// Throws JitError inside a capture, unless UNSAFE_ALLOW_JIT_BUFFER is set: the host would read values older than
// those that replays compute. `what` begins the message.
TOLK_API void require_not_capturing(std::string_view what);

} // namespace tolk::engine
