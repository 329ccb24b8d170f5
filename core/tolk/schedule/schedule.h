// Scheduling: from a lazy tensor graph to an ordered list of kernel calls and copies with planned memory.
//
//   schedule::Options options;
//   options.default_device = "CPU";
//   schedule::Schedule s = schedule::create_schedule(std::span(&root, 1), options);
//   // run s.linear with s.vars, then read s.results[0]
//
// The steps, one file each:
// - callify: storage becomes PARAM and bound variables lose their values, so that equal computations have one
//   body
// - multi: values on several devices become values of one position, and copies between them
// - early: tensor-level rewrites: empty values, copies, in-place writes, large reductions in two steps
// - graph: the nodes that are reachable, in order, with what fusion needs to know of each
// - fusion: which values are stored; the index at which every use reads its value
// - kernels: the expression of every stored value
// - order: calls in an order that respects reads after writes and writes after reads; where there is none,
//   circles and old_contents say what is copied
// - memory_plan: temporaries share one arena per device
// The result of these depends on the body and the options alone and is cached; only the last step, putting
// this call's storage in the place of the PARAMs, is done every time.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/schedule/memory/memory_plan.h"
#include "tolk/uop/uop.h"

namespace tolk::schedule {

// Everything but `cache` changes the result and is part of the cache key.
struct Options {
  // Whether reductions of many elements to few are done in two kernels, and from how many elements per result
  // on.
  bool split_reduce = true;
  int64_t reduce_split_threshold = 32768;
  // Most storage arguments of a kernel, its result included; 0 means no limit, else at least 4.
  int max_kernel_buffers = 0;
  // Whether temporaries share arenas. Off: every temporary is a BUFFER of its own, for a later plan over
  // several schedules. NO_MEMORY_PLANNER turns it off everywhere.
  bool memory_plan = true;
  // Where views of the devices' buffers may begin.
  ViewLimitsTable view_limits;
  // Where values are computed that depend on no storage.
  std::string default_device;
  // How values are combined across devices (schedule/tensor/allreduce.h): 0 never so, 1 for many elements on more
  // than two devices, 2 always. All to all precedes the ring; neither: every device folds everything.
  int ring = 1, all_to_all = 0;
  // Whether an equal graph that was scheduled before is looked up, and this one is kept. SCACHE=0 turns it
  // off everywhere.
  bool cache = true;

  TOLK_API uint64_t digest() const;
};

// Values of symbolic variables by name.
using VarVals = std::map<std::string, int64_t>;

struct Schedule {
  // LINEAR of CALLs, global. A kernel is CALL(SINK ..., argument...); argument k is what PARAM k of the body
  // means. A copy is CALL(COPY, destination, source). Arguments are BUFFERs, or SLICEs of BUFFERs; those of
  // temporaries have negative slots, drawn anew for every schedule. A call whose arguments are on a device
  // tuple runs once for each position; MSELECT and MSTACK name storage of positions.
  UOp linear;
  // One node for each root, global, with its shape and dtype: movement ops over a BUFFER or SLICE that holds
  // the value once `linear` ran. Values that were computed have a BUFFER with a fresh user slot; a root that
  // is a view of storage stays one. Row-major and dense, except where the root itself permutes, flips or
  // expands. A sharded value is a MULTI over such a view.
  std::vector<UOp> results;
  // The variables that the kernels use, with the values they are bound to in the graph.
  VarVals vars;
};

// Schedules the computation of the roots: global tensor-level nodes. Values that carry a Realized attachment
// are not computed again (schedule/tensor/realized.h). Any number of threads may schedule at once; equal input gives
// equal kernels in equal order. In-place writes that need each other's old contents take one more kernel for
// each copy that it takes. Throws InvalidArgument when one variable is bound to two values ("bind mismatch on
// n, 3 != 4"), when a store's target is no view of storage, and when a value would have to be on two devices;
// nothing is kept then.
TOLK_API Schedule create_schedule(std::span<const UOp> roots, const Options& options);

// How the cache did since the process started, and how many schedules it holds.
struct CacheCounters {
  uint64_t hits = 0, misses = 0;
  size_t entries = 0;
};
TOLK_API CacheCounters schedule_cache_counters();
TOLK_API void clear_schedule_cache();

} // namespace tolk::schedule
