// Captured functions: a function of tensors that runs twice and from then on only replays its kernels.
//
//   tolk::Jit step([&](Tensor x, std::vector<Tensor> more) {
//     return (x.matmul(weight) + more[0]).relu();
//   });
//   for (...) Tensor y = step(x, {bias});    // calls 1 and 2 run the function, later ones only its kernels
//
// Inputs are the Tensors among the arguments and inside of vectors, arrays, maps, pairs, tuples and optionals
// among them, one level deep. From the third call on, each must lie in its storage as it did at the second:
// the same size, dtype, device and view. A tensor nested deeper must stay the one that the capture saw. Pass
// a bound symbolic size (Variable) for numbers that change from call to call:
//
//   Variable n("n", 1, 64);
//   Jit attend([&](Tensor q, SInt length) { return scores(q, cache.narrow(0, 0, length)); });
//   attend(q, n.bind(5));
//
// What the function does besides tensors is frozen as the second call met it: numbers and texts among the
// arguments, branches, what it prints. So are tensors that it reaches in other ways, such as captured
// variables and members: their storage is used, with the contents that it has at each call. A tensor that it
// assigns to in place keeps its storage.
//
// In place is the word: `w.assign(w - x)` writes the storage that the capture knows. `w = (w - x).realize()`
// makes another tensor of w, and replays go on with the storage of the w that the second call met.
//
// Writes with assign() need no realize() around a captured function. Those that are pending on this thread
// when it is called are carried out first, and are no part of it, as are those of other threads to what it
// uses. Those that the function makes are carried out at its end and in every replay, whether it realizes
// them or not.
//
// Every call from the second on returns the same storage, which the next call overwrites; all handles on it,
// older results too, then read the new values. Use clone() to keep a value:
//
//   Tensor kept = step(x, {bias}).clone().realize();
//
// A result that is an input, or a view of one, is the input of its call. When the storage of that input is
// one that the call overwrites, as the result of an earlier call is, the call is refused.
//
// A lazy value that the function leaves behind, in a captured variable, reads storage as the last call left
// it; what it reads of inputs it reads from those of the second call. Work that the function gives to other
// threads is not captured, and reading what they computed in the meantime is refused.
//
// A Jit object may be used by one thread at a time; a call while another thread is in one is refused. One
// that is shared by several instances of a class (a static member, say) replays what it captured of the first
// instance; give each instance its own.
#pragma once

#include <any>
#include <array>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/engine/capture/jit.h"
#include "tolk/tensor/jit_values.h"
#include "tolk/tensor/tensor.h"

namespace tolk {

struct JitOptions {
  std::string device = {}; // for values without a device; empty: the default device at the capture
  // Kernels that depend on no input run once, at the capture. Only for functions whose other tensors nobody
  // changes between calls.
  bool prune = false;
  bool wait = false;                 // return when the work is done
  engine::ToProgram to_program = {}; // another way to compile kernels; for tests and tools
};

template <class Signature> class Jit;

// Throws JitError: "JIT inputs must be real buffers; use .clone()" for an input that is a constant,
// "duplicate inputs to JIT" for two that share storage, "is returned as it is, and its storage is
// overwritten" for an input that is a result as well, "conflicting values for JIT var", "JIT vars must be
// bound variables", and what engine::TinyJit::call throws. Nothing has happened then.
template <class R, class... Args> class Jit<R(Args...)> {
  using Value = std::conditional_t<std::is_void_v<R>, std::monostate, R>;
  static_assert(detail::is_jit_result<Value>,
                "a captured function returns nothing, a Tensor, or containers of Tensors; other values would "
                "be those of the capture for ever. Return std::any to have that checked at run time");
  static_assert(
      (detail::is_jit_argument<std::remove_cvref_t<Args>> && ...),
      "an argument of a captured function is of a type whose tensors Jit cannot find: give the type a "
      "member `template <class V> void visit_tensors(V&& visit) const`, or pass a pointer or "
      "std::reference_wrapper when its tensors are state and not inputs");

public:
  template <class F>
    requires std::is_invocable_r_v<R, F&, Args...>
  explicit Jit(F function, JitOptions options = {})
      : function_(std::move(function)), wait_(options.wait), core_(make(std::move(options))) {}
  Jit(const Jit&) = delete;
  Jit& operator=(const Jit&) = delete;

  R operator()(Args... arguments) {
    engine::InUse::Claim claim(in_use_);
    // Before the function, so that they are no part of it.
    const uint64_t since = detail::realize_what_can_be();
    if (auto capture = core_.captured()) detail::realize_pending_on(capture->storage());
    detail::JitCall call;
    (detail::visit_argument(call, arguments), ...);
    engine::JitInputs inputs = call.prepare(deep_, core_.phase());
    std::function<Value()> run = [&]() -> Value {
      if constexpr (std::is_void_v<R>) {
        function_(std::forward<Args>(arguments)...);
        detail::realize_pending(since);
        return {};
      } else {
        Value value = function_(std::forward<Args>(arguments)...);
        detail::realize_result(value, since);
        return value;
      }
    };
    detail::Restore<const std::function<Value()>*> restore(run_, &run);
    bool captures = core_.phase() == engine::Phase::Capture;
    Value value = core_.call(inputs, engine::known_storage, {}, wait_);
    if (captures && core_.phase() == engine::Phase::Exec) deep_ = call.deep();
    detail::with_inputs(value, inputs);
    detail::rebind_result(value, inputs.var_vals);
    if constexpr (!std::is_void_v<R>) return value;
  }

  // Forgets the capture: the next two calls run the function, with inputs of any form.
  void reset() { core_.reset(); }
  engine::Phase phase() const { return core_.phase(); }
  int cnt() const { return core_.cnt(); }
  // The capture; null before the second call.
  std::shared_ptr<engine::CapturedJit<Value>> captured() const { return core_.captured(); }

private:
  engine::TinyJit<Value> make(JitOptions options) {
    typename engine::TinyJit<Value>::Options out;
    out.device = std::move(options.device), out.to_program = std::move(options.to_program);
    out.prune = options.prune, out.hold_reachable = true;
    out.function = [this](const engine::JitInputs&) { return (*run_)(); };
    out.kept = detail::without_inputs<Value>;
    return engine::TinyJit<Value>::create(std::move(out));
  }

  std::function<R(Args...)> function_;
  bool wait_;
  const std::function<Value()>* run_ = nullptr;
  std::vector<UOp> deep_;
  engine::InUse in_use_;
  engine::TinyJit<Value> core_;
};

template <class F> Jit(F) -> Jit<detail::signature_of<F>>;
template <class F> Jit(F, JitOptions) -> Jit<detail::signature_of<F>>;

} // namespace tolk
