// The loops over lanes that turn a scalar function into an instruction.
#pragma once

#include <type_traits>

#include "program.h"
#include "types.h"

namespace tolk_interp {

template <class T, auto function> void unary(std::byte* frame, const Instruction& in) {
  using Cell = typename T::Cell;
  Cell* d = cells<Cell>(frame, in.dst);
  const Cell* a = cells<Cell>(frame, in.a);
  for (uint32_t i = 0; i < in.lanes; i++) d[i] = T::put(function(T::get(a[i])));
}

template <class T, auto function> void binary(std::byte* frame, const Instruction& in) {
  using Cell = typename T::Cell;
  Cell* d = cells<Cell>(frame, in.dst);
  const Cell *a = cells<Cell>(frame, in.a), *b = cells<Cell>(frame, in.b);
  for (uint32_t i = 0; i < in.lanes; i++) d[i] = T::put(function(T::get(a[i]), T::get(b[i])));
}

template <class T, auto function> void ternary(std::byte* frame, const Instruction& in) {
  using Cell = typename T::Cell;
  Cell* d = cells<Cell>(frame, in.dst);
  const Cell *a = cells<Cell>(frame, in.a), *b = cells<Cell>(frame, in.b), *c = cells<Cell>(frame, in.c);
  for (uint32_t i = 0; i < in.lanes; i++) d[i] = T::put(function(T::get(a[i]), T::get(b[i]), T::get(c[i])));
}

template <class T, auto function> void compare(std::byte* frame, const Instruction& in) {
  using Cell = typename T::Cell;
  uint8_t* d = cells<uint8_t>(frame, in.dst);
  const Cell *a = cells<Cell>(frame, in.a), *b = cells<Cell>(frame, in.b);
  for (uint32_t i = 0; i < in.lanes; i++) d[i] = function(T::get(a[i]), T::get(b[i]));
}

template <class T, auto function> AluFunction loop_over_lanes() {
  using N = typename T::Number;
  using F = decltype(function);
  if constexpr (std::is_invocable_v<F, N>)
    return unary<T, function>;
  else if constexpr (std::is_invocable_v<F, N, N, N>)
    return ternary<T, function>;
  else if constexpr (std::is_same_v<std::invoke_result_t<F, N, N>, bool>)
    return compare<T, function>;
  else
    return binary<T, function>;
}

// The instruction that applies the member of Ops with the opcode's name; null when there is none.
template <class T, class Ops> AluFunction function_of(uint16_t opcode) {
  switch (opcode) {
#define TOLK_IR(NAME, code, lo, hi, meaning)                                                                 \
  case code:                                                                                                 \
    if constexpr (requires { &Ops::NAME; }) return loop_over_lanes<T, &Ops::NAME>();                         \
    break;
#include <tolk/plugin/kernel_ir_ops.def>
#undef TOLK_IR
  default:
    break;
  }
  return nullptr;
}

} // namespace tolk_interp
