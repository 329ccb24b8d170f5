// Floor division, and arithmetic of bools.
#include <bit>

#include "tolk/codegen/decompose/decompose.h"
#include "tolk/uop/build.h"

namespace tolk::codegen {
namespace {

// log2 of a constant that is a positive power of two, else -1.
int power_of(const UOp& u) {
  if (!u.is_const() || u.const_int() <= 0 || !std::has_single_bit(uint64_t(u.const_int()))) return -1;
  return std::countr_zero(uint64_t(u.const_int()));
}

bool never_negative(const UOp& u) { return is_unsigned(u.dtype()) || u.vmin() >= 0; }
UOp zero_like(const UOp& u) { return zero_of(u.dtype(), u.lanes()); }

// The truncated quotient is one too high exactly when there is a remainder and the signs differ.
UOp differs(const UOp& remainder, const UOp& divisor) {
  UOp zero = zero_like(remainder);
  UOp signs = alu(Op::CMPNE, less(remainder, zero), less(divisor, zero));
  return alu(Op::AND, alu(Op::CMPNE, remainder, zero), signs);
}

UOp floor_division(const Match& m) {
  const UOp &a = m[0], &b = m[1];
  if (int n = power_of(b); n >= 0) return alu(Op::SHR, a, constant(a.dtype(), int64_t(n), a.lanes()));
  if (never_negative(a) && never_negative(b)) return alu(Op::CDIV, a, b);
  UOp low = differs(alu(Op::CMOD, a, b), b);
  return alu(Op::SUB, alu(Op::CDIV, a, b), where(low, one_of(a.dtype(), a.lanes()), zero_like(a)));
}

UOp floor_remainder(const Match& m) {
  const UOp &a = m[0], &b = m[1];
  if (power_of(b) >= 0) return alu(Op::AND, a, constant(a.dtype(), b.const_int() - 1, a.lanes()));
  UOp r = alu(Op::CMOD, a, b);
  if (never_negative(a) && never_negative(b)) return r;
  return r + where(differs(r, b), b, zero_like(b));
}

UOp truth_sum(const Match& m) { return is_bool(m.root->dtype()) ? alu(Op::OR, m[0], m[1]) : UOp(); }
UOp truth_product(const Match& m) { return is_bool(m.root->dtype()) ? alu(Op::AND, m[0], m[1]) : UOp(); }

} // namespace

std::vector<Rule> integer_rules() {
  using namespace pat;
  return {
      {"floor_division", op(Op::FLOORDIV, any(0), any(1)), floor_division},
      {"floor_remainder", op(Op::FLOORMOD, any(0), any(1)), floor_remainder},
      {"truth_sum", op(Op::ADD, any(0), any(1)), truth_sum},
      {"truth_product", op(Op::MUL, any(0), any(1)), truth_product},
  };
}

} // namespace tolk::codegen
