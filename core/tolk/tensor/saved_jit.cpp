#include "tolk/tensor/saved_jit.h"

namespace tolk {

using Results = detail::Boxed<std::vector<Tensor>>;

LoadedJit::LoadedJit(engine::LoadedCapture loaded) {
  std::vector<Tensor> results;
  for (const UOp& u : loaded.results) results.push_back(u ? Tensor(u) : Tensor());
  loaded.parts.value = Results{std::move(results)};
  state_ = detail::jit_state(std::make_shared<const engine::Capture>(std::move(loaded.parts)));
}

std::vector<Tensor> LoadedJit::results(detail::JitCall& call) {
  const std::any* kept = call.call({}, {});
  std::vector<Tensor> results = std::any_cast<const Results&>(*kept).value;
  for (Tensor& t : results) call.finish(t);
  return results;
}

LoadedJit load_jit(std::string_view file, const engine::LoadOptions& options) {
  return LoadedJit(engine::load_capture(file, options));
}

} // namespace tolk
