// Groups consecutive calls into graph calls, each of which a device replays with one launch.
//
//   UOp batched = batch_graphs(device("CPU"), compiled); // from compile_linear
//   // LINEAR(CALL(CUSTOM_FUNCTION "graph"(LINEAR(k1, k2, copy)), PARAM 0, PARAM 1), CALL(k3), ...)
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "tolk/base/api.h"
#include "tolk/device/device.h"
#include "tolk/device/graph.h"
#include "tolk/uop/uop.h"

namespace tolk::engine {

// What graphs of the device can hold; nothing when the plugin has no graphs and GRAPH=2 does not ask for the
// host's.
TOLK_API std::optional<GraphAbility> graph_caps(const Device& device);

// Whether a graph with work of `batch_devices` can also hold `call`: a compiled kernel, or a copy where
// graphs hold copies; all devices of one plugin, and a single device where graphs cannot hold several; copies
// between devices that can transfer; arguments within the graph's limit of offsets. `lead` is the device of
// arguments that name none. Opens devices, changes nothing.
TOLK_API bool graph_supports(Device& lead, std::span<Device* const> batch_devices, const UOp& call);

// CALL(CUSTOM_FUNCTION "graph"(LINEAR(batch)), PARAMs...), with the PARAMs that arguments reach, in order of
// occurrence.
TOLK_API UOp create_graph_call(std::span<const UOp> batch);

// Groups calls in order. A group has at most `max_batch_size` calls (0: no limit); the limit doubles with
// every graph. A single call stays as it is, unless GRAPH_ONE_KERNEL. SLICE calls are dropped and their views
// inlined into later arguments, except those that bind a user's buffer, which end the group.
TOLK_API UOp graph_split_rewrite(Device& lead, const UOp& linear, int64_t max_batch_size);

// The same with JIT_BATCH_SIZE. `linear` itself when JIT is 2 or more or none of its devices has graphs.
// Idempotent.
TOLK_API UOp batch_graphs(Device& lead, const UOp& linear);

} // namespace tolk::engine
