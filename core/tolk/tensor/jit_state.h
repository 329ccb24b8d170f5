// The object behind a Jit and a LoadedJit. Internal to the layer.
#pragma once

#include <any>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tolk/engine/capture/function.h"
#include "tolk/tensor/jit.h"

namespace tolk::detail {

// A function at storage level, and the call of it that is going on: JitCall's side without types. Members
// below the claim belong to the thread that holds it.
class JitState {
public:
  using Keep = std::function<std::any(const JitCall::Visit&)>;

  explicit JitState(JitOptions options);
  explicit JitState(std::shared_ptr<const engine::Capture> captured);
  JitState(const JitState&) = delete; // the function refers to it
  JitState& operator=(const JitState&) = delete;

  engine::Function& function() { return function_; }
  const engine::Function& function() const { return function_; }

  // As the members of JitCall.
  void begin_call();
  void end_call();
  void tensor(const Tensor& value, int depth);
  void arguments(const Arguments& value, int depth);
  void size(const SInt& value);
  void next() { ++position_; }
  const std::any* call(const std::function<void()>& run, const Keep& keep);
  void realize(const std::vector<Tensor*>& tensors) const;
  void finish(Tensor& tensor) const;

private:
  struct Positional {
    int position;
    Tensor value;
  };
  engine::Function make(JitOptions options);
  engine::JitInputs prepare() const;
  // Nodes of the tensors below the first level.
  std::vector<UOp> deep() const;

  bool wait_ = false;
  bool compares_deep_ = true; // a file does not say which tensors were deep
  std::vector<UOp> captured_deep_;
  engine::Function function_;

  std::optional<engine::Function::Claim> claim_;
  const std::function<void()>* run_ = nullptr;
  const Keep* keep_ = nullptr;
  uint64_t since_ = 0; // version of the first write that belongs to the call
  engine::JitInputs inputs_;
  int position_ = 0;
  std::vector<Positional> positional_;
  std::map<std::string, Tensor> named_;
  std::vector<Tensor> contained_, deep_;
  std::vector<SInt> sizes_;
};

} // namespace tolk::detail
