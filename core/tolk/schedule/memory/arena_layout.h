// Offsets in one arena for blocks with known lifetimes.
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
  int64_t bytes = 0;            // of the arena
};

// Blocks whose lifetimes overlap do not share bytes; every offset is a multiple of `alignment`, a power of two
// of at least 256. The smallest of three layouts: first fit, largest block first, with all lifetimes known; and
// best fit and TLSF in order of time. Deterministic. The work is linear in the number of blocks: the first
// layout compares every two blocks whose lifetimes overlap, and is left out when there are too many such pairs,
// apart from blocks that overlap all others. Throws InvalidArgument ("too large") when the sum exceeds 63 bits.
TOLK_API Layout assign_offsets(std::span<const Block> blocks, int64_t alignment = kArenaAlignment);

// Throws InternalError that names two blocks which are in use at the same time and overlap, or a block that
// exceeds the arena or is not aligned.
TOLK_API void check_layout(std::span<const Block> blocks, const Layout& layout,
                           int64_t alignment = kArenaAlignment);

// The candidates of assign_offsets, for comparison. The first is empty when it is left out, the last when
// the sum exceeds 61 bits.
struct LayoutCandidates {
  Layout largest_first, best_fit, tlsf;
};
TOLK_API LayoutCandidates layout_candidates(std::span<const Block> blocks,
                                            int64_t alignment = kArenaAlignment);

} // namespace tolk::schedule
