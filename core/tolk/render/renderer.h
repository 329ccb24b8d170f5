// Renders linearized kernel IR as source code for a backend's compiler. To add a renderer, write a file with a
// function, and a row in renderer.cpp.
//
//   const Renderer* r = find_renderer(device("CPU").targets()[0]);
//   std::string text = r->render(kernel, {.may_alias = key.may_alias});
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <tolk/plugin/target.h>

#include "tolk/base/api.h"
#include "tolk/kernel/kernel_ir.h"

namespace tolk {

// Inputs of a renderer besides the kernel. All of them are part of the kernel's cache key.
struct RenderOptions {
  // A written buffer may overlap another one. When false each written range is disjoint from all others, and
  // the text states it (TOLK_SOURCE_ARGS_MAY_ALIAS is the plugin's side of it).
  bool may_alias = false;
  // tolk_target.arch_features: what a SPIR-V module may use and promise.
  std::string_view features = {};
};

struct Renderer {
  const char* name;    // what TARGET= accepts: "llvm-ir"
  uint32_t kind;       // TOLK_TARGET_*
  const char* dialect; // of tolk_target; "" takes every dialect of the kind
  uint32_t version;    // of what it writes, in the units of tolk_target.version_min
  bool is_text;        // whether a person can read the result
  // The source of a kernel that `verify` accepts; pure and thread-safe. Throws InternalError for an operation
  // or dtype that the target does not have: codegen lowers those before. An empty result means that the
  // target has no text and takes the kernel itself (kernel-ir).
  std::string (*render)(const KernelIR& kernel, const RenderOptions& options);
};

// The renderer of a target's kind and dialect, whose version is in the target's range; or nullptr.
TOLK_API const Renderer* find_renderer(const tolk_target& target);
// Index of the first target that has a renderer; 0 when none has.
TOLK_API uint32_t first_renderable(std::span<const tolk_target> targets);

// Byte offset of a DEFINE_LOCAL (`op`, its number) in the work-group storage, which holds every DEFINE_LOCAL in
// order, each at a multiple of 64. For the number of operations it is the size of all, ProgramInfo.shared_bytes.
TOLK_API uint64_t local_storage_offset(const KernelIR& kernel, uint32_t op);

} // namespace tolk
