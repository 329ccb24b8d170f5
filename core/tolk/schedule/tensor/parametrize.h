// The computation without its storage. Equal computations on different buffers, views at other offsets and
// other bound values have equal bodies, and share one cached schedule.
#pragma once

#include <span>
#include <vector>

#include "tolk/schedule/options.h"
#include "tolk/uop/uop.h"

namespace tolk::schedule {

// What a schedule is made of: tensor-level nodes, or CALLs of kernels, over PARAMs.
struct Body {
  UOp sink;                     // of the roots
  int64_t parameters = 0;       // number of PARAMs: slots are below it
  bool several_devices = false; // some value is on a device tuple
  bool kernels = false;         // a graph of kernels
};

struct Parametrized {
  Body body;                  // in the thread's arena; PARAMs are numbered in first-visit order
  std::vector<UOp> arguments; // what PARAM k stands for: global BUFFERs and SLICEs
  std::vector<UOp> binds;     // the BINDs met, global, one for each variable
  VarVals vars;               // their values
};

// Builds the body in the innermost arena. A SLICE is an argument of its own unless the graph writes to its
// buffer; then it stays a SLICE of the buffer's PARAM, so that overlap can be seen. In a graph of kernels
// BUFFERs with negative slots that no root names are temporaries and stay. Throws InvalidArgument for
// a root without a value, and when a variable is bound to two values or to one outside its bounds.
Parametrized parametrize(std::span<const UOp> roots);

// Whether a call's body is a SINK of tensor-level nodes, as opposed to a kernel.
inline bool is_function_sink(const UOp& body) { return body.is(Op::SINK) && body.arg() == Arg(); }
// The SINK of a function, which has PARAMs already.
Body body_of(const UOp& sink);

} // namespace tolk::schedule
