// Gates that say nothing new.
#pragma once

#include "tolk/uop/uop.h"

namespace tolk::codegen {

// Loads whose gate is implied by the condition under which their value is used lose it, where the address is
// inside the buffer anyway: in where(g, f(p[i] gated g), x) and in a store gated by g.
UOp drop_implied_gates(const UOp& ast);

} // namespace tolk::codegen
