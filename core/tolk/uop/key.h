// Content key of a graph: 128 bits over op, dtype, lanes, arg and structure, the same in every process and
// home. Ids and addresses play no part; slots do. Equal keys are taken for equal graphs, in memory and on
// disk; adding an op or a dtype changes every key.
#pragma once

#include <span>

#include "tolk/base/hash.h"
#include "tolk/uop/uop.h"

namespace tolk {

// Linear in the number of nodes; not remembered.
TOLK_API ContentKey graph_key(const UOp& root);
TOLK_API ContentKey graph_key(std::span<const UOp> roots);

} // namespace tolk
