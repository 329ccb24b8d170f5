// Temporaries of a LINEAR share memory where their lifetimes allow: one arena BUFFER for each device and
// lane, every temporary a SLICE of it. The executed graph and the planned one are the same object.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/uop/uop.h"

namespace tolk::schedule {

struct MemoryPlanStats {
  int64_t bytes_before = 0, bytes_after = 0; // of planned buffers, of arenas
  size_t buffers = 0, arenas = 0;
};

// The LINEAR with its temporaries planned: BUFFERs with negative slots that are not in `held` (compared by
// identity), whose first call writes them. Buffers that a COPY touches are in a lane of their own, where
// memory is free again only after as many calls more as the buffer lived, so that transfers need not wait for
// one another; buffers filled from HOST are left alone, since a device may use the host's memory in their
// place. Bodies are not touched. The layout depends on `linear` alone. Throws InvalidArgument ("too large")
// when sizes do not fit 63 bits. A node that is no LINEAR is returned as it is.
TOLK_API UOp plan_memory(const UOp& linear, std::span<const UOp> held = {}, MemoryPlanStats* stats = nullptr);

} // namespace tolk::schedule
