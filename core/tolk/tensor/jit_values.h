// What goes into and comes out of a captured function (tensor/jit.h): where the tensors are in arguments and
// results, named inputs, bound symbolic sizes.
#pragma once

#include <any>
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
#include "tolk/tensor/tensor.h"

namespace tolk {

// A symbolic size in [min, max]. Kernels are compiled once for all its values.
class TOLK_API Variable {
public:
  // Throws InvalidArgument when min > max or min < 0.
  Variable(std::string name, int64_t min, int64_t max);
  // The size with its value for this call. Throws InvalidArgument when the value is out of range.
  SInt bind(int64_t value) const;
  const UOp& node() const { return node_; }

private:
  UOp node_;
};

// Inputs by position and by name, for functions that take either:
//
//   Jit f([](const Arguments& in) { return in[0] + in["bias"]; });
//   f(Arguments{x}.with("bias", b));
class TOLK_API Arguments {
public:
  Arguments() = default;
  Arguments(std::initializer_list<Tensor> positional) : positional_(positional) {}
  // Throws InvalidArgument when the name is taken.
  Arguments& with(const std::string& name, Tensor value);

  // Throw InvalidArgument when there is none.
  const Tensor& operator[](size_t position) const;
  const Tensor& operator[](int position) const { return (*this)[static_cast<size_t>(position)]; }
  const Tensor& operator[](const std::string& name) const;
  const Tensor& operator[](const char* name) const { return (*this)[std::string(name)]; }

  const std::vector<Tensor>& positional() const { return positional_; }
  const std::map<std::string, Tensor>& named() const { return named_; }

private:
  std::vector<Tensor> positional_;
  std::map<std::string, Tensor> named_;
};

namespace detail {

// ---- signatures
// The object of a member function: passed through, its tensors are state.
template <class C> struct Instance {
  C* object;
  Instance(C& c) : object(&c) {} // NOLINT(google-explicit-constructor)
  C& operator*() const { return *object; }
};
template <class F> struct Signature : Signature<decltype(&F::operator())> {};
template <class R, class... A> struct Signature<R (*)(A...)> {
  using type = R(A...);
  using method = R(A...);
};
#define TOLK_JIT_SIGNATURE(qualifiers, C_type)                                                               \
  template <class R, class C, class... A> struct Signature<R (C::*)(A...) qualifiers> {                      \
    using type = R(A...);                                                                                    \
    using method = R(Instance<C_type>, A...);                                                                \
  };
TOLK_JIT_SIGNATURE(, C)
TOLK_JIT_SIGNATURE(const, const C)
TOLK_JIT_SIGNATURE(noexcept, C)
TOLK_JIT_SIGNATURE(const noexcept, const C)
#undef TOLK_JIT_SIGNATURE
template <class F> struct SignatureOf {
  using type = typename Signature<F>::type;
};
template <class F>
  requires std::is_member_function_pointer_v<F>
struct SignatureOf<F> {
  using type = typename Signature<F>::method;
};

template <class F> using signature_of = typename SignatureOf<F>::type;

// ---- shapes of types
template <class T> inline constexpr bool is_instance = false;
template <class C> inline constexpr bool is_instance<Instance<C>> = true;
template <class T> inline constexpr bool is_reference_wrapper = false;
template <class T> inline constexpr bool is_reference_wrapper<std::reference_wrapper<T>> = true;
template <class T> inline constexpr bool is_smart_pointer = false;
template <class T> inline constexpr bool is_smart_pointer<std::shared_ptr<T>> = true;
template <class T, class D> inline constexpr bool is_smart_pointer<std::unique_ptr<T, D>> = true;
template <class T> inline constexpr bool is_optional = false;
template <class T> inline constexpr bool is_optional<std::optional<T>> = true;

template <class T>
concept TupleLike = requires { std::tuple_size<T>::value; };
template <class T>
concept MapLike = requires(T& t) {
  typename T::mapped_type;
  t.begin();
  t.end();
};
template <class T>
concept ListLike = !MapLike<T> && requires(T& t) {
  typename T::value_type;
  t.begin();
  t.end();
};
struct AnyVisitor {
  template <class T> void operator()(T&&) const {}
};
template <class T>
concept Visitable = requires(const T& t) { t.visit_tensors(AnyVisitor{}); };
template <class T>
inline constexpr bool is_text = std::is_same_v<T, std::string> || std::is_same_v<T, std::string_view>;
// Frozen at the capture, as everything that is not a tensor.
template <class T>
inline constexpr bool is_plain =
    std::is_arithmetic_v<T> || std::is_enum_v<T> || is_text<T> || std::is_pointer_v<T> ||
    std::is_null_pointer_v<T> || is_instance<T> || is_reference_wrapper<T> || is_smart_pointer<T> ||
    std::is_same_v<T, DType> || std::is_same_v<T, std::monostate>;

// Whether Jit finds the tensors of a type: of an argument, or with `kResult` of a result, which has nothing else.
template <class T, bool kResult> constexpr bool has_known_tensors();
template <class T, bool kResult, size_t... I> constexpr bool elements_do(std::index_sequence<I...>) {
  return (has_known_tensors<std::tuple_element_t<I, T>, kResult>() && ...);
}
template <class Maybe, bool kResult> constexpr bool has_known_tensors() {
  using T = std::remove_cvref_t<Maybe>;
  if constexpr (kResult && (is_text<T> || !std::is_same_v<Maybe, T>))
    return false;
  else if constexpr (std::is_same_v<T, Tensor> || (kResult && std::is_same_v<T, std::any>))
    return true;
  else if constexpr (std::is_same_v<T, std::monostate> ||
                     (!kResult && (is_plain<T> || std::is_same_v<T, SInt> || std::is_same_v<T, Arguments> ||
                                   Visitable<T>)))
    return true;
  else if constexpr (is_optional<T> || ListLike<T>)
    return has_known_tensors<typename T::value_type, kResult>();
  else if constexpr (MapLike<T>)
    return has_known_tensors<typename T::mapped_type, kResult>();
  else if constexpr (TupleLike<T>)
    return elements_do<T, kResult>(std::make_index_sequence<std::tuple_size_v<T>>());
  else
    return false;
}
template <class T> inline constexpr bool is_jit_argument = has_known_tensors<T, false>();
template <class T> inline constexpr bool is_jit_result = has_known_tensors<T, true>();

// ---- arguments
class JitState;

// One call of a captured function: collects its tensors and sizes, runs or replays, fits the result to the
// call. While it lives no other call of the function may begin.
class TOLK_API JitCall {
public:
  // Executes the pending writes that the call must not contain. Throws JitError for a call inside a call and
  // for one beside another thread's.
  explicit JitCall(JitState& state);
  ~JitCall();
  JitCall(const JitCall&) = delete;
  JitCall& operator=(const JitCall&) = delete;

  // Arguments, in order. `depth` counts the containers around a value.
  void tensor(const Tensor& value, int depth);
  void arguments(const Arguments& value, int depth);
  void size(const SInt& value);
  void next(); // ends an argument: the next one has the next position

  using Visit = std::function<void(Tensor&)>;
  // Realizes the inputs and checks them, see Jit; then runs the function by `run`, or replays. Null when only
  // `run` ran and its value is the call's; otherwise what `keep` made at the capture of that value, with each
  // of its tensors visited.
  const std::any* call(const std::function<void()>& run, const std::function<std::any(const Visit&)>& keep);
  // For `run`: realizes the tensors of its value and the writes that the function left pending.
  void realize(const std::vector<Tensor*>& tensors) const;
  // Adapts a tensor of the kept result to this call: inputs that are part of it, values of its symbolic sizes.
  void finish(Tensor& tensor) const;

private:
  struct Data;
  void prepare();
  JitState& state_;
  std::unique_ptr<Data> data_;
};

template <class T> void visit_value(JitCall& call, const T& value, int depth) {
  if constexpr (std::is_same_v<T, Tensor>) {
    call.tensor(value, depth);
  } else if constexpr (std::is_same_v<T, Arguments>) {
    call.arguments(value, depth);
  } else if constexpr (std::is_same_v<T, SInt>) {
    call.size(value);
  } else if constexpr (is_plain<T>) {
  } else if constexpr (Visitable<T>) {
    value.visit_tensors([&](const auto& member) { visit_value(call, member, depth + 1); });
  } else if constexpr (is_optional<T>) {
    if (value) visit_value(call, *value, depth);
  } else if constexpr (MapLike<T>) {
    for (const auto& [key, element] : value) visit_value(call, element, depth + 1);
  } else if constexpr (ListLike<T>) {
    if constexpr (!is_plain<std::remove_cvref_t<typename T::value_type>>)
      for (const auto& element : value) visit_value(call, element, depth + 1);
  } else {
    std::apply([&](const auto&... elements) { (visit_value(call, elements, depth + 1), ...); }, value);
  }
}
template <class T> void visit_argument(JitCall& call, const T& value) {
  visit_value(call, value, 0);
  call.next();
}

// ---- results
// Throws JitError "JIT return contains non-Tensor value of type T".
TOLK_API void visit_any(std::any& value, const std::function<void(Tensor&)>& visit);

template <class T, class F> void visit_result(T& value, F& visit) {
  if constexpr (std::is_same_v<T, Tensor>) {
    visit(value);
  } else if constexpr (std::is_same_v<T, std::monostate>) {
  } else if constexpr (std::is_same_v<T, std::any>) {
    visit_any(value, [&](Tensor& t) { visit(t); });
  } else if constexpr (is_optional<T>) {
    if (value) visit_result(*value, visit);
  } else if constexpr (MapLike<T>) {
    for (auto& [key, element] : value) visit_result(element, visit);
  } else if constexpr (ListLike<T>) {
    for (auto& element : value) visit_result(element, visit);
  } else {
    std::apply([&](auto&... elements) { (visit_result(elements, visit), ...); }, value);
  }
}

// A value in a std::any, also when it is one itself.
template <class T> struct Boxed {
  T value;
};

} // namespace detail
} // namespace tolk
