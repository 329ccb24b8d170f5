// Which calls of a LINEAR need not run again when only inputs change.
#pragma once

#include <span>

#include "tolk/base/api.h"
#include "tolk/uop/uop.h"

namespace tolk::engine {

struct Pruned {
  UOp kept, once; // LINEARs; the order inside each is the given one
};
// Divides the calls: `once` may run a single time, before all others; `kept` must run every time. Kept are calls
// that access a buffer of `needed` (the inputs), and calls that access a buffer that an earlier kept call accesses.
// Kept as well are calls whose results would change otherwise: those that access a buffer that a kept call writes,
// those whose kernel uses a variable, and those that update a buffer from its previous contents, in one call or over
// several. Assumes that nothing else changes buffers between runs.
TOLK_API Pruned prune_linear(const UOp& linear, std::span<const UOp> needed, std::span<const UOp> held = {});

} // namespace tolk::engine
