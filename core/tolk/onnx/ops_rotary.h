// Rotation of positions into queries and keys, shared by the operators that do it.
#pragma once

#include "tolk/tensor/tensor.h"

namespace tolk::onnx {

struct Rotary {
  Tensor cos, sin;  // (positions, half), or (B, L, half) when `positions` is undefined
  Tensor positions; // (B, L) or (1, L) integers, or undefined
  bool interleaved; // pairs are neighbours; else the first half pairs with the second
  int64_t dim;      // how much of each head turns; 0: all of it
};

// x (B, H, L, D) with the first `dim` of every head turned.
Tensor rotated(const Tensor& x, const Rotary& how);

} // namespace tolk::onnx
