// A function that runs twice, once as it is and once while it is recorded; from then on only its kernels run.
//
//   Function f = Function::create({.function = [](const JitInputs& in) { ... realize ... return result; }});
//   Function::Result r = f.call(f.claim(), whole_inputs({x}), known_storage);
//
// Tensor programs use tensor/jit.h; this is the part below it, which knows storage nodes only. The function's
// effects must go through tensors: host code, branches and constants are frozen as of the recording.
//
// Call 1 (Warmup) runs the function. Call 2 (Capture) runs it once more and takes what it schedules: inputs
// become PARAMs, kernels are compiled, temporaries share an arena, runs of kernels become graphs; then that is
// replayed. Later calls (Exec) check their inputs and replay. A call that is refused has no effect, a call that
// fails leaves the phase as it was.
//
// One thread at a time may use one object; different objects, also on one device, any threads.
#pragma once

#include <any>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/engine/capture/capture.h"
#include "tolk/engine/capture/replay.h"

namespace tolk::engine {

enum class Phase : int { Warmup, Capture, Exec };

class TOLK_API Function {
public:
  struct Options {
    std::string device = {};   // for nodes without a device; empty: the default one at the capture
    ToProgram to_program = {}; // empty: the engine's own
    std::function<std::any(const JitInputs& inputs)> function = {};
    std::shared_ptr<const Capture> captured = {}; // replays from the first call on
    // Kernels that no input reaches run once, at the capture. Assumes that nothing else changes buffers
    // between calls.
    bool prune = false;
    // Besides what `held` names, every buffer that something outside of the captured schedules still refers
    // to when the function has returned keeps its contents after the call.
    bool hold_reachable = false;
    // What replays return, made from what the recorded call returned; adds inputs that are part of it to
    // `returned`. Empty: that value.
    std::function<std::any(std::any value, const JitInputs& inputs, std::vector<size_t>& returned)> kept = {};
  };
  // Throws InvalidArgument "need either a function or a CapturedJit".
  static Function create(Options options);
  Function(Function&& other) noexcept; // of an object that is in no call

  // Guards one call against concurrent and nested calls of the same object.
  class TOLK_API Claim {
  public:
    // Throws JitError: "having TinyJit inside another TinyJit is not supported" for a call inside a call,
    // "another thread is in a call" otherwise.
    explicit Claim(Function& function);
    Claim(Claim&& other) noexcept : function_(std::exchange(other.function_, nullptr)) {}
    Claim& operator=(Claim&&) = delete;
    ~Claim();

  private:
    Function* function_;
  };
  Claim claim() { return Claim(*this); }

  struct Result {
    // Whether the function ran and was not captured: `value` is what it returned. Otherwise the call's value is
    // captured()->value(), the same at every replay, and `value` is empty.
    bool ran = false;
    std::any value = {};
  };
  // `buffers` is asked for every input at every replay, and once, at the capture, for every other node; what
  // it knows keeps its identity and its contents, as do the nodes of `held`. With `wait` the work is done
  // when the call returns. JIT=0 runs the function at every call, unless there is none.
  //
  // Throws JitError "having TinyJit inside another TinyJit is not supported", "didn't JIT anything!",
  // `variable "n" is bound inside the jitted function but is not an input`, "that another thread computed
  // while the function was captured", and what Replay::run throws.
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
  explicit Function(Options options);

  Options options_;
  int cnt_ = 0;
  std::shared_ptr<Replay> replay_;
  std::atomic<std::thread::id> by_{}; // the thread that is in a call
};

} // namespace tolk::engine
