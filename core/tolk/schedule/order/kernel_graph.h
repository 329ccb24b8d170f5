// Scheduling one level below create_schedule: from a graph of kernels that names every state of storage to a
// list of calls, and from calls of lists to one list that can run.
//
//   UOp b1 = after(b, {call(kernel, {b, a})});       // b once the kernel wrote it
//   UOp c1 = after(c, {call(other, {c, b1})});       // reads that state
//   schedule_kernel_graph(sink({c1}))                // LINEAR(CALL(kernel, b, a), CALL(other, c, b))
//
// A *state* of storage is a BUFFER or PARAM, which is its contents before anything ran, or AFTER(state,
// effects...), its contents behind them. Effects are CALLs (also inside END), AFTERs whose effects are done
// before these CALLs, and STOREs, which are of variables and mean nothing here. Views, MSELECT and MSTACK of
// states may stand for them in arguments.
//
// create_schedule (schedule.h) has no need of this level: it goes from tensors to ordered calls in one piece
// and is what realising tensors uses. This is for graphs of kernels that somebody else made, for bodies that
// are called more than once, and for whoever wants the two halves apart.
#pragma once

#include <functional>
#include <optional>

#include "tolk/base/api.h"
#include "tolk/schedule/memory/memory_plan.h"
#include "tolk/schedule/schedule.h"
#include "tolk/uop/uop.h"

namespace tolk::schedule {

// The kernels below a SINK in an order to run, as a LINEAR of CALLs whose arguments are storage; each kernel
// once, bodies untouched. A kernel comes behind the kernels of every state that it reads, and before those
// that supersede such a state; among kernels that may come next the one that was met first. (The design calls
// this create_schedule.) A BIND or variable among a kernel's arguments is dropped, as its parameters number
// storage alone; calls of LINEARs keep theirs.
//
// Throws InvalidArgument: "input to kernel must resolve to a buffer state, not <op>"; "AFTER source should be
// CALL, END, STORE, or AFTER, not <op>"; "cycle detected" with the kernels on it, when each reads what the
// next overwrites.
TOLK_API UOp schedule_kernel_graph(const UOp& sink);

// From a tensor-level SINK to the SINK of its graph of kernels.
using GetKernelGraph = std::function<UOp(const UOp& sink)>;

// The LINEAR of a tensor-level SINK: its kernel graph in order, and the same for bodies of its calls that are
// such SINKs. Nothing for a kernel's SINK, and for what is no SINK. Looked up first, and kept, by content but
// for the values of bound variables, unless SCACHE is 0. What is returned has PARAMs and temporaries in
// common with every other answer for the same SINK, so it is not to be run as it is: see
// create_linear_with_vars. `sink` is a global node.
TOLK_API std::optional<UOp> lower_sink_to_linear(const GetKernelGraph& get_kernel_graph, const UOp& sink);

struct LinearOptions {
  bool memory_plan = true;
  ViewLimitsTable view_limits; // for the memory plan
  // Is offered the complete LINEAR, which has no memory plan then, and the values of its variables. True when
  // it took them: nothing is to be run here. The engine's captures come in this way.
  std::function<bool(const UOp& linear, const VarVals& vars)> capture;
};
struct LinearWithVars {
  UOp linear;
  VarVals vars;
};

// A tensor-level SINK, or a CALL of one or of a LINEAR with storage and bound variables as arguments, as one
// LINEAR to run. Bodies are lowered; calls of LINEARs are written out, one inside another: PARAM k is the
// call's argument k, variable p<k> the variable that argument k binds (calls without such arguments see those
// around them), and storage that a body names for itself is fresh for every call. Of a SINK the storage that
// its sources are states of stays what it is. Kernels that only copy from one device to another become COPY.
// Memory is planned, but for the call's BUFFER arguments and what a SINK names. `vars` are the variables that
// kernels use, with the values that `root` binds.
//
// Throws InvalidArgument: "expected LINEAR, got <op>"; a PARAM that no argument is given for; "all buffers
// must be on the same device: [...]"; "bind mismatch on n, 3 != 4"; a value outside its variable's bounds;
// what schedule_kernel_graph throws. Nothing is kept or captured then. `root` is a global node.
TOLK_API LinearWithVars create_linear_with_vars(const GetKernelGraph& get_kernel_graph, const UOp& root,
                                                const LinearOptions& options = {});

// A kernel that stores every element of one argument to the same place of the other, and nothing else, as a
// COPY to `device`; null for other kernels.
TOLK_API UOp copy_of_kernel(const UOp& kernel, const std::string& device);

} // namespace tolk::schedule
