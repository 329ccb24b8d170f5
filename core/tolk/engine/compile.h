// From a kernel's graph to a program on a device: codegen, render, compile, load - each once per process for
// equal kernels, and the compiled code once per machine, through the disk cache.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/codegen/codegen.h"
#include "tolk/device/program.h"
#include "tolk/uop/uop.h"

namespace tolk::engine {

struct CompiledCall {
  std::shared_ptr<const codegen::Kernel> kernel; // flat form and launch facts
  ProgramRef program;
};

// A kernel to build: its graph (a global kernel SINK), where it runs, and whether a written argument may
// overlap another.
struct CompileRequest {
  UOp ast;
  std::string device;
  bool may_alias = false;
};

using Progress = std::function<void(size_t done, size_t total)>;

// Builds all of them, distinct ones in parallel (PARALLEL); results in the order of the requests. Throws
// CompileError with the kernel's name and the backend's log, InternalError for a fault of codegen,
// DeviceError.
TOLK_API std::vector<CompiledCall> compile_all(std::span<const CompileRequest> requests,
                                               const Progress& progress = {});

// What codegen must know about an open device and one of its targets.
TOLK_API codegen::Target codegen_target(const Device& device, uint32_t target_index);

// Codegen and rendering alone, without any cache: the text for the device's target, for benchmarks and tests.
TOLK_API std::string render_kernel(const UOp& ast, const std::string& device);

// Drops every program of the process's cache.
TOLK_API void clear_program_cache();

} // namespace tolk::engine
