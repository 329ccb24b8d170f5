// Building blocks of the float functions: constants, polynomials and bit patterns of one dtype and width.
#pragma once

#include <initializer_list>

#include "tolk/codegen/target.h"
#include "tolk/uop/build.h"

namespace tolk::codegen {

// For f32 and f64. Integers are those of the same width.
class FloatMath {
public:
  explicit FloatMath(const UOp& like)
      : type(like.dtype()), integer(type == DType::F64 ? DType::I64 : DType::I32), lanes(like.lanes()) {}

  UOp number(double value) const { return constant(type, value, lanes); }
  UOp whole(int64_t value) const { return constant(integer, value, lanes); }
  // a * b + c, rounded once where the target can.
  UOp fma(const UOp& a, const UOp& b, const UOp& c) const { return alu(Op::MULACC, a, b, c); }
  // Coefficients from the highest power down.
  UOp polynomial(const UOp& x, std::initializer_list<double> coefficients) const {
    UOp sum;
    for (double c : coefficients) sum = sum ? fma(sum, x, number(c)) : number(c);
    return sum;
  }
  // Nearest integer as a float, ties to even; |x| below 2^(mantissa - 2).
  UOp nearest(const UOp& x) const {
    UOp magic = number(type == DType::F64 ? 0x1.8p52 : 0x1.8p23);
    return alu(Op::SUB, alu(Op::ADD, x, magic), magic);
  }
  UOp bits(const UOp& x) const { return bitcast(x, integer); }
  // 2^n of an integer n in the range of normal numbers.
  UOp power_of_two(const UOp& n) const {
    return bitcast(alu(Op::SHL, n + whole(bias()), whole(mantissa())), type);
  }
  // The smaller of x and a constant; NaN stays.
  UOp at_most(const UOp& x, double limit) const { return where(less(number(limit), x), number(limit), x); }
  UOp at_least(const UOp& x, double limit) const { return where(less(x, number(limit)), number(limit), x); }
  UOp absolute(const UOp& x) const {
    return bitcast(alu(Op::AND, bits(x), whole(type == DType::F64 ? INT64_MAX : INT32_MAX)), type);
  }
  UOp sign_bit(const UOp& x) const {
    return alu(Op::AND, bits(x), whole(type == DType::F64 ? INT64_MIN : int64_t(INT32_MIN)));
  }
  int bias() const { return type == DType::F64 ? 1023 : 127; }
  int mantissa() const { return type == DType::F64 ? 52 : 23; }

  DType type, integer;
  int lanes;
};

// Whether a rule should expand the float function `u`: the target lacks it, and the dtype is one that is
// computed in. Narrower floats are brought to f32 by the rules for dtypes first.
inline bool expands(const UOp& u, const Target& target) {
  return !target.has(u.op()) && (u.dtype() == DType::F32 || u.dtype() == DType::F64);
}

} // namespace tolk::codegen
