// engine::Function with values of one type, for tests of the part below tensors.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tolk/engine/capture/function.h"

namespace tolk::test {

// Inputs that are whole buffers, numbered.
inline engine::JitInputs whole_inputs(std::span<const UOp> storage, engine::VarVals var_vals = {}) {
  engine::JitInputs out;
  for (const UOp& node : storage) {
    out.names.emplace_back(int(out.inputs.size()));
    out.inputs.push_back({node});
  }
  out.var_vals = std::move(var_vals);
  return out;
}

template <class R> class TypedFunction {
public:
  using Body = std::function<R(const engine::JitInputs&)>;
  struct Options {
    std::string device = {};
    engine::ToProgram to_program = {};
    Body function = {};
    std::shared_ptr<const engine::Capture> captured = {};
    bool prune = false;
    bool hold_reachable = false;
  };
  static TypedFunction create(Options options) {
    engine::FunctionOptions out;
    out.device = options.device, out.to_program = options.to_program, out.captured = options.captured;
    out.prune = options.prune, out.hold_reachable = options.hold_reachable;
    if (options.function)
      out.function = [body = options.function](const engine::JitInputs& in) { return std::any(body(in)); };
    return TypedFunction(std::move(out));
  }

  R call(const engine::JitInputs& inputs, const engine::Resolver& buffers, const engine::HeldNodes& held = {},
         bool wait = false) {
    engine::Function::Result result = function_.call(function_.claim(), inputs, buffers, held, wait);
    return std::any_cast<R>(result.ran ? result.value : captured()->value());
  }
  std::shared_ptr<const engine::Capture> captured() const { return function_.captured(); }
  std::shared_ptr<engine::Replay> replay() const { return function_.replay(); }
  int cnt() const { return function_.cnt(); }
  engine::Phase phase() const { return function_.phase(); }
  void reset() { function_.reset(); }

private:
  explicit TypedFunction(engine::FunctionOptions options) : function_(std::move(options)) {}
  engine::Function function_;
};

} // namespace tolk::test
