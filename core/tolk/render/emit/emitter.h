// The instructions that every renderer can emit. Arithmetic (arithmetic.h) and conversions (casts.h) are
// written once over these; a renderer implements them in its language. Names of operations and predicates are
// those of LLVM IR. Internal to the layer.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "tolk/render/emit/value.h"

namespace tolk::emit {

class Emitter {
public:
  // Both operands have one type. add, sub, mul, udiv, sdiv, urem, srem, shl, lshr, ashr, and, or, xor, fadd,
  // fsub, fmul, fdiv; add, sub and mul may be followed by " nsw" or " nuw". A divisor is not zero, a quotient
  // does not overflow, a shift is less than the width.
  virtual Value binary(std::string_view op, Value a, Value b) = 0;
  virtual Value fneg(Value a) = 0;
  // The result is i1 with the operands' lanes.
  virtual Value icmp(std::string_view predicate, Value a, Value b) = 0;
  virtual Value fcmp(std::string_view predicate, Value a, Value b) = 0;
  // `condition` is i1, scalar or with the operands' lanes.
  virtual Value select(Value condition, Value a, Value b) = 0;
  // trunc, zext, sext, fptrunc, fpext, sitofp, uitofp, fptosi, fptoui to the element kind `to`. A float that
  // becomes an integer is in the integer's range.
  virtual Value convert(std::string_view op, Value a, Kind to) = 0;
  // The same bits as another type.
  virtual Value bitcast(Value a, Kind to) = 0;
  // fabs, fma, sqrt, trunc of the operands' type.
  virtual Value intrinsic(std::string_view name, std::initializer_list<Value> operands) = 0;
  // A float as an integer of a dtype: truncates, saturates, NaN gives 0. No value when the language has no such
  // instruction for these lanes.
  virtual Value saturating_cast(Value value, DType to) = 0;
  // Whether fptrunc and fpext between f16 and f32 exist and round to nearest even, subnormals included.
  virtual bool converts_f16() const = 0;

  Value binary(std::string_view op, Value a, uint64_t b) { return binary(op, a, constant(a.type, b)); }
  Value icmp(std::string_view predicate, Value a, uint64_t b) {
    return icmp(predicate, a, constant(a.type, b));
  }
  Value fcmp(std::string_view predicate, Value a, double b) {
    return fcmp(predicate, a, float_constant(a.type, b));
  }
  Value select(Value condition, uint64_t a, Value b) { return select(condition, constant(b.type, a), b); }
  // An integer as another one; equal kinds stay as they are.
  Value resize(Value a, Kind to, bool sign) {
    if (a.type.kind == to) return a;
    if (bits(to) < bits(a.type.kind)) return convert("trunc", a, to);
    return convert(sign ? "sext" : "zext", a, to);
  }

protected:
  ~Emitter() = default;
};

} // namespace tolk::emit
