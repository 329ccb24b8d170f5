// The types of the scheduler's interface: what it is told, and what it gives.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/uop/uop.h"

namespace tolk::schedule {

// Where views of a device's buffers may begin. The planner aligns to 256 bytes in any case.
struct ViewLimits {
  int64_t alignment = 1; // of the offset in bytes, a power of two; 0: only at the beginning of the buffer
  int64_t largest_offset = std::numeric_limits<int64_t>::max();
  bool operator==(const ViewLimits&) const = default;
};
// Limits of devices by canonical name; a device that is not listed has none. Scheduling opens no devices, so
// its caller provides these.
using ViewLimitsTable = std::map<std::string, ViewLimits>;
using BufferLimits = std::map<std::string, int>;

struct Options {
#define TOLK_OPTION(type, name, value) type name = value;
#include "tolk/schedule/options.def"
  // Whether schedules are looked up in the cache, and kept there. SCACHE=0 turns it off everywhere. No part of
  // the digest.
  bool cache = true;

  TOLK_API uint64_t digest() const;
};

// Values of symbolic variables by name.
using VarVals = std::map<std::string, int64_t>;

struct Schedule {
  // LINEAR of CALLs, global. A kernel is CALL(SINK ..., argument...); argument k is what PARAM k of the body
  // means. A copy is CALL(COPY, destination, source). Arguments are BUFFERs, or SLICEs of BUFFERs; those of
  // temporaries have negative slots, which are fresh for every schedule. A call whose arguments are on a
  // device tuple runs once for each position; MSELECT and MSTACK name storage of positions.
  UOp linear;
  // One node for each root, global, with its shape and dtype: movement ops over a BUFFER or SLICE that holds
  // the value once `linear` ran. Computed values have a BUFFER with a fresh user slot; a root that is a view
  // of storage stays one. Row-major and dense, except where the root itself permutes, flips or expands. A
  // sharded value is a MULTI over such a view.
  std::vector<UOp> results;
  // The variables that the kernels use, with the values they are bound to in the graph.
  VarVals vars;
};

} // namespace tolk::schedule
