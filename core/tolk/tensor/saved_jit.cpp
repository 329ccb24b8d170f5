#include "tolk/tensor/saved_jit.h"

#include "tolk/engine/capture/capture.h"

namespace tolk {

LoadedJit::LoadedJit(engine::LoadedCapture loaded) {
  std::vector<Tensor> results;
  for (const UOp& u : loaded.results) results.push_back(u ? Tensor(u) : Tensor());
  captured_ = engine::captured_from<std::vector<Tensor>>(std::move(loaded), std::move(results));
}

std::vector<Tensor> LoadedJit::run(detail::JitCall& call) {
  if (engine::is_capturing())
    throw JitError("having TinyJit inside another TinyJit is not supported: a loaded function would run once "
                   "and be missing from the replays");
  detail::realize_what_can_be();
  detail::realize_pending_on(captured_->storage());
  // Tensors deeper than inputs go are those of the capture: nothing here to compare them with.
  engine::JitInputs inputs = call.prepare({}, engine::Phase::Warmup);
  captured_->replay(inputs, engine::known_storage);
  std::vector<Tensor> results = captured_->ret;
  detail::with_inputs(results, inputs);
  detail::rebind_result(results, inputs.var_vals);
  return results;
}

LoadedJit load_jit(std::string_view file, const engine::LoadOptions& options) {
  return LoadedJit(engine::load_capture(file, options));
}

} // namespace tolk
