// Compiles the kernels of a LINEAR, each distinct kernel once for a device.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/engine/compile/compile.h"
#include "tolk/engine/compile/program_table.h"
#include "tolk/engine/compile/runtimes.h"
#include "tolk/uop/uop.h"

namespace tolk::engine {

// Compiles a kernel's SINK to a PROGRAM node for the device. `may_alias`: a written argument of the call may
// overlap another. An empty function stands for the engine's own `to_program`, which runs in parallel
// (PARALLEL); any other function is called for one kernel at a time, in the order of the calls.
using ToProgram = std::function<UOp(Device& device, const UOp& sink, bool may_alias)>;

// The LINEAR with every SINK body replaced by its PROGRAM; nested LINEARs are spliced, END(CALL) unwrapped.
// Arguments, order, and calls to SLICE, COPY, CUSTOM_FUNCTION and PROGRAM stay; the pass is idempotent. A
// kernel belongs to the device of its first buffer argument, or to `ambient` when it has none. `beam`, else
// BEAM, becomes the width of kernels that have none. Programs whose work-group size is open get one where the
// device has work-groups (engine/compile/local_size.h).
//
// `compiled`, when given, counts the kernels that no cache had, and widens the use of the disk to targets that
// need no text (engine/compile/program_cache.h).
//
// Programs are cached for the process by kernel, device, every setting that changes code, and `may_alias`,
// but not by the kernel's name. When kernels fail to compile, the programs of the others are cached and the
// first error in the order of the calls is thrown. Throws InvalidArgument "expected LINEAR", "to_program
// returned <op>".
TOLK_API UOp compile_linear(Device& ambient, const ToProgram& make_program, const UOp& linear,
                            std::optional<int> beam = {}, const Progress& progress = {},
                            size_t* compiled = nullptr);

// Puts the kernels (SINKs) of a LINEAR into the disk cache, for other processes. What is there already stays.
void cache_kernels(Device& ambient, const UOp& linear);

// One kernel, through the same cache.
TOLK_API UOp compile_kernel(Device& device, const ToProgram& make_program, const UOp& sink, bool may_alias);

struct CacheStats {
  uint64_t program_hits = 0, program_misses = 0, runtime_hits = 0, runtime_misses = 0;
};
TOLK_API CacheStats cache_stats();
// Drops all cached programs and loaded binaries and zeroes the statistics. What is still held elsewhere stays
// usable.
TOLK_API void clear_caches();

// The beam width that a kernel's SINK asks for; 0: none.
TOLK_API int beam_of(const UOp& sink);
TOLK_API UOp with_beam(const UOp& sink, int beam);

} // namespace tolk::engine
