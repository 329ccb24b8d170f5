// Writes that were assigned and not executed yet. A handle names its storage as it was when the handle was made.
// Before each use it is brought up to date here, so all handles on one storage, views included, see an assignment
// at once.
//
// One registry serves the process: every thread reads what any thread assigned. An entry keeps its write until it
// was executed, or until only entries refer to the storage.
#pragma once

#include <optional>
#include <span>

#include "tolk/engine/capture/capture.h"
#include "tolk/tensor/tensor.h"

namespace tolk::detail {

// Whether the node of a handle reads the newest contents; always true for computed values. Every use of a handle
// asks, so this only compares.
bool is_up_to_date(const UOp& node);
// The node of a handle as it reads now: its views over the newest write of their storage, or over the state that the
// write left. A value that was realised into storage that was written since is such a view, too. Every other node is
// returned as it is.
UOp up_to_date(const UOp& node);

// The node of a handle, which must be up to date, after a write of the value. Null when the node is no view of storage
// that can be written. `shared`: other handles may be on the storage. Throws InvalidArgument for a view that names an
// element twice.
UOp assigned(const UOp& view, const UOp& value, bool shared);

// Executes the pending writes of this thread from that version on.
TOLK_API void realize_pending(uint64_t since = 0);
// Realizes the tensors together with those writes. Without `since` only with pending writes of this thread that read
// storage which writes below the tensors overwrite.
void realize_with_pending(std::span<Tensor> tensors, std::optional<uint64_t> since = {});
// Before a captured function runs. Writes that cannot be executed stay pending, and using their storage throws.
// Returns a version that only later writes have.
TOLK_API uint64_t realize_what_can_be();
// Executes pending writes of any thread to the storage that a replay uses.
TOLK_API void realize_pending_on(std::span<const engine::JitStorage> used);

// Whether the node is a view of storage.
bool on_storage(const UOp& node);
// Number of entries; for tests.
TOLK_API size_t pending_count();

} // namespace tolk::detail
