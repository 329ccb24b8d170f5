// Storage that is read from a copy, because a store overwrites it before its reader can run.
#pragma once

#include <span>

#include "tolk/schedule/tensor/canonicalize.h"

namespace tolk::schedule {

// Every value of the graph that is computed from one of `views`, nodes of the graph that are views of
// storage, is computed from a CONTIGUOUS of it from now on. Targets of stores and results that are views
// remain what they are.
void read_copies(Early& early, std::span<const UOp> views);

} // namespace tolk::schedule
