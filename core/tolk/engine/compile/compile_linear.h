// The kernels of a LINEAR compiled, each distinct one once for a device, and each binary loaded once for a
// device. (The design calls the pass pm_compile.)
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/device/program.h"
#include "tolk/engine/compile/compile.h"
#include "tolk/engine/compile/program_table.h"
#include "tolk/uop/uop.h"

namespace tolk::engine {

// From a kernel's SINK to a PROGRAM node for the device. `may_alias`: a written argument of the call may
// overlap another. An empty function stands for the engine's own, `to_program`, whose calls run in parallel
// (PARALLEL); any other function is called one kernel at a time, in the order of the calls.
using ToProgram = std::function<UOp(Device& device, const UOp& sink, bool may_alias)>;

// The LINEAR with every SINK body replaced by its PROGRAM; nested LINEARs are spliced, END(CALL) unwrapped.
// Arguments and order stay; SLICE, COPY, CUSTOM_FUNCTION and compiled PROGRAM calls are the same nodes
// afterwards, and compiling twice changes nothing. A kernel belongs to the device of its first buffer
// argument, `ambient` when it has none. `beam`, else
// BEAM, becomes the width of kernels that have none. Programs whose
// work-group size is open get one where the device has work-groups (engine/compile/local_size.h).
//
// Programs are kept for the process by kernel, device, every setting that changes code, and `may_alias`; a
// kernel's name and other diagnostics play no part. When kernels fail to compile, what the others gave is
// kept and the first error in the order of the calls is thrown. Throws InvalidArgument "expected LINEAR",
// "to_program returned <op>".
TOLK_API UOp compile_linear(Device& ambient, const ToProgram& make_program, const UOp& linear,
                            std::optional<int> beam = {}, const Progress& progress = {});

// One kernel, through the same cache.
TOLK_API UOp compile_kernel(Device& device, const ToProgram& make_program, const UOp& sink, bool may_alias);

// The program loaded on a device, kept by content and device. With `cache` false a private one, for tuning.
// Throws InvalidArgument "PROGRAM is missing its compiled binary", DeviceError, FormatError.
TOLK_API ProgramRef get_runtime(Device& device, const UOp& program, bool cache = true);

// What the plugin's compiler and loader take for an entry; borrows from it.
TOLK_API KernelSource kernel_source(const ProgramEntry& entry);

struct CacheStats {
  uint64_t program_hits = 0, program_misses = 0, runtime_hits = 0, runtime_misses = 0;
};
TOLK_API CacheStats cache_stats();
// Drops every program and loaded binary of the process's caches, and sets the figures to zero; what is still
// held elsewhere stays usable.
TOLK_API void clear_caches();

// Whether a store of the kernel can reach the bytes of another argument of the call.
TOLK_API bool may_alias(const UOp& sink, std::span<const UOp> arguments);

// The calls of a LINEAR in order: nested LINEARs spliced, END(CALL) unwrapped. Throws InvalidArgument
// "expected CALL, got <op>".
TOLK_API std::vector<UOp> flat_calls(const UOp& linear);

// The beam width that a kernel's SINK asks for; 0: none.
TOLK_API int beam_of(const UOp& sink);
TOLK_API UOp with_beam(const UOp& sink, int beam);

} // namespace tolk::engine
