// SIN and COS of f32 and f64: reduction to [-pi/4, pi/4] and a quadrant, then two polynomials: minimax fits of this
// project for f32, those of fdlibm's k_sin.c and k_cos.c for f64.
#include <cmath>

#include "tolk/codegen/decompose/decompose.h"
#include "tolk/codegen/decompose/float_math.h"

namespace tolk::codegen {
namespace {

// |x| = quadrant * pi/2 + r with |r| <= pi/4, a little more at the ends; the quadrant modulo 4.
struct Reduced {
  UOp quadrant; // integer of the float's width
  UOp r;
};

// f32 of any size: the 24 bits of the mantissa times those 96 bits of 2/pi that matter, in integers.
// Everything above is a multiple of 4 quadrants, everything below is smaller than a rounding.
Reduced reduce_f32(const FloatMath& m, const UOp& magnitude) {
  // 2/pi after 32 zeros.
  static constexpr uint32_t kWords[] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                        0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
  int lanes = m.lanes;
  auto u32 = [&](uint32_t v) { return constant(DType::U32, int64_t(v), lanes); };
  auto u64 = [&](int64_t v) { return constant(DType::U64, v, lanes); };
  UOp bits = bitcast(magnitude, DType::U32);
  // magnitude = mantissa * 2^(e - 24)
  UOp e = alu(Op::SHR, bits, u32(23)) + u32(uint32_t(-126));
  UOp mantissa = cast(alu(Op::OR, alu(Op::AND, bits, u32(0x7fffff)), u32(0x800000)), DType::U64);
  UOp start = e + u32(6), word = alu(Op::SHR, start, u32(5)), shift = alu(Op::AND, start, u32(31));
  UOp part[4];
  for (uint32_t k = 0; k < 4; ++k) {
    part[k] = u32(kWords[k]);
    for (uint32_t i = 1; i < 5; ++i) part[k] = where(less(word, u32(i)), part[k], u32(kWords[k + i]));
  }
  // Shifting right by the width gives 0, as it must when shift is 0.
  UOp back = alu(Op::SUB, u32(32), shift);
  UOp window[3];
  for (int k = 0; k < 3; ++k)
    window[k] = cast(alu(Op::OR, alu(Op::SHL, part[k], shift), alu(Op::SHR, part[k + 1], back)), DType::U64);
  UOp product = alu(Op::SHL, mantissa * window[0], u64(32)) + mantissa * window[1] +
                alu(Op::SHR, mantissa * window[2], u64(32));
  UOp quadrant = alu(Op::SHR, product + u64(int64_t{1} << 61), u64(62));
  UOp fraction = bitcast(alu(Op::SUB, product, alu(Op::SHL, quadrant, u64(62))), DType::I64);
  UOp r = cast(fraction, DType::F32) * m.number(M_PI_2 * 0x1p-62);
  UOp small = less(magnitude, m.number(M_PI_4));
  return {where(small, m.whole(0), cast(quadrant, DType::I32)), where(small, magnitude, r)};
}

// f64 up to 2^31 quadrants: pi/2 in parts of 21 bits, whose products with the quadrant are exact, and the
// rest.
Reduced reduce_f64(const FloatMath& m, const UOp& magnitude) {
  UOp in = m.at_most(magnitude, 0x1p31);
  UOp q = m.nearest(in * m.number(M_2_PI));
  UOp r = in;
  for (double part : {0x1.921fb0p+0, 0x1.5110b0p-22, 0x1.184690p-44, 0x1.13198a2e03707p-65})
    r = alu(Op::SUB, r, q * m.number(part));
  return {alu(Op::AND, cast(q, m.integer), m.whole(3)), r};
}

// sin(|x| + shift * pi/2) from the quadrant, with the sign still to come.
UOp sine_of_quadrant(const FloatMath& m, const UOp& magnitude, int shift) {
  bool wide = m.type == DType::F64;
  Reduced a = wide ? reduce_f64(m, magnitude) : reduce_f32(m, magnitude);
  UOp z = a.r * a.r;
  UOp s = wide ? m.polynomial(z, {1.58969099521155010221e-10, -2.50507602534068634195e-08,
                                  2.75573137070700676789e-06, -1.98412698298579493134e-04,
                                  8.33333333332248946124e-03, -1.66666666666666324348e-01})
               : m.polynomial(z, {2.72493140547e-6, -0.000198400820128, 0.00833333186596, -0.166666666638});
  UOp c = wide ? m.polynomial(z, {-1.13596475577881948265e-11, 2.08757232129817482790e-09,
                                  -2.75573143513906633035e-07, 2.48015872894767294178e-05,
                                  -1.38888888888741095749e-03, 4.16666666666666019037e-02})
               : m.polynomial(z, {-2.73004486195e-7, 2.48005964356e-5, -0.00138888876647, 0.0416666666643});
  UOp sine = m.fma(a.r * z, s, a.r);
  UOp half = m.number(0.5) * z, head = alu(Op::SUB, m.number(1), half);
  // Adds back the rounding error of 1 - z/2.
  UOp lost = alu(Op::SUB, alu(Op::SUB, m.number(1), head), half);
  UOp cosine = head + m.fma(z * z, c, lost);
  UOp quadrant = a.quadrant + m.whole(shift);
  UOp odd = alu(Op::CMPNE, alu(Op::AND, quadrant, m.whole(1)), m.whole(0));
  UOp value = where(odd, cosine, sine);
  UOp flip = alu(Op::SHL, alu(Op::AND, quadrant, m.whole(2)), m.whole(wide ? 62 : 30));
  return bitcast(alu(Op::XOR, m.bits(value), flip), m.type);
}

UOp finite_only(const FloatMath& m, const UOp& magnitude, const UOp& value) {
  return where(less(magnitude, m.number(INFINITY)), value, m.number(NAN));
}

UOp sin_of(const UOp& x) {
  FloatMath m(x);
  UOp magnitude = m.absolute(x);
  UOp value = sine_of_quadrant(m, magnitude, 0);
  return finite_only(m, magnitude, bitcast(alu(Op::XOR, m.bits(value), m.sign_bit(x)), m.type));
}

UOp cos_of(const UOp& x) {
  FloatMath m(x);
  UOp magnitude = m.absolute(x);
  return finite_only(m, magnitude, sine_of_quadrant(m, magnitude, 1));
}

template <UOp (*expansion)(const UOp&)> UOp expand_function(const Match& m) {
  return expands(*m.root, m.ctx<Target>()) ? expansion(m[0]) : UOp();
}

} // namespace

std::vector<Rule> trigonometric_rules() {
  using namespace pat;
  return {
      {"sin", op(Op::SIN, any(0)), expand_function<sin_of>},
      {"cos", op(Op::COS, any(0)), expand_function<cos_of>},
  };
}

} // namespace tolk::codegen
