// Snapshot reads: storage that is read from a copy, because a store overwrites it before its reader can run.
#pragma once

#include <span>

#include "tolk/schedule/tensor/canonicalize.h"

namespace tolk::schedule {

// Every value of the graph that is computed from one of `views`, nodes of the graph that are views of
// storage, is computed from a CONTIGUOUS of it afterwards. Targets of stores and results that are views do not
// change.
void read_snapshots(Canonical& canonical, std::span<const UOp> views);

} // namespace tolk::schedule
