// KernelIR to SPIR-V 1.5 for Vulkan 1.2: target kind TOLK_TARGET_SPIRV, dialect "vulkan1.2".
//
// The shader's interface: the entry point has the kernel's name. The 8 bytes of push constants are the device address
// of the argument block, an array of 8-byte slots in the order of the parameters: the device address of each buffer
// argument, then each value. Specialization constants 0 to 2 are the work-group's size; their defaults are the sizes
// that the kernel was compiled for.
#pragma once

#include <string>

#include "tolk/kernel/kernel_ir.h"
#include "tolk/render/renderer.h"

namespace tolk {

// Pure, thread-safe. The result is the module's words as bytes, in little-endian order. The module needs
// shaderInt64, and the features for the other dtypes that the kernel has. Throws InternalError for MULACC of floats,
// EXP2, LOG2, SIN, EXP, LOG, COS and for dtypes narrower than 8 bits.
TOLK_API std::string render_spirv(const KernelIR& kernel, const RenderOptions& options);

} // namespace tolk
