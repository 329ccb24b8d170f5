// Writes that were assigned and not carried out yet, and what handles on their storage read. A handle names
// its storage as it was when the handle was made; before it is used it is brought up to date here, so that
// all handles on one storage, views too, see an assignment at once.
//
// One registry serves the process, so that every thread reads what any has assigned. An entry holds its write
// until it was carried out, or until nothing but entries refers to the storage any more.
#pragma once

#include <span>
#include <vector>

#include "tolk/engine/capture/capture.h"
#include "tolk/tensor/tensor.h"

namespace tolk::detail {

// What a handle may have over its storage. A PAD has elements of its own: it is computed.
constexpr OpSet kViews(Op::RESHAPE, Op::PERMUTE, Op::EXPAND, Op::SHRINK, Op::FLIP, Op::WINDOW, Op::BITCAST,
                       Op::DETACH, Op::CONTIGUOUS_BACKWARD, Op::MULTI);

// Whether the node of a handle reads the newest contents; of computed values always true. Every use of a
// handle asks, so this only compares.
bool is_up_to_date(const UOp& node);
// The node of a handle as it reads now: a chain of views over storage is put over the newest write, or over
// the state that it left; what was realised into storage that was written since is such a chain. Everything
// else is `node` itself.
UOp up_to_date(const UOp& node);

// The view, which must be up to date, after a write of the value: what the handle reads from now on. Null
// when the node is no view of storage that can be written. `shared`: other handles may be on the storage.
// Throws InvalidArgument for a view that names an element twice.
UOp assigned(const UOp& view, const UOp& value, bool shared);

// This thread's pending writes that must be carried out with the roots, since they read what writes below the
// roots overwrite.
std::vector<UOp> due_with(std::span<const UOp> roots);
// All pending writes of this thread that have that version or a later one.
std::vector<UOp> all_due(uint64_t since);
// Takes the writes that were carried out off the registry, and those that nobody can see. Called after runs.
void settle();

// Realizes the pending writes of this thread from that version on, or does it together with the tensors.
TOLK_API void realize_pending(uint64_t since = 0);
void realize_with_pending(std::span<Tensor> tensors, uint64_t since);
// Before a captured function runs: those that cannot be carried out stay, and refuse whoever uses their
// storage. Gives a version that only later writes have.
TOLK_API uint64_t realize_what_can_be();
// Pending writes of any thread to what a replay uses.
TOLK_API void realize_pending_on(std::span<const engine::JitStorage> used);

// The value, or for a constant, of which there is one for everybody, a clone.
Tensor with_storage(const Tensor& value);
// Whether the node is a view of storage.
bool on_storage(const UOp& node);
// Number of entries; for tests.
TOLK_API size_t pending_count();

} // namespace tolk::detail
