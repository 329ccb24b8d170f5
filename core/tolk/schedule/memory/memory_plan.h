// Temporaries of a LINEAR share memory where their lifetimes allow: one arena BUFFER for each placement and
// lane, every temporary a SLICE of it.
#pragma once

#include <cstdint>
#include <span>

#include "tolk/base/api.h"
#include "tolk/schedule/options.h"
#include "tolk/uop/uop.h"

namespace tolk::schedule {

struct MemoryPlanStats {
  int64_t bytes_before = 0, bytes_after = 0; // of planned buffers, of arenas
  size_t buffers = 0, arenas = 0;
};

// The LINEAR with its temporaries planned: BUFFERs with negative slots, anywhere inside an argument, that are
// not in `held` (compared by identity), whose first call writes them, and all of whose devices have views at
// offsets. What is on several devices has the same place on all of them. Left alone are buffers filled from
// HOST, since a device may use the host's memory in their place, and buffers that are read where nothing
// before has written them: their contents come from elsewhere (DEBUG=1 names them).
//
// Buffers that a COPY reads or writes have a lane of their own, in which memory is reused only once as many
// calls have passed as the buffer was live, so that transfers do not wait for each other. A SLICE call whose
// result is not held is dropped, and its result is written as a SLICE of the source in all later calls.
//
// Bodies are not touched. The layout depends on `linear` alone; nothing may be read through a planned node
// after the run. With NO_MEMORY_PLANNER, and when it is no LINEAR, `linear` is returned as it is. Throws
// InvalidArgument ("too large") when sizes do not fit 63 bits. DEBUG=1 prints what was saved.
TOLK_API UOp plan_memory(const UOp& linear, std::span<const UOp> held = {}, MemoryPlanStats* stats = nullptr,
                         const ViewLimitsTable& limits = {});

// The LINEAR without the SLICE calls whose results are not held: later arguments name a SLICE of the source
// in their place. Part of plan_memory, and all of it that batching needs.
TOLK_API UOp inline_slice_calls(const UOp& linear, std::span<const UOp> held = {});

} // namespace tolk::schedule
