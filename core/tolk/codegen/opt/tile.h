// The choice of a tile: which loop becomes the lanes of vectors, and which others are unrolled around it. A
// small cost model in cycles ranks the candidates. Internal to opt/.
#pragma once

#include <utility>
#include <vector>

#include "tolk/codegen/opt/bodies.h"
#include "tolk/codegen/target.h"

namespace tolk::codegen {

struct Tile {
  LoopSet vector; // the loop of the lanes; empty: scalars
  int lanes = 1;
  int vectors = 1; // vectors side by side along that loop, when it is an output loop
  std::vector<std::pair<LoopSet, int>> rows; // further output loops and how many of their iterations
  double cycles = 0;                         // per iteration of the loop nest
  double code = 0;                           // operations of one pass through the body

  int instances() const; // copies of the body: vectors times rows
};

// The best tile for a body. `body` is part of `nest`; `may_overlap` says whether blocks may compute elements
// twice (see OptKind::Upcast); loops in `taken` are not touched.
Tile choose_tile(const Nest& nest, const Body& body, const Target& target, bool may_overlap, LoopSet taken);

// Iterations of a loop of `extent` when it is done in blocks of `block`.
double padded(int64_t extent, int64_t block);

} // namespace tolk::codegen
