// Breaks write-after-read cycles between kernels by inserting copies.
//
// Two copies can break a cycle. A kernel that stores in place can store its value to a temporary first: then
// only the copy into place is ordered by what it overwrites. Or the contents are copied before
// they are overwritten (a snapshot), and their readers can run later. Copying every store and every old value
// always breaks all cycles, since values alone depend on each other in one direction.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "tolk/schedule/order/dependencies.h"

namespace tolk::schedule {

constexpr double kNoStore = -1;

struct CycleBreak {
  std::vector<int> through; // kernels that store via a temporary
  // Contents to read from a copy, and the kernels that do. When there are some, `through` is empty: ask again
  // once the snapshots are part of the graph.
  struct Snapshot {
    int contents;
    std::vector<int> readers;
  };
  std::vector<Snapshot> snapshots;
};

// Bytes of a copy of what the readers read of the contents.
using CopyBytes = std::function<double(int contents, std::span<const int> readers)>;

// `stores`: by kernel, the bytes that it stores in place, or kNoStore. Works in rounds; each breaks every
// cycle by the copy with the lowest bytes per removed edge, stores before snapshots when equal, then the
// first. Stores that turn out to be unnecessary are left in place. Both lists are empty when there is no
// cycle. `edges` are distinct, none from a kernel to itself.
CycleBreak break_cycles(std::vector<Edge> edges, std::span<const double> stores, const CopyBytes& copy_bytes);

} // namespace tolk::schedule
