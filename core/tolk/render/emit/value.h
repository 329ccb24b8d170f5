// Types and values of the instructions that renderers emit. Internal to the layer.
//
// A dtype lives in a register as: bool i1; f16, bf16 and the f8 kinds as the integer of their width, because
// only conversions look inside them; everything else as itself. In memory bool is i8.
#pragma once

#include <cstdint>

#include "tolk/dtype/dtype.h"

namespace tolk::emit {

enum class Kind : uint8_t { I1, I8, I16, I32, I64, F16, F32, F64, Ptr };

struct Type {
  Kind kind = Kind::I1;
  uint16_t lanes = 1;
  Type with(Kind other) const { return {other, lanes}; }
  Type scalar() const { return {kind, 1}; }
  friend bool operator==(const Type&, const Type&) = default;
};

int bits(Kind kind);
inline bool is_float(Kind kind) { return kind == Kind::F16 || kind == Kind::F32 || kind == Kind::F64; }
Kind int_kind(int bits);

// The register and memory type of a dtype. Throws InternalError for dtypes narrower than 8 bits, Index and
// Void.
Type register_type(DType dtype, int lanes);
Type memory_type(DType dtype, int lanes);

// An operand: a register, one constant for all lanes, or a constant per lane.
struct Value {
  enum class Form : uint8_t { None, Register, Constant, List };
  Form form = Form::None;
  Type type;
  uint32_t number = 0; // register, or start of the list
  uint64_t bits = 0;   // Constant: raw bits of each lane

  bool is_constant() const { return form == Form::Constant; }
  explicit operator bool() const { return form != Form::None; }
};

inline Value constant(Type type, uint64_t bits) { return {Value::Form::Constant, type, 0, bits}; }
// A float constant of kind F32 or F64.
Value float_constant(Type type, double value);

} // namespace tolk::emit
