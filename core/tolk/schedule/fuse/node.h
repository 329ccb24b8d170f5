// A node of the fusion graph.
#pragma once

#include <cstdint>

#include "tolk/uop/uop.h"

namespace tolk::schedule {

enum class Kind : uint8_t {
  Storage,  // PARAM, BUFFER, SLICE
  Constant, // CONST and everything of type Index
  Iota,
  Elementwise,
  Movement,
  Gather,
  Reduce,
  After,      // a view of storage behind stores
  Store,      // a kernel that writes existing storage
  Contiguous, // a value that is stored again, or computed on a device of its own
  Copy,       // a call that copies between devices
  Select,     // one position of what is stored on a device tuple: storage without a kernel of its own
  Stack,      // stored values on single devices as one on their tuple: likewise
};
inline bool is_alias(Kind kind) { return kind == Kind::Select || kind == Kind::Stack; }

struct Node {
  UOp u;
  Kind kind = Kind::Constant;
  bool stored = false;           // must be materialised
  bool reads = false;            // depends on storage
  int device = -1;               // in Graph::devices; -1: any
  int output = -1;               // number of the output buffer that holds it
  int64_t numel = 1;             // symbolic sizes at their largest
  double cost = 0;               // of computing one element from storage; see cost.h
  bool contraction = false;      // a large product summed: worth a kernel of its own
  int contractions = 0;          // such below, itself included, up to stored values
  uint32_t first = 0, count = 0; // sources that are data, in Graph::sources
};

} // namespace tolk::schedule
