// From an argument of a call, an expression over storage nodes, to storage.
#pragma once

#include <string>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/engine/run/binding.h"
#include "tolk/engine/run/var_vals.h"

namespace tolk::engine {

// What one run brings along. Everything defaults to empty or false, but update_stats.
struct ExecContext {
  VarVals var_vals{};
  std::vector<UOp> input_uops{};          // what PARAM k stands for
  std::vector<AnyBuffer> input_overlay{}; // storage for PARAM k that precedes input_uops; none where empty
  bool jit = false;                       // the LINEAR is compiled already
  bool wait = false;                      // block until the work is done, and time it
  bool update_stats = true;               // count it in the statistics
};
inline ExecContext exec_context() { return {}; }

// What the binding knows of `node`, else by op: PARAM through the inputs, BUFFER through the binding, SLICE
// as a view (of every shard), MSELECT and MSTACK as one shard and as joined buffers; AFTER, RESHAPE and other
// ops that keep the storage are looked through. Nothing is allocated. Throws InvalidArgument: "unbound
// PARAM", "symbolic SLICE offset", "MSELECT of a single-device buffer", "MSELECT index I out of range N",
// "MSTACK of a multi-device buffer", "cannot resolve <op> to a buffer".
TOLK_API AnyBuffer resolve_buffer(BufferBinding& binding, const ExecContext& context, const UOp& node);
// The same for one device; throws InvalidArgument "names a multi-device buffer in a single-device context".
TOLK_API BufferRef resolve(BufferBinding& binding, const ExecContext& context, const UOp& node);

// Whether the storage of `node` depends on an input of the run: a PARAM is reached through SLICE, MSELECT,
// MSTACK and what keeps storage.
TOLK_API bool reaches_param(const UOp& node);

// Names of the devices that an argument is on, one for each position, read off the graph; empty where it
// names none.
TOLK_API std::vector<std::string> argument_devices(const UOp& argument);

// The arguments of a CALL that are storage: all but BINDs and variables. The slots of a kernel count these.
TOLK_API std::vector<UOp> buffer_arguments(const UOp& call);

// The buffers of each device position: group j has shard j of every argument. One group when every buffer is
// on one device. Throws InvalidArgument "mixed single and multi-device buffers", "multi-device buffers
// disagree on device count".
TOLK_API std::vector<std::vector<BufferRef>> unwrap_multi(std::span<const AnyBuffer> buffers);

} // namespace tolk::engine
