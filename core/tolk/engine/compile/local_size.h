// Work-group sizes by timing, for kernels whose code leaves the size open.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/device/buffer.h"
#include "tolk/device/program.h"
#include "tolk/uop/uop.h"

namespace tolk::engine {

// Launches one trial: buffers, number of groups, work-items of a group. Returns seconds, or nothing when they
// are unknown.
using LocalSizeTrial = std::function<std::optional<double>(
    std::span<const BufferRef> buffers, std::array<int64_t, 3> groups, std::array<int64_t, 3> local)>;

struct LocalSizeProblem {
  std::vector<int64_t> global;     // work-items per axis, up to three
  std::vector<BufferRef> buffers;  // arguments of the kernel
  std::vector<int> written;        // positions that the kernel writes: trials get scratch storage there
  bool non_uniform_groups = false; // the device takes sizes that do not divide the extent
  uint64_t seed = 0;               // of the order of trials
};

// Tries every size whose axes are powers of two up to 1024 or the whole extent, with no axis above its extent
// and no product above 1024: each twice, in a random but reproducible order. The smallest single time wins,
// then the larger product, then the smaller axes. Sizes that do not divide the extent are tried only with
// non-uniform groups. A trial that throws or has no time loses. User data is not changed: written positions,
// and the first buffer when it occurs again, are scratch storage during the trials. An empty `global` has an
// empty result. Throws InvalidArgument "all optimize_local_size exec failed".
TOLK_API std::vector<int64_t> optimize_local_size(const LocalSizeProblem& problem,
                                                  const LocalSizeTrial& trial);

// The PROGRAM with a work-group size for the device. When all sizes are known, sizes that divide them are
// timed on scratch storage; groups of one when a size is symbolic or the trials fail. The same node when its
// size is set or the device has no work-groups. Results are cached for the process until clear_caches.
TOLK_API UOp with_tuned_local_size(Device& device, const UOp& program);

// For clear_caches.
void clear_local_sizes();

} // namespace tolk::engine
