// Captured functions: a function of tensors that runs twice; later calls only replay its kernels.
//
//   Jit step([&](Tensor x, std::vector<Tensor> more) { return (x.matmul(weight) + more[0]).relu(); });
//   for (const Tensor& x : batches) Tensor y = step(x, {bias});
//
// Inputs are the Tensors among the arguments, and those one level deep in vectors, arrays, maps, pairs, tuples and
// optionals. From the third call on each must lie in its storage as it did at the second: the same size, dtype,
// device and view. A tensor that is nested deeper must stay the same one. Numbers that change from call to call are
// bound symbolic sizes (Variable):
//
//   Variable n("n", 1, 64);
//   Jit attend([&](Tensor q, SInt length) { return scores(q, cache.narrow(0, 0, length)); });
//   attend(q, n.bind(5));
//
// Everything else is frozen at the second call: numbers and strings among the arguments, branches, output. Tensors
// that the function reaches in other ways, such as captured variables and members, are read with the contents that
// their storage has at each call. Update such a tensor in place: `w.assign(w - x)` writes the storage that the
// capture knows. `w = (w - x).realize()` makes another tensor, and replays keep using the storage of the w that the
// second call met.
//
// assign() needs no realize() around a captured function. Writes that are pending before a call, on this thread or
// on storage that the function uses, are executed first and are not part of it. Writes that the function makes are
// executed at its end and in every replay.
//
// Every call from the second on returns the same storage, which the next call overwrites; all handles on it, older
// results included, then read the new values. clone() keeps a value:
//
//   Tensor kept = step(x, {bias}).clone().realize();
//
// A result that is an input, or a view of one, is the input of its own call. The call is refused when it overwrites
// the storage of that input, as it does for the result of an earlier call.
//
// A lazy value that the function leaves in a captured variable reads storage as the last call left it; of inputs it
// reads those of the second call. Work that the function gives to other threads is not captured, and a call that
// reads the results of such work is refused.
//
// One thread at a time may use a Jit object; a call while another thread is in one is refused. A Jit that instances
// of a class share (a static member) replays what it captured of the first instance; give each instance its own.
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
#include "tolk/tensor/jit_values.h"
#include "tolk/tensor/tensor.h"

namespace tolk {

class Device;
namespace engine {
class Capture;
class Replay;
enum class Phase : int;
} // namespace engine

struct JitOptions {
  std::string device = {}; // for values without a device; empty: the default device at the capture
  // Kernels that depend on no input run once, at the capture. Only for functions whose other tensors do not change
  // between calls.
  bool prune = false;
  bool wait = false; // return when the work is done
  // Another way to compile kernels (engine::ToProgram); for tests and tools.
  std::function<UOp(Device& device, const UOp& sink, bool may_alias)> to_program = {};
};

namespace detail {

// The state of a Jit: its capture, and the call that is going on.
TOLK_API std::shared_ptr<JitState> jit_state(JitOptions options);
std::shared_ptr<JitState> jit_state(std::shared_ptr<const engine::Capture> captured); // replays at every call
TOLK_API void reset(JitState& state);
TOLK_API engine::Phase phase(const JitState& state);
TOLK_API int cnt(const JitState& state);
TOLK_API std::shared_ptr<const engine::Capture> captured(const JitState& state);
TOLK_API std::shared_ptr<engine::Replay> replay(const JitState& state);

} // namespace detail

template <class Signature> class Jit;

// Throws JitError: "JIT inputs must be real buffers; use .clone()" for an input that is a constant,
// "duplicate inputs to JIT" for two that share storage, "is returned as it is, and its storage is
// overwritten" for an input that is a result as well, "conflicting values for JIT var", "JIT vars must be
// bound variables", and what engine::Function::call throws. Nothing has happened then.
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
      : function_(std::move(function)), state_(detail::jit_state(std::move(options))) {}
  Jit(const Jit&) = delete;
  Jit& operator=(const Jit&) = delete;

  R operator()(Args... arguments) {
    detail::JitCall call(*state_);
    (detail::visit_argument(call, arguments), ...);
    std::optional<Value> value;
    auto run = [&] {
      std::vector<Tensor*> tensors;
      if constexpr (std::is_void_v<R>) {
        function_(std::forward<Args>(arguments)...);
        value.emplace();
      } else {
        value.emplace(function_(std::forward<Args>(arguments)...));
        auto visit = [&](Tensor& t) { tensors.push_back(&t); };
        detail::visit_result(*value, visit);
      }
      call.realize(tensors);
    };
    auto keep = [&](const detail::JitCall::Visit& visit) {
      detail::Boxed<Value> kept{*value};
      detail::visit_result(kept.value, visit);
      return std::any(std::move(kept));
    };
    if (const std::any* kept = call.call(run, keep))
      value.emplace(std::any_cast<const detail::Boxed<Value>&>(*kept).value);
    auto finish = [&](Tensor& t) { call.finish(t); };
    detail::visit_result(*value, finish);
    if constexpr (!std::is_void_v<R>) return std::move(*value);
  }

  // Forgets the capture: the next two calls run the function, with inputs of any form.
  void reset() { detail::reset(*state_); }
  engine::Phase phase() const { return detail::phase(*state_); }
  int cnt() const { return detail::cnt(*state_); }
  // Null before the second call. engine/capture/capture.h
  std::shared_ptr<const engine::Capture> captured() const { return detail::captured(*state_); }
  // Null before the second call. engine/capture/replay.h
  std::shared_ptr<engine::Replay> replay() const { return detail::replay(*state_); }

private:
  std::function<R(Args...)> function_;
  std::shared_ptr<detail::JitState> state_;
};

template <class F> Jit(F) -> Jit<detail::signature_of<F>>;
template <class F> Jit(F, JitOptions) -> Jit<detail::signature_of<F>>;

} // namespace tolk
