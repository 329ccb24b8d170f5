// From a node down to the storage below it: which storage, which version of it, which bytes, and through
// which views. Every layer that asks one of these questions asks it here, so "is a view" has one answer.
//
//   StorageRef ref = storage_ref(x);        // x is RESHAPE(FLIP(AFTER(BUFFER), 7)))
//   ref.base;                               // the BUFFER
//   ref.version;                            // 7, which the AFTER names
//   UOp y = with_views(ref.views, other);   // RESHAPE(FLIP(other))
//
// All functions are pure and work on nodes of either home. None of them recurses over views.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/uop/build.h"
#include "tolk/uop/state.h"
#include "tolk/uop/uop.h"

namespace tolk {

namespace ops {
// Views: every element is an element of the first source, so storage below one can be read and written
// through it.
//
// PAD is a movement and no view. Its zeros are stored nowhere: a padded value cannot be written to, and no
// storage holds it. A walk that only asks which storage a value reads passes PADs as well (Through::Pads).
inline constexpr OpSet View(Op::RESHAPE, Op::PERMUTE, Op::EXPAND, Op::SHRINK, Op::FLIP, Op::WINDOW,
                            Op::BITCAST, Op::DETACH, Op::CONTIGUOUS_BACKWARD, Op::MULTI);
// Ops that denote all of their source's bytes in the same order and dtype: an argument of a call that is one
// of these is its source's buffer. (A CONTIGUOUS is an argument only when its value is stored.)
inline constexpr OpSet SameBuffer(Op::AFTER, Op::RESHAPE, Op::CONTIGUOUS, Op::DETACH,
                                  Op::CONTIGUOUS_BACKWARD);
} // namespace ops

// What a walk down to storage passes. Flags: views are always passed.
enum class Through : uint8_t {
  Views = 0,  // stops at the first AFTER: the state of storage that a value reads
  States = 1, // also AFTERs without effects: stops at a write that was not executed yet
  Writes = 3, // also all other AFTERs
  Pads = 4,   // also PADs
};
constexpr Through operator|(Through a, Through b) { return Through(uint8_t(a) | uint8_t(b)); }
constexpr bool has(Through set, Through part) { return (uint8_t(set) & uint8_t(part)) == uint8_t(part); }

// Whether the traversal continues to the node's first source.
inline bool passes(const UOp& u, Through through) {
  if (u.is(ops::View)) return true;
  if (u.is(Op::AFTER)) return has(through, is_state(u) ? Through::States : Through::Writes);
  return u.is(Op::PAD) && has(through, Through::Pads);
}

// The first node on the way down at which the traversal stops. Allocates nothing; valid as long as `u`.
inline const UOp& below_views(const UOp& u, Through through = Through::Writes) {
  const UOp* at = &u;
  while (passes(*at, through)) at = &at->src(0);
  return *at;
}
// The same through the ops of a set alone.
inline const UOp& below(const UOp& u, const OpSet& through) {
  const UOp* at = &u;
  while (at->is(through)) at = &at->src(0);
  return *at;
}

// Where a walk arrives.
struct StorageRef {
  std::vector<UOp> views; // passed on the way, from the outermost; AFTERs are not among them
  UOp below;              // what the views are over: storage, a value, or an AFTER that is not passed
  // `below` when it is storage (BUFFER, PARAM, SLICE, DEFINE_*); null for AFTERs, MSELECT, MSTACK and values.
  UOp storage;
  // What SLICEs cut `storage` from, else `storage` itself; null when that is an MSELECT or MSTACK.
  UOp base;
  int64_t byte_offset = 0;  // of `storage` in `base`
  bool offset_known = true; // false: a SLICE has a symbolic offset, which comes on top
  UOp after;                // the outermost AFTER that was passed, down to `base`; null when there is none
  UOp write;                // the outermost one with effects
  uint64_t version = 0;     // that `after` names

  explicit operator bool() const { return bool(storage); }
};
// `form`, when given, replaces every node on the way by the one that stands for it (schedule::realized_form).
using NodeForm = UOp (*)(const UOp&);
TOLK_API StorageRef storage_ref(const UOp& u, Through through = Through::Writes, NodeForm form = nullptr);

// The views, listed from the outermost, over another base of the same shape. Reshapes of reshapes merge, so
// chains do not grow when this is repeated.
TOLK_API UOp with_views(std::span<const UOp> views, UOp base);

// ---- bytes

// Consecutive elements of storage.
struct DenseRange {
  UOp storage;
  DType dtype;             // as which the bytes are read
  int64_t byte_offset = 0; // in `storage`
  int64_t elements = 0;
};
// The range that a chain of views over storage reads in row-major order, whatever AFTERs it has; nothing when
// it has gaps or another order, or sizes that are not known. `also`: ops at which a chain may end besides
// storage, because their value is stored.
std::optional<DenseRange> dense_range(const UOp& u, const OpSet& also = {});
// The range as a node: the storage itself when that is all of it, else a SLICE of its base.
UOp storage_node(const DenseRange& range);

// A SLICE over another source. A SLICE of a SLICE becomes one SLICE of the base; symbolic offsets add up.
TOLK_API UOp slice_over(const UOp& slice, const UOp& source);

// ---- arguments of calls: BUFFERs and PARAMs, SLICEs of them, and on several devices MSELECT and MSTACK

// One BUFFER or PARAM that an argument covers, and which part of it.
struct StoragePart {
  static constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  UOp base;
  int64_t begin = 0, end = kEnd; // bytes; kEnd: up to the last
  int64_t position = -1;         // shard of a device tuple; -1: all
  bool exact = true;             // false: somewhere in these bytes, since an offset is symbolic
  bool sliced = false;           // the argument reaches the base through a SLICE
};
TOLK_API std::vector<StoragePart> storage_parts(const UOp& argument);
// Whether two arguments may share bytes. Different BUFFERs and PARAMs do not.
TOLK_API bool may_overlap(const UOp& argument, const UOp& other);

// The argument with its BUFFERs and PARAMs replaced by what `place(node)` gives; null leaves one as it is.
template <typename Place> UOp with_storage(const UOp& argument, const Place& place) {
  if (argument.is(OpSet(Op::BUFFER, Op::PARAM))) {
    UOp other = place(argument);
    return other ? other : argument;
  }
  if (argument.nsrc() == 0) return argument;
  if (argument.is(Op::SLICE)) {
    UOp source = with_storage(argument.src(0), place);
    return source == argument.src(0) ? argument : slice_over(argument, source);
  }
  std::vector<UOp> src;
  src.reserve(argument.nsrc());
  bool changed = false;
  for (const UOp& s : argument.src()) {
    src.push_back(with_storage(s, place));
    changed |= src.back() != s;
  }
  return changed ? with_sources(argument, src) : argument;
}

} // namespace tolk
