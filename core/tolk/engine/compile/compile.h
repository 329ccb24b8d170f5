// Compiles one kernel: code generation, rendering, disk cache, the plugin's compiler.
// engine/compile/compile_linear.h has the program cache and compiles whole LINEARs.
#pragma once

#include <functional>
#include <string>

#include "tolk/base/api.h"
#include "tolk/device/device.h"
#include "tolk/uop/uop.h"

namespace tolk::engine {

// Called with the number of kernels compiled so far, first with 0, and the number to compile.
using Progress = std::function<void(size_t done, size_t total)>;

// The source text of a kernel for the device's target, without any cache. For benchmarks and tests.
TOLK_API std::string render_kernel(const UOp& ast, const std::string& device);

// Compiles a kernel's SINK to a PROGRAM node and loads it on the device, without the program cache.
// `may_alias`: a written argument of the call may overlap another. Throws CompileError with the kernel's name
// and the compiler's log, InternalError for a fault of code generation, DeviceError.
TOLK_API UOp to_program(Device& device, const UOp& sink, bool may_alias);

} // namespace tolk::engine
