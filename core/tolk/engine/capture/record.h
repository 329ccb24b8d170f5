// The second call of a captured function: runs it with a capturer installed and lowers what it scheduled to the
// parts of a Capture.
#pragma once

#include <any>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tolk/engine/capture/capture.h"
#include "tolk/engine/compile/compile_linear.h"

namespace tolk::engine {

struct FunctionOptions {
  std::string device = {};   // for nodes without a device; empty: the default one at the capture
  ToProgram to_program = {}; // empty: the engine's own
  std::function<std::any(const JitInputs& inputs)> function = {};
  std::shared_ptr<const Capture> captured = {}; // replays from the first call on
  // Kernels that no input reaches run once, at the capture. Assumes that nothing else changes buffers between
  // calls.
  bool prune = false;
  // Buffers that anything outside the captured schedules still refers to when the function has returned keep
  // their contents after a call, as those of `held` do.
  bool hold_reachable = false;
  // Makes the result of replays from the result of the recorded call; adds inputs that are part of it to
  // `returned`. Empty: that result.
  std::function<std::any(std::any value, const JitInputs& inputs, std::vector<size_t>& returned)> kept = {};
};

// Throws what Function::call lists for a capture. When the function itself or a check of its schedules fails, the
// recorded schedules have run, so that no node is linked to a result that was never computed. After a failure to
// compile some are.
CaptureParts record(const FunctionOptions& options, const JitInputs& inputs, const Resolver& buffers,
                    const HeldNodes& held);

// The LINEAR with PARAM k in place of the storage of input k. Fills `names` and `expected` of the parts.
TOLK_API UOp with_params(const UOp& list, const JitInputs& inputs, CaptureParts& parts);

} // namespace tolk::engine
