// Calls whose body is CUSTOM_FUNCTION "graph"(LINEAR): batches that a device replays as one. The nodes, and
// what run_linear asks of whatever replays them.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/engine/run/resolve.h"

namespace tolk::engine {

class PreparedLinear; // engine/run/prepared.h

// Replays a batch. Part of the binding's run state; what it holds stays alive until its work is done.
class TOLK_API GraphCall {
public:
  virtual ~GraphCall();
  // Records at the first run, replays later. `calls` are the inner calls, up to date with the binding and the
  // run. False: nothing was launched, and the caller runs the calls one by one. With `wait`, waits and stores
  // the seconds it took.
  virtual bool run(BufferBinding& binding, PreparedLinear& calls, const ExecContext& context, bool wait,
                   std::optional<double>& seconds) = 0;
  // Times of each launch of the last run that was waited for while a profile listened: in the order of the
  // inner calls and their positions, on the steady clock. False when they are unknown.
  struct NodeTime {
    uint64_t begin_ns, end_ns;
  };
  virtual bool node_times(std::vector<NodeTime>&) { return false; }
};

// Whether a call's body is CUSTOM_FUNCTION "graph".
TOLK_API bool is_graph_call(const UOp& call);
// CALL(CUSTOM_FUNCTION "graph"(LINEAR(calls)), params...).
TOLK_API UOp graph_call(std::span<const UOp> calls, std::span<const UOp> params);
// The LINEAR inside a graph call.
TOLK_API const UOp& graph_linear(const UOp& call);

} // namespace tolk::engine
