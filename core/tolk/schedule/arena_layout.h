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
  std::vector<int64_t> offsets; // by block, multiples of kArenaAlignment
  int64_t bytes = 0;            // of the whole stretch
};

// Blocks whose lifetimes meet do not overlap. The smaller of two layouts: first fit in order of falling size
// with all lifetimes known, and best fit in order of time. Deterministic. Throws InvalidArgument when the sum
// exceeds 63 bits.
TOLK_API Layout lay_out(std::span<const Block> blocks);

// Throws InternalError that names two blocks which are in use at the same time and overlap, or a block that
// leaves the stretch or is not aligned.
TOLK_API void check_layout(std::span<const Block> blocks, const Layout& layout);

} // namespace tolk::schedule
