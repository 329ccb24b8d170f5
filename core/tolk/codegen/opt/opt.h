// Schedule primitives: named transformations of the ranges of a kernel AST. Each applies or returns why it does not;
// none changes the result, except for the order of summation in a reduction.
//
//   Schedule s{ast};
//   if (auto why = apply(s, {OptKind::Upcast, 0, 4})) log::debug(3, *why);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/codegen/target.h"
#include "tolk/uop/uop.h"

namespace tolk::codegen {

enum class OptKind : uint8_t {
  // Splits an output loop; the inner `amount` iterations become separate values. Where the extent is not a
  // multiple, the last block starts earlier and recomputes some elements; kernels that read what they write,
  // and unknown extents, get a second nest for the remainder instead. Amount 0: the whole loop.
  Upcast,
  // The same for a loop of a reduction; a remainder becomes a second reduction.
  Unroll,
  // `amount` iterations of an output or reduction loop, or of one already unrolled (which it must divide),
  // become the lanes of a vector. No value may depend on two such axes.
  Vector,
  // An output loop of every nest is cut into `amount` pieces that run concurrently, at most.
  Thread,
  // `amount` iterations of an output loop of every nest, of which the extent is a multiple, become the work-items of a
  // group. Of several, the last one applied has neighbouring work-items.
  Local,
  // `amount` iterations of a loop of a reduction, a power of two that divides its extent, become work-items of a group:
  // each folds its share, and work-group storage takes the shares together. Neighbouring work-items take neighbouring
  // iterations, in the order of Local. Not for values below 32 bits, nor for kernels that read what they write.
  Group,
  // Rounds the extent up to a multiple of `amount`; elements beyond it are neither read nor reduced nor written.
  PadTo,
  // Two loops of one nest or reduction become one; `axis` is the slower, `amount` names the other axis.
  Merge,
  // The loop is moved inside of the axis that `amount` names, in the same nest or reduction.
  Sink,
};

struct Opt {
  OptKind kind;
  int64_t axis;   // axis id of the range, see axis_of
  int64_t amount; // by kind
  bool operator==(const Opt&) const = default;
};

TOLK_API std::string to_string(const Opt& opt); // "UPCAST(0,4)"

// A kernel AST that is being optimised. Splits number their new ranges with fresh axis ids, in order.
struct Schedule {
  explicit Schedule(const UOp& ast);

  UOp ast;
  int64_t next_axis; // id of the next new range
  // Id of the inner range of the last split; -1 when the whole range was taken.
  int64_t last_inner = -1;
};

// Applies one primitive. Returns null, or the reason why it does not apply and leaves the schedule unchanged. Creates
// nodes in the arena of the AST.
TOLK_API std::optional<std::string> apply(Schedule& schedule, const Opt& opt);

// Chooses the primitives for the AST on this target, for at most `threads` threads. All of them apply.
TOLK_API std::vector<Opt> heuristic(const UOp& ast, const Target& target, int threads);

// The same for a target with work-groups: which loops become work-items and groups. Keeps within the target's launch
// limits; empty where no loop of a known extent is shared by all nests.
TOLK_API std::vector<Opt> group_heuristic(const UOp& ast, const Target& target);

} // namespace tolk::codegen
