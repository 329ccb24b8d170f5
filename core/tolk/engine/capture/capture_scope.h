// Who gets the schedules of this thread: nobody, and they run; or a capturer, and they are written down.
//
//   std::vector<UOp> linears;
//   {
//     engine::CaptureScope scope([&](const UOp& linear, const engine::VarVals&) { linears.push_back(linear);
//     }); y.realize();   // schedules, records its result on the nodes, runs nothing
//   }
//
// The registry is a stack of the thread: only its newest entry is asked. Schedules that reach a capturer have
// no memory plan, since one plan for all of a capture's schedules is better and is made later. Copies and
// launches that code issues directly run at once, captured or not.
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

// Installs a capturer for its own lifetime; takes away its own entry, whatever else happened meanwhile.
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

// Storage of what this thread computed at once, by CAPTURING=0, since its newest capture began: that replays
// read its value is what was asked for.
TOLK_API void note_uncaptured(const UOp& buffer);
TOLK_API bool was_uncaptured(const UOp& buffer);

// Hands a schedule to the newest capturer; there must be one. A schedule without calls is dropped.
TOLK_API void capture(const UOp& linear, const VarVals& vars);

// Throws JitError while a capture is going on, unless UNSAFE_ALLOW_JIT_BUFFER is set: what the host reads
// then, `what` in the message, is older than what the replays will compute.
TOLK_API void require_not_capturing(std::string_view what);

} // namespace tolk::engine
