// Executes the calls of a LINEAR in order: kernels, copies, views, replayed batches. The only execution path,
// of tensors, models and captured functions.
//
//   BufferBinding binding(device("CPU"));
//   run_linear(binding, schedule.linear, {.var_vals = schedule.vars});
//
// The first run of a LINEAR in a binding prepares it (compiles, loads, resolves storage); later runs only
// launch, and resolve again what changed in the binding (BufferBinding::epoch).
#pragma once

#include <cstdint>

#include "tolk/base/api.h"
#include "tolk/engine/compile/compile_linear.h"
#include "tolk/engine/run/binding.h"
#include "tolk/engine/run/resolve.h"

namespace tolk::engine {

using RunOptions = ExecContext;

// Bodies: SINK (compiled first; not with options.jit), PROGRAM, COPY (destination, source; a buffer_copy),
// SLICE (out, source: binds `out` to the view that the body describes), CUSTOM_FUNCTION "graph"
// (engine/graph/graph_call.h). Kernels and copies on several devices run once for each position, with the
// variable _device_num set to it; a copy of one source to several destinations is a broadcast.
//
// The observable result is that of strictly sequential execution. Nothing runs unless the whole list is
// valid. Returns without waiting for the devices unless options.wait or DEBUG >= 2. When a call fails,
// earlier ones have run and later ones have not.
//
// Throws InvalidArgument: "expected CALL, got <op>", "unexpected call body <op>", "uncompiled kernel in a jit
// linear", `unbound variable "n" used by <kernel>`, "malformed COPY call", what resolve_buffer and
// unwrap_multi throw, a buffer on another device than its kernel, positions that need different targets;
// CompileError; DeviceError.
TOLK_API void run_linear(Device& ambient, const ToProgram& make_program, BufferBinding& binding,
                         const UOp& linear, const RunOptions& options = {});
// With the binding's ambient device and the engine's own compilation.
TOLK_API void run_linear(BufferBinding& binding, const UOp& linear, const RunOptions& options = {});

// Compiles, loads and checks without running, for a later run_linear. `progress` is called while kernels
// compile.
TOLK_API void prepare_linear(BufferBinding& binding, const UOp& linear, const VarVals& var_vals,
                             const Progress& progress = {});
// The number of kernel launches of one run of a LINEAR, those inside graphs and each position included.
TOLK_API size_t count_kernels(const UOp& linear);

// Executions of graph calls since the process started, the recording runs included. Any thread.
uint64_t graph_launches();

} // namespace tolk::engine
