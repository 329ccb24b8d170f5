// Step 1: the computation without its storage. Equal computations on different buffers, views at other
// offsets and other bound values have equal bodies, and share one cached schedule.
#pragma once

#include <span>
#include <vector>

#include "tolk/schedule/schedule.h"
#include "tolk/uop/arena.h"

namespace tolk::schedule {

struct Callified {
  UOp body; // SINK of the roots, in the thread's arena; storage is PARAM k, in first-visit order
  std::vector<UOp> arguments;   // what PARAM k stands for: global BUFFERs and SLICEs
  std::vector<UOp> binds;       // the BINDs met, global, one for each variable
  VarVals vars;                 // their values
  bool several_devices = false; // some value is on a device tuple
};

// Builds the body in the innermost arena. A SLICE is an argument of its own unless the graph writes to its
// buffer; then it stays a SLICE of the buffer's PARAM, so that overlap can be seen.
Callified callify(std::span<const UOp> roots);

} // namespace tolk::schedule
