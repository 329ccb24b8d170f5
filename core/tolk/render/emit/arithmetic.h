// Arithmetic of the kernel IR as instructions, by the rules of kernel_ir_ops.def. Internal to the layer.
#pragma once

#include <span>

#include "tolk/dtype/dtype.h"
#include "tolk/render/emit/emitter.h"

namespace tolk::emit {

// What an operation needs besides its operands.
struct AluOp {
  uint16_t opcode;
  DType dtype;               // of the result
  DType source_dtype;        // of the first operand
  bool no_wrap = false;      // TOLK_IR_NO_WRAP
  bool non_negative = false; // integers: no operand is below zero
};

// CAST, BITCAST, arithmetic, comparisons, WHERE, SQRT, TRUNC of operands in register form, elementwise over
// lanes. Throws InternalError for any other opcode; `language` names the renderer in that message.
Value alu(Emitter& e, const AluOp& op, std::span<const Value> src, const char* language);

// The conversions at loads and stores.
Value to_memory(Emitter& e, Value value);
Value from_memory(Emitter& e, Value value, DType type);

} // namespace tolk::emit
