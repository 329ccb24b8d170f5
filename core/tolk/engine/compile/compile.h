// From a kernel's graph to a program for a device: codegen, render, compile, with the disk cache - what one
// miss of the program cache costs. engine/compile/compile_linear.h has the cache and compiles whole LINEARs.
#pragma once

#include <functional>
#include <string>

#include "tolk/base/api.h"
#include "tolk/codegen/codegen.h"
#include "tolk/device/device.h"
#include "tolk/uop/uop.h"

namespace tolk::engine {

// Hears how many of the kernels that have to be compiled are done, first with 0.
using Progress = std::function<void(size_t done, size_t total)>;

// What codegen must know about an open device and one of its targets.
TOLK_API codegen::Target codegen_target(const Device& device, uint32_t target_index);

// Codegen and rendering alone, without any cache: the text for the device's target, for benchmarks and tests.
TOLK_API std::string render_kernel(const UOp& ast, const std::string& device);

// From a kernel's SINK to a PROGRAM node for the device, without the program cache: code generation,
// rendering, disk cache, the plugin's compiler, and a first load. `may_alias`: a written argument of the call
// may overlap another. Throws CompileError with the kernel's name and the compiler's log, InternalError for a
// fault of code generation, DeviceError.
TOLK_API UOp to_program(Device& device, const UOp& sink, bool may_alias);

} // namespace tolk::engine
