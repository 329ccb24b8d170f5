// A captured function at the level of storage nodes. Tensor programs use tensor/jit.h.
//
//   Function f({.function = [&](const JitInputs& in) { return std::any(step(in)); }});
//   Function::Result r = f.call(f.claim(), {.inputs = {{x}}, .names = {0}}, known_storage);
//
// Call 1 (Warmup) runs the function. Call 2 (Capture) runs it again and records its schedules: inputs become
// PARAMs, kernels are compiled, temporaries share an arena, sequences of kernels become graphs; then it replays
// them. Later calls (Exec) check their inputs and replay. The function's effects must go through tensors: host
// code, branches and constants are frozen at the capture. A call that is refused has no effect; a call that fails
// does not change the phase.
//
// One thread at a time may use one object; different objects, also on one device, any threads.
#pragma once

#include <any>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/engine/capture/record.h"
#include "tolk/engine/capture/replay.h"

namespace tolk::engine {

enum class Phase : int { Warmup, Capture, Exec };

class TOLK_API Function {
public:
  // Throws InvalidArgument "need either a function or a CapturedJit".
  explicit Function(FunctionOptions options);

  // Guards one call against concurrent and nested calls of the same object.
  struct Release {
    void operator()(Function* function) const { function->by_.store({}); }
  };
  using Claim = std::unique_ptr<Function, Release>;
  // Throws JitError: "having TinyJit inside another TinyJit is not supported" for a call inside a call or inside the
  // capture of another function, "another thread is in a call" otherwise.
  Claim claim();

  struct Result {
    // Whether the function ran and was not captured: `value` is its result. Otherwise `value` is empty, and the
    // result of every replay is captured()->value().
    bool ran = false;
    std::any value = {};
  };
  // Every replay asks `buffers` for the inputs; the capture also asks it for every other node. Nodes that it knows
  // and nodes of `held` keep their identity and contents. With `wait` the work is complete when the call returns.
  // JIT=0 runs the function, where there is one, at every call.
  //
  // Throws JitError "didn't JIT anything!", `variable "n" is bound inside the jitted function but is not an input`,
  // "that another thread computed while the function was captured", and what Replay::run throws.
  Result call(const Claim& claim, const JitInputs& inputs, const Resolver& buffers,
              const HeldNodes& held = {}, bool wait = false);

  // Null before the capture and after a reset.
  std::shared_ptr<const Capture> captured() const;
  const std::shared_ptr<Replay>& replay() const { return replay_; }
  int cnt() const { return cnt_; } // successful calls that were not eager, up to 2
  Phase phase() const { return Phase(cnt_); }
  // Forgets the capture; the next two calls run the function again. Throws InvalidArgument "can't reset
  // without function".
  void reset();

private:
  FunctionOptions options_;
  int cnt_ = 0;
  std::shared_ptr<Replay> replay_;
  std::atomic<std::thread::id> by_{}; // the thread that is in a call
};

} // namespace tolk::engine
