// Movement chains over storage: which need no kernel.
#pragma once

#include <cstdint>
#include <optional>

#include "tolk/uop/shape.h"
#include "tolk/uop/uop.h"

namespace tolk::schedule {

// The storage at the root of a chain of movement ops, BITCASTs and AFTERs; null when the value is computed. A
// chain with a PAD, whose zeros are stored nowhere, is computed.
UOp viewed_storage(const UOp& u);
// The first AFTER on the way down such a chain, else its storage: the state of the storage that the chain
// reads.
UOp viewed_state(const UOp& u);

// The PARAM or BUFFER of storage, which may be a SLICE.
inline UOp base_of(const UOp& storage) { return storage.is(Op::SLICE) ? storage.src(0) : storage; }

// Consecutive elements of storage.
struct StorageRange {
  UOp storage; // PARAM, BUFFER or SLICE
  DType dtype; // as which the bytes are read
  int64_t byte_offset = 0;
  int64_t elements = 0;
};
// The range that a chain over storage reads in row-major order; nothing when it has gaps or another order, or
// sizes that are not known. AFTERs are looked through. `also`: ops at which a chain may end as well, because
// their value is stored.
std::optional<StorageRange> contiguous_range(const UOp& u, const OpSet& also = {});
// The range as storage: the storage itself when that is all of it, else a SLICE of the BUFFER or PARAM.
UOp range_storage(const StorageRange& range);

// A chain over storage without its AFTERs, BITCASTs turned into SLICEs: dense chains become RESHAPE(storage).
UOp plain_view(const UOp& u);

// Throws InvalidArgument when a store through the chain of views over storage would write an element more
// than once, or through a reshaped bitcast.
TOLK_API void check_store_target(const UOp& view);

} // namespace tolk::schedule
