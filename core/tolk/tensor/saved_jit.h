// Captured functions of tensors in files (engine/capture/saved_capture.h has what such a file holds).
//
//   write_file("step.tolk", save_jit(step, {.weights = true}));       // after its second call
//   LoadedJit again = load_jit(read_file("step.tolk"));               // in another process
//   std::vector<Tensor> y = again(x, std::vector<Tensor>{bias});
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/base/error.h"
#include "tolk/engine/capture/saved_capture.h"
#include "tolk/tensor/jit.h"
#include "tolk/uop/state.h"

namespace tolk {

struct SaveJitOptions {
  // Also the contents of tensors that the function only reads. Without it, load_jit wants their storage from
  // LoadOptions::storage. Tensors that it updates are saved with their contents in any case.
  bool weights = false;
};

// Throws JitError "can't save an uncaptured JIT", and what engine::save_capture throws.
template <class R, class... Args>
std::string save_jit(const Jit<R(Args...)>& jit, const SaveJitOptions& options = {}) {
  using Value = std::conditional_t<std::is_void_v<R>, std::monostate, R>;
  auto replay = jit.replay();
  if (!replay) throw JitError("can't save an uncaptured JIT: it has a capture after its second call");
  engine::SaveOptions save;
  save.weights = options.weights;
  auto value = std::any_cast<const detail::Boxed<Value>&>(replay->capture().value()).value;
  auto visit = [&](Tensor& t) { save.results.push_back(t.defined() ? without_states(t.node()) : UOp()); };
  detail::visit_result(value, visit);
  return engine::save_capture(*replay, save);
}

// Replays from its first call on. Handles share one capture; one thread at a time may call it.
class TOLK_API LoadedJit {
public:
  explicit LoadedJit(engine::LoadedCapture loaded);

  // The arguments as the captured function takes them; only tensors and bound sizes matter. Gives the
  // tensors of its result in order, the same ones at every call: the next call overwrites their storage.
  // Throws what a replay of Jit throws. Inside a captured function it is refused, unless CAPTURING is 0 there:
  // it runs once then, at the capture.
  template <class... Args> std::vector<Tensor> operator()(const Args&... arguments) {
    detail::JitCall call(*state_);
    (detail::visit_argument(call, arguments), ...);
    return results(call);
  }
  std::shared_ptr<const engine::Capture> captured() const { return detail::captured(*state_); }
  std::shared_ptr<engine::Replay> replay() const { return detail::replay(*state_); }

private:
  static std::vector<Tensor> results(detail::JitCall& call);
  std::shared_ptr<detail::JitState> state_;
};

// Throws what engine::load_capture throws: FormatError for a damaged file, before any device is opened.
TOLK_API LoadedJit load_jit(std::string_view file, const engine::LoadOptions& options = {});

} // namespace tolk
