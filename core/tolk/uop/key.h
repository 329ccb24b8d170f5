// Content key of a graph: 128 bits over op, dtype, lanes, arg and structure, equal in every process and node
// store. It includes slots, but no ids or addresses. Equal keys are assumed to mean equal graphs, in memory and
// on disk. Adding an op or a dtype changes every key.
#pragma once

#include <span>

#include "tolk/base/hash.h"
#include "tolk/uop/uop.h"

namespace tolk {

// Linear in the number of nodes; not remembered.
TOLK_API ContentKey graph_key(const UOp& root);
TOLK_API ContentKey graph_key(std::span<const UOp> roots);

} // namespace tolk
