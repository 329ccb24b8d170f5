// The inputs of one call of a captured function: storage, how values lie in it, values of variables.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/engine/run/any_buffer.h"
#include "tolk/engine/run/var_vals.h"
#include "tolk/uop/uop.h"

namespace tolk::engine {

// One tensor input.
struct JitInput {
  UOp storage; // its BUFFER node
  // The value as a view of its storage: PARAM 0 without a device replaces the storage, variables replace the
  // BINDs. Null: all of the storage.
  UOp view = {};
  std::vector<std::string> vars = {}; // variables that the view is bound to, sorted
};
// Positional inputs by number, named ones by name.
using JitName = std::variant<int, std::string>;
struct JitInputs {
  std::vector<JitInput> inputs;
  VarVals var_vals;
  std::vector<JitName> names;
};
// Inputs that are whole buffers, numbered.
TOLK_API JitInputs whole_inputs(std::span<const UOp> storage, VarVals var_vals = {});

// The storage of a node; nothing when the node is not known.
using Resolver = std::function<std::optional<AnyBuffer>(const UOp& node)>;
// The storage that nodes have so far; the resolver of tensors.
TOLK_API std::optional<AnyBuffer> known_storage(const UOp& node);
// Nodes whose contents must survive the call.
using HeldNodes = std::function<std::vector<UOp>()>;

} // namespace tolk::engine
