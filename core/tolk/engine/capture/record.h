// The second call of a captured function: runs it with a capturer installed and makes what it scheduled into
// the parts of a Capture.
#pragma once

#include <functional>
#include <string>

#include "tolk/engine/capture/capture.h"

namespace tolk::engine {

struct RecordOptions {
  std::string device; // for nodes without a device; empty: the default one
  ToProgram to_program;
  bool prune = false;
  bool hold_reachable = false;
};

// Throws what Function::call lists for a capture. When the function itself or a check of what it scheduled fails,
// what was recorded has run, so that no result is left that nothing computed; a failure to compile leaves some.
CaptureParts record(const RecordOptions& options, const JitInputs& inputs, const Resolver& buffers,
                    const HeldNodes& held, const std::function<void()>& body);

// The LINEAR with PARAM k in place of the storage of input k; puts names and what replays expect into
// `parts`.
TOLK_API UOp with_params(const UOp& list, const JitInputs& inputs, CaptureParts& parts);

} // namespace tolk::engine
