// Conversions between dtypes as inline code, without library calls. Each rounds once, to nearest even, and is
// branch-free and elementwise over lanes, by the rules of CAST in kernel_ir_ops.def. Internal to the layer.
#pragma once

#include "tolk/render/emit/emitter.h"

namespace tolk::emit {

// f16, bf16 and the f8 kinds: registers hold them as integers, arithmetic goes through f32.
bool is_small_float(DType dtype);

// Exact.
Value to_f32(Emitter& e, DType from, Value value);
// Rounds once.
Value from_f32(Emitter& e, DType to, Value value);
// f64 to f32 such that a later rounding to at most 22 bits is the rounding of the f64: an inexact result gets
// an odd last bit.
Value f64_to_odd_f32(Emitter& e, Value value);

// CAST of a value of dtype `from` in register form.
Value cast(Emitter& e, DType from, DType to, Value value);

// a * b + c of small floats in register form, rounded once.
Value small_float_mulacc(Emitter& e, DType dtype, Value a, Value b, Value c);

} // namespace tolk::emit
