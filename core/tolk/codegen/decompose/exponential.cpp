// EXP, EXP2, LOG and LOG2 of f32 and f64. Polynomials are minimax fits of this project, except that of the f64
// logarithms, which is fdlibm's. The sweeps in tests/unit/codegen check the stated maximum errors. Special values
// follow from the arithmetic: NaN passes through every step.
#include <cmath>

#include "tolk/codegen/decompose/decompose.h"
#include "tolk/codegen/decompose/float_math.h"

namespace tolk::codegen {
namespace {

// value * 2^n for n down to twice the minimum exponent: two factors, so that the only rounding comes last.
UOp scale(const FloatMath& m, const UOp& value, const UOp& n) {
  UOp half = alu(Op::SHR, n, m.whole(1));
  return value * m.power_of_two(half) * m.power_of_two(alu(Op::SUB, n, half));
}

// e^x = 2^n * e^r with |r| <= ln(2)/2.
UOp exp_of(const UOp& x) {
  FloatMath m(x);
  bool wide = m.type == DType::F64;
  // Outside of this the result is 0 or infinity, which the clamped values give as well.
  UOp in = m.at_most(m.at_least(x, wide ? -746.0 : -104.0), wide ? 710.0 : 89.0);
  UOp n = m.nearest(in * m.number(1.44269504088896340736));
  UOp minus_n = alu(Op::NEG, n);
  UOp r = m.fma(minus_n, m.number(wide ? 0x1.62e42fefp-1 : 0x1.62e4p-1), in);
  r = m.fma(minus_n, m.number(wide ? 7.4406171100123967161e-11 : 1.4286068203094172e-6), r);
  UOp q = wide ? m.polynomial(r, {0x1.1f75aba0b1e2ep-29, 0x1.af52906239de4p-26, 0x1.27e4da1a3bf04p-22,
                                  0x1.71ddffef9e7b1p-19, 0x1.a01a01a741b3cp-16, 0x1.a01a01aca0134p-13,
                                  0x1.6c16c16c16212p-10, 0x1.111111110ff87p-7, 0x1.5555555555556p-5,
                                  0x1.5555555555557p-3, 0.5})
               : m.polynomial(r, {0.0013926926614, 0.00836377387441, 0.0416665501103, 0.166665733819, 0.5});
  UOp p = m.fma(r * r, q, r) + m.number(1);
  return scale(m, p, cast(n, m.integer));
}

// 2^x = 2^n * 2^r with |r| <= 1/2.
UOp exp2_of(const UOp& x) {
  FloatMath m(x);
  bool wide = m.type == DType::F64;
  UOp in = m.at_most(m.at_least(x, wide ? -1080.0 : -152.0), wide ? 1025.0 : 129.0);
  UOp n = m.nearest(in);
  UOp r = alu(Op::SUB, in, n);
  UOp q = wide ? m.polynomial(r, {0x1.c4a29324a1038p-36, 0x1.e9ec1fcb69a7fp-32, 0x1.e4cf10dec0f59p-28,
                                  0x1.b524ebd13a55fp-24, 0x1.62c02242b879cp-20, 0x1.ffcbfc6da6ed1p-17,
                                  0x1.430912f86b7dbp-13, 0x1.5d87fe78a3f9cp-10, 0x1.3b2ab6fba4e79p-7,
                                  0x1.c6b08d704a0c6p-5, 0x1.ebfbdff82c58fp-3, 0x1.62e42fefa39efp-1})
               : m.polynomial(r, {0.000154531629451, 0.00133908633647, 0.00961808255728, 0.0555035711422,
                                  0.240226507606, 0.693147188026});
  return scale(m, m.fma(r, q, m.number(1)), cast(n, m.integer));
}

// x = 2^exponent * (1 + f) with 1 + f in [2/3, 4/3) in f32 and [sqrt(1/2), sqrt(2)) in f64, where the fits
// hold.
struct Split {
  UOp exponent, f; // floats
};
Split split(const FloatMath& m, const UOp& x) {
  bool wide = m.type == DType::F64;
  UOp tiny = less(x, m.number(wide ? 0x1p-1022 : 0x1p-126));
  int shift = wide ? 54 : 25;
  UOp in = where(tiny, x * m.number(std::ldexp(1.0, shift)), x);
  UOp bits = m.bits(in);
  UOp e = alu(Op::SHR, alu(Op::SUB, bits, m.whole(wide ? 0x3fe6a09e667f3bcd : 0x3f2aaaab)),
              m.whole(m.mantissa()));
  UOp mantissa = bitcast(alu(Op::SUB, bits, alu(Op::SHL, e, m.whole(m.mantissa()))), m.type);
  UOp exponent = cast(e, m.type);
  return {where(tiny, alu(Op::SUB, exponent, m.number(shift)), exponent),
          alu(Op::SUB, mantissa, m.number(1))};
}

// The result for ordinary x, and what a logarithm is elsewhere: log(0) = -inf, log(inf) = inf, else NaN.
UOp with_specials(const FloatMath& m, const UOp& x, const UOp& result) {
  UOp zero = m.number(0), infinity = m.number(INFINITY);
  UOp rest = where(alu(Op::CMPEQ, x, zero), m.number(-INFINITY), m.number(NAN));
  return where(less(zero, x), where(less(x, infinity), result, x), rest);
}

// log(1 + f) - (f - f*f/2) of f64, by s = f / (2 + f): Lg1 to Lg7 of fdlibm's e_log.c.
UOp log1p_tail(const FloatMath& m, const UOp& f, const UOp& half_square) {
  UOp s = alu(Op::FDIV, f, f + m.number(2)), z = s * s;
  UOp r = z * m.polynomial(z, {1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01,
                               2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01,
                               6.666666666666735130e-01});
  return s * (half_square + r);
}

UOp log_of(const UOp& x) {
  FloatMath m(x);
  auto [e, f] = split(m, x);
  if (m.type == DType::F64) {
    UOp half_square = f * f * m.number(0.5);
    UOp low = m.fma(e, m.number(7.4406171100123967161e-11), log1p_tail(m, f, half_square));
    UOp r = m.fma(e, m.number(0x1.62e42fefp-1), alu(Op::SUB, f, alu(Op::SUB, half_square, low)));
    return with_specials(m, x, r);
  }
  UOp square = f * f;
  UOp p = m.polynomial(f, {0.113358219687, -0.124278202635, 0.109147901856, -0.122877880002, 0.142919070134,
                           -0.166733592661, 0.199999479122, -0.24999943712, 0.333333333333});
  UOp tail = m.fma(square, f * p, m.fma(e, m.number(1.4286068203094172e-6), square * m.number(-0.5)));
  return with_specials(m, x, m.fma(e, m.number(0x1.62e4p-1), f + tail));
}

UOp log2_of(const UOp& x) {
  FloatMath m(x);
  auto [e, f] = split(m, x);
  if (m.type == DType::F64) {
    // f - f*f/2 in two parts, the first with 32 bits, so that its product with 1/ln(2) is exact.
    UOp half_square = f * f * m.number(0.5);
    UOp head = alu(Op::SUB, f, half_square);
    UOp high = bitcast(alu(Op::AND, m.bits(head), m.whole(~int64_t{0xffffffff})), m.type);
    UOp low = alu(Op::SUB, alu(Op::SUB, f, high), half_square) + log1p_tail(m, f, half_square);
    UOp big = high * m.number(0x1.71547652p+0);
    UOp small = (low + high) * m.number(0x1.705fc2eefa200p-33) + low * m.number(0x1.71547652p+0);
    UOp sum = e + big;
    return with_specials(m, x, sum + (small + (alu(Op::SUB, e, sum) + big)));
  }
  UOp q = m.polynomial(f, {-0.179295546632, 0.198434283634, -0.177275308114, 0.20276787355, -0.240545727282,
                           0.288644046991, -0.360672948158, 0.480897463613, -0.721347520444});
  UOp tail = m.fma(f * f, q, f * m.number(1.9259629911266175e-8));
  // f/ln(2) keeps the bits that a single product would lose when e is 0.
  return with_specials(m, x, e + m.fma(f, m.number(0x1.715476p+0), tail));
}

template <UOp (*expansion)(const UOp&)> UOp expand_function(const Match& m) {
  return expands(*m.root, m.ctx<Target>()) ? expansion(m[0]) : UOp();
}

} // namespace

std::vector<Rule> exponential_rules() {
  using namespace pat;
  return {
      {"exp", op(Op::EXP, any(0)), expand_function<exp_of>},
      {"exp2", op(Op::EXP2, any(0)), expand_function<exp2_of>},
      {"log", op(Op::LOG, any(0)), expand_function<log_of>},
      {"log2", op(Op::LOG2, any(0)), expand_function<log2_of>},
  };
}

} // namespace tolk::codegen
