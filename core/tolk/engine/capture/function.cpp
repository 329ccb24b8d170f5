#include "tolk/engine/capture/function.h"

#include <utility>

#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/engine/capture/capture_scope.h"
#include "tolk/engine/capture/record.h"

namespace tolk::engine {
namespace {

JitError nested() {
  return JitError("having TinyJit inside another TinyJit is not supported: its kernels would be missing from "
                  "the outer replay. Call the function itself there");
}

} // namespace

Function::Claim Function::claim() {
  std::thread::id owner;
  if (!by_.compare_exchange_strong(owner, std::this_thread::get_id())) {
    if (owner == std::this_thread::get_id()) throw nested();
    throw JitError(
        "another thread is in a call of this captured function, and one thread at a time may call it: its "
        "results share storage. Give each thread a Jit of its own, or let one wait for the other");
  }
  Claim claim(this);
  bool runs = options_.function && (Config::current().jit == 0 || phase() == Phase::Warmup);
  // A capture without its function never calls back, so CAPTURING=0 may run it once inside another capture.
  if (!runs && (options_.function ? !capturing().empty() : is_capturing())) throw nested();
  return claim;
}

Function::Function(FunctionOptions options) : options_(std::move(options)) {
  if (!options_.function && !options_.captured)
    throw InvalidArgument(
        "a captured function has nothing to run: it does need either a function or a CapturedJit");
  if (!options_.captured) return;
  cnt_ = 2;
  replay_ = std::make_shared<Replay>(std::move(options_.captured));
}

std::shared_ptr<const Capture> Function::captured() const {
  return replay_ ? replay_->shared_capture() : nullptr;
}

void Function::reset() {
  if (!options_.function)
    throw InvalidArgument(
        "a captured function that was made from a capture alone can't reset without function: "
        "there is nothing to capture again");
  cnt_ = 0;
  replay_ = nullptr;
}

Function::Result Function::call(const Claim&, const JitInputs& inputs, const Resolver& buffers,
                                const HeldNodes& held, bool wait) {
  const Config& config = Config::current();
  if (config.jit == 0 && options_.function) return {true, options_.function(inputs)};
  if (phase() == Phase::Warmup) {
    Config plain = config;
    if (config.ignore_jit_first_beam != 0) plain.beam = 0;
    ScopedConfig scope(plain);
    Result result{true, options_.function(inputs)};
    cnt_ = 1;
    return result;
  }
  if (phase() == Phase::Exec) {
    replay_->run(inputs, buffers, wait);
    return {};
  }
  if (config.capturing == 0)
    throw JitError("didn't JIT anything! CAPTURING=0 is set, so that the kernels of the function would run "
                   "at once and the capture would stay empty. Unset it for this call, or set JIT=0 to run "
                   "the function without capturing");
  auto fresh =
      std::make_shared<Replay>(std::make_shared<const Capture>(record(options_, inputs, buffers, held)));
  fresh->run(inputs, buffers, wait);
  replay_ = std::move(fresh);
  cnt_ = 2;
  return {};
}

} // namespace tolk::engine
