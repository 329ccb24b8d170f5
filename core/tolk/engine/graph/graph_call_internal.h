// What run_linear alone needs of graph calls.
#pragma once

#include <memory>

#include "tolk/engine/graph/graph_call.h"

namespace tolk::engine {

// From the installed factory; null when there is none or it declines.
std::unique_ptr<GraphCall> make_graph_call(BufferBinding& binding, const UOp& call);

} // namespace tolk::engine
