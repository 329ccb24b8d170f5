// The verifier: what a graph may contain at each stage, as tables of rules. It runs between stages in builds
// with TOLK_VERIFY, so a faulty pass is an error where it went wrong.
#pragma once

#include "tolk/uop/uop.h"

namespace tolk {

enum class Stage : uint8_t {
  TensorGraph, // what tensors build: movement, reductions over axes, buffers
  KernelGraph, // LINEAR of CALLs; kernel bodies are verified as Kernel
  Kernel,  // one kernel from the scheduler, or half-way through codegen: SINK over END(STORE(...), RANGE...)
  Lowered, // after expansion: no Index, no REDUCE, vector lanes agree
};
TOLK_API const char* name(Stage stage);

// Throws InternalError that names the stage, the rule, what it requires, and the node. Iterative; linear in
// the graph, except for the sets of open loops in kernels.
TOLK_API void verify(const UOp& root, Stage stage);

// `verify`, where it is compiled in.
inline void verify_stage([[maybe_unused]] const UOp& root, [[maybe_unused]] Stage stage) {
#ifdef TOLK_VERIFY
  verify(root, stage);
#endif
}

} // namespace tolk
