#include "tolk/engine/capture/call_inputs.h"

#include "tolk/engine/run/node_storage.h"

namespace tolk::engine {

JitInputs whole_inputs(std::span<const UOp> storage, VarVals var_vals) {
  JitInputs out;
  for (const UOp& node : storage) {
    out.names.emplace_back(int(out.inputs.size()));
    out.inputs.push_back({node, {}, {}});
  }
  out.var_vals = std::move(var_vals);
  return out;
}

std::optional<AnyBuffer> known_storage(const UOp& node) {
  if (!node.is(Op::BUFFER) || !has_buffer(node)) return std::nullopt;
  return any_buffer_of(node);
}

} // namespace tolk::engine
