// Views of storage in a tensor graph: which need no kernel, and what may be stored through them.
#pragma once

#include "tolk/base/api.h"
#include "tolk/uop/storage_ref.h"
#include "tolk/uop/uop.h"

namespace tolk::schedule {

// The storage below views and AFTERs; null when the value is computed, as a padded one is.
UOp viewed_storage(const UOp& u);
// The first AFTER below views, otherwise the storage: the state of storage that the value reads.
UOp viewed_state(const UOp& u);

// The PARAM or BUFFER of storage, which may be a SLICE.
inline UOp base_of(const UOp& storage) { return storage.is(Op::SLICE) ? storage.src(0) : storage; }

// A view of storage without its AFTERs, BITCASTs turned into SLICEs: dense views become RESHAPE(storage).
UOp plain_view(const UOp& u);

// Throws InvalidArgument when a store through the view of storage would write an element more than once, or
// through a reshaped bitcast.
TOLK_API void check_store_target(const UOp& view);

} // namespace tolk::schedule
