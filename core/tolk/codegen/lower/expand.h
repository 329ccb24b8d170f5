// Vectorization and unrolling: each lane of an UPCAST or UNROLL range becomes a separate value.
//
// A value is lowered once for each assignment of lanes to the unrolled ranges it depends on. A VECTOR range
// stays whole: values that depend on it get its width as lanes; a LOAD becomes a vector load, a splat, or is
// made of lanes, by its coefficient along the range. THREAD ranges become one SPECIAL, LOCAL ranges another. Loop and Reduce ranges
// remain as loops, with indices in linear form.
#pragma once

#include <cstdint>
#include <vector>

#include "tolk/uop/uop.h"

namespace tolk::codegen {

struct Expansion {
  UOp sink;          // values with lanes, and loops
  int64_t tiles = 1; // values of the SPECIAL of work-groups
  int64_t items = 1; // values of the SPECIAL of work-items
};

// `sink` is a kernel AST after opts. `independent` is how many accumulators hide the latency of an addition:
// where a reduction has fewer, its unrolled values are spread over several. Throws InternalError for a node that
// kernels cannot contain.
Expansion expand(const UOp& sink, int independent);

} // namespace tolk::codegen
