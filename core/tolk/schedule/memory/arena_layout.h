// Placing blocks with known lifetimes in one stretch of memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tolk/base/api.h"

namespace tolk::schedule {

constexpr int64_t kArenaAlignment = 256;

struct Block {
  int first = 0, last = 0; // times, both included, at which the block is in use
  int64_t bytes = 0;
};
struct Layout {
  std::vector<int64_t> offsets; // by block, multiples of the alignment
  int64_t bytes = 0;            // of the whole stretch
};

// Blocks whose lifetimes meet do not overlap; every offset is a multiple of `alignment`, a power of two of at
// least 256. The smallest of three layouts: first fit in order of falling size with all lifetimes known, and,
// in order of time, best fit and TLSF. Deterministic. The work grows with the number of blocks: the first
// layout, which looks at every pair of blocks that meet, but for blocks that meet all others, is left out
// when there are too many pairs. Throws InvalidArgument ("too large") when the sum exceeds 63 bits.
TOLK_API Layout lay_out(std::span<const Block> blocks, int64_t alignment = kArenaAlignment);

// Throws InternalError that names two blocks which are in use at the same time and overlap, or a block that
// leaves the stretch or is not aligned.
TOLK_API void check_layout(std::span<const Block> blocks, const Layout& layout,
                           int64_t alignment = kArenaAlignment);

// The candidates of lay_out, for tests and comparison. The first is empty when it is left out, the last when
// the sum exceeds 61 bits.
struct LayoutCandidates {
  Layout falling_size, best_fit, tlsf;
};
TOLK_API LayoutCandidates layout_candidates(std::span<const Block> blocks,
                                            int64_t alignment = kArenaAlignment);

} // namespace tolk::schedule
