// KernelIR to LLVM IR text, for LLVM 19 and its opaque pointers. The function follows target.h, "how a CPU
// kernel is called"; SPECIAL group axis 0 is a loop from tile_begin to tile_end, every other axis must have
// extent 1.
#pragma once

#include <string>

#include "tolk/kernel/kernel_ir.h"
#include "tolk/render/renderer.h"

namespace tolk {

// Pure, thread-safe. Exact arithmetic only: no fast-math flag is ever set, and no operation becomes a library
// call on a processor with FMA and half conversion. Throws InternalError for EXP2, LOG2, SIN, EXP, LOG, COS,
// for dtypes narrower than 8 bits, and for a SPECIAL other than group axis 0 with an extent other than 1.
TOLK_API std::string render_llvm_ir(const KernelIR& kernel, const RenderOptions& options);

} // namespace tolk
