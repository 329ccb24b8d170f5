// Resolves arguments of calls, which are expressions over storage nodes, to device buffers.
#pragma once

#include <string>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/engine/run/binding.h"
#include "tolk/engine/run/var_vals.h"

namespace tolk::engine {

// The inputs and options of one run.
struct ExecContext {
  VarVals var_vals{};
  std::vector<UOp> input_uops{};          // PARAM k is input_uops[k]
  std::vector<AnyBuffer> input_overlay{}; // buffers of PARAM k; where one is set, input_uops[k] is not used
  bool jit = false;                       // the LINEAR is compiled already
  bool wait = false;                      // block until the work is done, and time it
  bool update_stats = true;               // count the run in GlobalCounters
};
inline ExecContext exec_context() { return {}; }

// The buffer of `node`: the binding's entry when it has one. Else by op: PARAM from the inputs, BUFFER from
// the binding, SLICE a view (of every shard), MSELECT one shard, MSTACK the joined buffers, and
// ops::SameBuffer their source's buffer. Allocates no device memory. Throws InvalidArgument: "unbound PARAM",
// "symbolic SLICE offset", "MSELECT of a single-device buffer", "MSELECT index I out of range N", "MSTACK of
// a multi-device buffer", "cannot resolve <op> to a buffer".
TOLK_API AnyBuffer resolve_buffer(BufferBinding& binding, const ExecContext& context, const UOp& node);

// Whether the storage of an argument depends on an input of the run.
TOLK_API bool reaches_param(const UOp& node);

// The devices of an argument by name, one for each position; empty when its storage names none.
TOLK_API std::vector<std::string> argument_devices(const UOp& argument);

// How often a CALL runs: once for each position of its first argument.
size_t positions_of(const UOp& call);

// The storage arguments of a CALL: all but BINDs and variables. PARAM slots of kernels number these.
TOLK_API std::vector<UOp> buffer_arguments(const UOp& call);

// Buffers grouped by device position: group j has shard j of every argument. One group when every buffer is
// on one device. Throws InvalidArgument "mixed single and multi-device buffers", "multi-device buffers
// disagree on device count".
TOLK_API std::vector<std::vector<BufferRef>> unwrap_multi(std::span<const AnyBuffer> buffers);

} // namespace tolk::engine
