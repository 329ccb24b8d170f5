// TRUNC, SQRT, RECIPROCAL and MULACC for targets without them.
#include <cmath>

#include "tolk/codegen/decompose/decompose.h"
#include "tolk/codegen/decompose/float_math.h"

namespace tolk::codegen {
namespace {

UOp reciprocal(const Match& m) {
  const UOp& x = m[0];
  return alu(Op::FDIV, one_of(x.dtype(), x.lanes()), x);
}

// Through an integer where a fraction can exist; above, and for infinity and NaN, x is its own result.
UOp trunc(const Match& match) {
  const UOp& x = match[0];
  if (!expands(*match.root, match.ctx<Target>())) return {};
  FloatMath m(x);
  UOp whole = cast(cast(x, m.integer), m.type);
  UOp signed_whole = bitcast(alu(Op::OR, m.bits(whole), m.sign_bit(x)), m.type);
  return where(less(m.absolute(x), m.number(m.type == DType::F64 ? 0x1p52 : 0x1p23)), signed_whole, x);
}

// Newton's method on 1/sqrt from a bit-level guess, then a correction by the exact residual. The argument is
// scaled by an even power of two so that neither end of the range leaves the normal numbers.
UOp sqrt(const Match& match) {
  const UOp& x = match[0];
  if (!expands(*match.root, match.ctx<Target>())) return {};
  FloatMath m(x);
  bool wide = m.type == DType::F64;
  UOp small = less(x, m.number(wide ? 0x1p-900 : 0x1p-90)),
      large = less(m.number(wide ? 0x1p900 : 0x1p90), x);
  UOp up = m.number(wide ? 0x1p200 : 0x1p60), down = m.number(wide ? 0x1p-200 : 0x1p-60);
  UOp in = where(small, x * up, where(large, x * down, x));
  UOp magic = m.whole(wide ? 0x5fe6eb50c7b537a9 : 0x5f375a86);
  UOp y = bitcast(alu(Op::SUB, magic, alu(Op::SHR, m.bits(in), m.whole(1))), m.type);
  UOp half = in * m.number(0.5);
  for (int i = 0; i < (wide ? 5 : 4); ++i) y = y * alu(Op::SUB, m.number(1.5), half * y * y);
  UOp root = in * y;
  // in - root * root in exact steps: the root is cut into halves whose products fit the dtype.
  UOp high =
      bitcast(alu(Op::AND, m.bits(root), m.whole(wide ? ~int64_t{0x7ffffff} : ~int64_t{0xfff})), m.type);
  UOp low = alu(Op::SUB, root, high);
  UOp residual = alu(Op::SUB, in, high * high);
  residual = alu(Op::SUB, alu(Op::SUB, residual, m.number(2) * high * low), low * low);
  root = root + residual * (m.number(0.5) * y);
  UOp back = where(small, m.number(wide ? 0x1p-100 : 0x1p-30),
                   where(large, m.number(wide ? 0x1p100 : 0x1p30), m.number(1)));
  UOp zero_or_infinity = alu(Op::OR, alu(Op::CMPEQ, x, m.number(0)), alu(Op::CMPEQ, x, m.number(INFINITY)));
  UOp negative = less(x, m.number(0));
  return where(zero_or_infinity, x, where(negative, m.number(NAN), root * back));
}

UOp multiply_add(const Match& m) {
  if (m.ctx<Target>().has(Op::MULACC)) return {};
  return alu(Op::ADD, alu(Op::MUL, m[0], m[1]), m[2]);
}

} // namespace

std::vector<Rule> rounding_rules() {
  using namespace pat;
  return {
      {"reciprocal", op(Op::RECIPROCAL, any(0)), reciprocal},
      {"trunc", op(Op::TRUNC, any(0)), trunc},
      {"sqrt", op(Op::SQRT, any(0)), sqrt},
      {"multiply_add", op(Op::MULACC, any(0), any(1), any(2)), multiply_add},
  };
}

} // namespace tolk::codegen
