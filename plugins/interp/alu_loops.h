// The loops over lanes that turn a scalar function into an instruction.
#pragma once

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

} // namespace tolk_interp
