// The axis along which a value on several devices is sharded: one rule per operation, shared by the pass that
// removes MULTI and by queries before scheduling.
#pragma once

#include <cstdint>
#include <span>

#include "tolk/base/api.h"
#include "tolk/uop/uop.h"

namespace tolk::schedule {

// How a value lies on its devices. Replicas, and values on one device or none, have no axis.
struct Sharding {
  static constexpr int kWhole = -1;
  int axis = kWhole;
  int64_t count = 1; // positions, where there is an axis
  bool sharded() const { return axis != kWhole; }
  bool operator==(const Sharding&) const = default;
};

// Of a node's value, given its sources' (in their order; entries of Index sources do not count). Whole when
// the result cannot stay in parts: the sources are gathered, or parts are reduced across devices.
//   elementwise      of the last sharded operand
//   RESHAPE          the axis with the same elements before it, when the number of positions divides it
//   PERMUTE          where the axis went
//   PAD SHRINK FLIP  kept, unless they change the axis itself
//   WINDOW GATHER    moved behind the axes that come before it, unless they consume the axis itself
//   REDUCE_AXIS      kept, unless reduced
//   COPY ALLREDUCE   whole
Sharding sharding_from(const UOp& u, std::span<const Sharding> sources);

// Of a value of a tensor graph.
TOLK_API Sharding sharding_of(const UOp& u);

} // namespace tolk::schedule
