// Runs of calls become graph calls, which a device replays as one.
//
//   UOp batched = batch_graphs(device("CPU"), compiled); // from compile_linear
//   // LINEAR(CALL(CUSTOM_FUNCTION "graph"(LINEAR(k1, k2, copy)), PARAM 0, PARAM 1), CALL(k3), ...)
//
// The order of the calls stays.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "tolk/base/api.h"
#include "tolk/device/device.h"
#include "tolk/device/graph.h"
#include "tolk/uop/uop.h"

namespace tolk::engine {

// What graphs on the device can hold; none when it has no graphs: neither its plugin has them nor, with
// GRAPH=2, the host stands in.
TOLK_API std::optional<GraphAbility> graph_caps(const Device& device);

// Whether a graph that holds work of `batch_devices` can take `call` too: a compiled kernel, or a copy where
// graphs hold copies; all devices of one plugin, and one device only where graphs cannot hold several; copies
// between devices that reach one another; arguments not too far inside their storage. `lead` is the device of
// arguments that name none. Opens devices, changes nothing.
TOLK_API bool graph_supports(Device& lead, std::span<Device* const> batch_devices, const UOp& call);

// CALL(CUSTOM_FUNCTION "graph"(LINEAR(batch)), the PARAMs that its arguments reach, in the order met).
TOLK_API UOp create_graph_call(std::span<const UOp> batch);

// Groups calls; a group holds at most `max_batch_size` calls (0: no limit) and the limit doubles with every
// graph. A group of one call stays as it is, unless GRAPH_ONE_KERNEL. SLICE calls vanish: later arguments get
// the view itself; those that bind a user's buffer stay and end the group.
TOLK_API UOp graph_split_rewrite(Device& lead, const UOp& linear, int64_t max_batch_size);

// The same with JIT_BATCH_SIZE; `linear` itself when JIT is 2 or more or none of its devices has graphs.
// Applied to its own result, it changes nothing.
TOLK_API UOp batch_graphs(Device& lead, const UOp& linear);

} // namespace tolk::engine
