// The passes between a schedule and what runs, in their order. Each pipeline selects passes:
//
//   pass         | realize, Model::run | captured function | Model::save | load_capture
//   compile      | x                   | x                 | x           | what has no trusted code
//   prune        |                     | optional          |             |
//   parametrize  |                     | x                 | x           | (in the file)
//   plan memory  | by the scheduler    | x                 | as for run  | (in the file)
//   batch        |                     | x                 | x           | x
//
// The scheduler plans memory where a single schedule runs, and caches the planned schedule. A capture is several
// schedules and plans memory once, over all of them.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/engine/compile/compile_linear.h"
#include "tolk/uop/uop.h"

namespace tolk::engine {

struct LowerOptions {
  // compile, always; arguments of compile_linear
  ToProgram to_program = {};
  std::optional<int> beam = {};
  Progress progress = {};
  size_t* compiled = nullptr;
  // A pass from LINEAR to LINEAR; an empty one is left out.
  std::function<UOp(const UOp& compiled)> prune = {};
  std::function<UOp(const UOp& compiled)> parametrize = {};
  // Called after pruning: BUFFERs that memory planning must not move. Empty: memory is not planned.
  std::function<std::vector<UOp>()> held = {};
  bool batch = false;
};

struct Lowered {
  UOp planned; // before batching, and the same where nothing is batched
  UOp linear;
};
// Throws what the passes throw.
Lowered lower_linear(Device& ambient, const UOp& scheduled, const LowerOptions& options);

} // namespace tolk::engine
