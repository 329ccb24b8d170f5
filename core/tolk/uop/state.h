// Names for storage as it is at one time. Equal nodes are one node, so two writes of the same value to the
// same storage would be one, and a value computed from storage before a write would be taken for the one that
// comes after it. An AFTER with a number of its own tells them apart; schedules do not see the number.
#pragma once

#include "tolk/base/api.h"
#include "tolk/uop/uop.h"

namespace tolk {

// The target after the store, as a node that equals no other.
TOLK_API UOp after_write(const UOp& target, const UOp& store);
// A view of storage as it is from now on: an AFTER without effects, which equals no other node.
TOLK_API UOp state_of(const UOp& view);
inline bool is_state(const UOp& u) { return u.is(Op::AFTER) && u.nsrc() == 1; }
// A view of storage without the states in it.
TOLK_API UOp without_states(const UOp& view);

} // namespace tolk
