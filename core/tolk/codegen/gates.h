// Redundant gates of loads.
#pragma once

#include "tolk/uop/uop.h"

namespace tolk::codegen {

// Removes the gate of a load when the condition under which its value is used implies it and the address is inside
// the buffer either way: in where(g, f(p[i] gated g), x), and in a store gated by g.
UOp drop_implied_gates(const UOp& ast);

} // namespace tolk::codegen
