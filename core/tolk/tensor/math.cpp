// Float functions beyond the IR's own, as compositions that stay within a few units in the last place over
// the whole range (docs/numerics.md has the bounds). Polynomials are minimax fits made for this file with
// multiprecision arithmetic (Chebyshev interpolation of the named function on the named interval), one for
// 24-bit and one for 53-bit results. f16, bf16 and f8 are computed in f32.
#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>

#include "tolk/tensor/tensor_internal.h"

namespace tolk {
namespace {

using detail::fused;
using detail::polynomial;

constexpr double kPi = 3.14159265358979323846, kLn2 = 0.69314718055994530942;
constexpr double kInf = std::numeric_limits<double>::infinity();

// Computes the function in f32 or f64 and gives the result back in the least float type of the source.
Tensor in_float(const char* name, const Tensor& x, const std::function<Tensor(const Tensor&)>& f) {
  return x.computed_wide([&](const Tensor& wide) { return detail::named(name, f(wide), {wide}); });
}

Tensor same(const Tensor& x, double value) { return Tensor::constant(x.dtype(), value); }

// The polynomial for the precision at hand.
Tensor fitted(const Tensor& x, std::initializer_list<double> f32, std::initializer_list<double> f64) {
  return polynomial(x, x.dtype() == DType::F64 ? f64 : f32);
}

// Magnitude of the first, sign of the second; exact for zeros and NaN.
Tensor with_sign(const Tensor& magnitude, const Tensor& sign) {
  bool wide = sign.dtype() == DType::F64;
  DType word = wide ? DType::U64 : DType::U32;
  Tensor mask(constant(word, wide ? std::numeric_limits<int64_t>::min() : int64_t(0x80000000)));
  return (magnitude.abs().bitcast(word) | (sign.bitcast(word) & mask)).bitcast(sign.dtype());
}

// x + x^3 P(x^2): keeps tiny and signed-zero arguments exactly.
Tensor odd(const Tensor& x, const Tensor& p_of_square) { return fused(x * x.square(), p_of_square, x); }

Tensor log1p_of(const Tensor& x) {
  // log(u) x / (u - 1) with u = 1 + x as rounded: the rounding of u cancels.
  Tensor u = x + 1.0, tail = u - 1.0;
  Tensor r = u.log() * (x / tail);
  return equal(tail, 0.0).where(x, (equal(x, kInf) | equal(u, 0.0)).where(u.log(), r));
}

Tensor expm1_of(const Tensor& x) {
  if (x.dtype() == DType::F64) {
    // (u - 1) x / log(u) with u = exp(x) as rounded.
    Tensor u = x.exp(), less = u - 1.0;
    Tensor r = less * (x / u.log());
    return equal(less, 0.0).where(x, (equal(less, -1.0) | equal(u, kInf)).where(less, r));
  }
  // (e^x - 1 - x) / x^2 on |x| <= 0.71
  Tensor near = fused(x.square(),
                      polynomial(x, {2.504585512e-5, 0.0002008577118, 0.001388827233, 0.008332716009,
                                     0.04166667055, 0.1666667056, 0.5}),
                      x);
  return (x.abs() < 0.7).where(near, x.exp() - 1.0);
}

Tensor atan_of(const Tensor& x) {
  // Three ranges meet in |t| <= tan(pi/8): atan x = base + atan t.
  Tensor m = x.abs(), large = m > 2.41421356237309505, middle = m > 0.41421356237309505;
  Tensor t = large.where(same(x, -1.0) / m, middle.where((m - 1.0) / (m + 1.0), m));
  Tensor base = large.where(same(x, kPi / 2), middle.where(same(x, kPi / 4), same(x, 0.0)));
  Tensor s = t.square();
  Tensor p = fitted(s, {-0.06431038711, 0.1073739697, -0.1426336658, 0.199995234, -0.3333333169},
                    {-0.01379027689618675699, 0.03050863821071291611, -0.0409892521204691833,
                     0.04718024545901350433, -0.05257825876436812323, 0.05881902886080892201,
                     -0.06666640476612811868, 0.07692306666088452873, -0.09090909065008843418,
                     0.1111111111072105246, -0.1428571428571122697, 0.1999999999999999056, -1.0 / 3});
  return with_sign(base + odd(t, p), x);
}

// asin on |x| <= 1/2.
Tensor asin_core(const Tensor& x) {
  return odd(x, fitted(x.square(), {0.03809396215, 0.02655066296, 0.04500189409, 0.07498852962, 0.1666667243},
                       {0.02877844261259304085, -0.01488140939281806664, 0.01741935796488485717,
                        0.005450878187720549948, 0.01032431828874411205, 0.01147895269025738674,
                        0.01397123530112453915, 0.01735239126590922786, 0.02237217300200559739,
                        0.0303819441370852143, 0.04464285714637338088, 0.0749999999999842426,
                        0.1666666666666666783}));
}

// 2 asin(sqrt((1 - |x|) / 2)): the distance of asin |x| from pi/2, for |x| > 1/2; NaN beyond 1.
Tensor asin_rest(const Tensor& m) { return asin_core(((same(m, 1.0) - m) * 0.5).sqrt()) * 2.0; }

Tensor erf_of(const Tensor& x) {
  Tensor t = x.abs(), s = x.square();
  // erf(x)/x - 1 on |x| <= 0.9, in x^2
  Tensor near = fused(
      fitted(s,
             {8.500369834e-5, -0.0008173119885, 0.005203683183, -0.0268604577, 0.1128371452, -0.3761263498,
              0.1283791668},
             {-1.900097041150480178e-14, 4.218364347290363872e-13, -6.66930047225652366e-12,
              9.417865504174934242e-11, -1.229015143665692077e-9, 1.48071685783649509e-8,
              -1.636584362204620459e-7, 1.646211433121346258e-6, -0.00001492565035758714809,
              0.0001205533298177584625, -0.0008548327023450691707, 0.005223977625442186608,
              -0.0268661706451312517, 0.1128379167095512574, -0.3761263890318375246, 0.1283791670955125739}),
      x, x);
  // -log(erfc(t)) above; f32 reaches 1 before t = 4, f64 before 6
  bool wide = x.dtype() == DType::F64;
  Tensor c = t.minimum(same(x, wide ? 6.0 : 4.0));
  Tensor q;
  if (!wide) {
    q = polynomial(c, {-1.641625185e-6, 4.613062837e-5, -0.0005972599488, 0.004760857985, -0.02642184455,
                       0.11007546, 0.6318381263, 1.130221615, -0.0003159178698});
  } else {
    Tensor mid =
        polynomial(c, {3.382886418810983666e-11, -1.11463691247544447e-9, 1.738689130100544983e-8,
                       -1.703069012090284632e-7, 1.168939560100739043e-6, -5.91547923391716455e-6,
                       0.00002241338216362498891, -0.0000618906850653181508, 0.0001080691048895292912,
                       -0.00002180106271654916907, -0.0005480221033396309228, 0.001666436371346398936,
                       -0.0001925933417366926856, -0.01913557309184143121, 0.1027748694602751821,
                       0.6366192711388699734, 1.128379235641026934, -4.340131999788517928e-9});
    Tensor far =
        polynomial(c, {-1.495687716488805152e-14, 1.141924090738155072e-12, -4.100071489593867964e-11,
                       9.196798019214148321e-10, -1.443475038115888987e-8, 1.681754118537209957e-7,
                       -1.504251161834445119e-6, 0.00001051844795243184023, -0.00005778515333661571864,
                       0.0002463411431199822859, -0.0007746552140453715726, 0.001462449800947340409,
                       0.0009255196921751512127, -0.02127343661643658926, 0.1053025348881020797,
                       0.6346849242573808344, 1.129266916122888212, -0.0001870207973099942938});
    q = (c < 2.35).where(mid, far);
  }
  Tensor rest = with_sign(same(x, 1.0) - q.neg().exp(), x);
  return x.isnan().where(x, (t < 0.9).where(near, rest));
}

Tensor tanh_of(const Tensor& x) {
  Tensor m = x.abs();
  if (x.dtype() == DType::F64) {
    Tensor t = expm1_of(m * 2.0);
    return with_sign((m > 22.0).where(same(x, 1.0), t / (t + 2.0)), x) + x.isnan().where(x, same(x, -0.0));
  }
  Tensor near = odd(x, polynomial(x.square(), {-0.006506506864, 0.02125269811, -0.05389992747, 0.1333306406,
                                               -0.3333333162}));
  Tensor far = with_sign(same(x, 1.0) - same(x, 2.0) / ((m * 2.0).exp() + 1.0), x);
  return x.isnan().where(x, (m < 0.5625).where(near, far));
}

Tensor sinh_of(const Tensor& x) {
  Tensor m = x.abs(),
         h = (m * 0.5).exp(); // halved, so that results near the largest float do not overflow on the way
  Tensor far = with_sign(h * 0.5 * h - same(x, 0.5) / h / h, x);
  Tensor near;
  if (x.dtype() == DType::F64) {
    Tensor e = expm1_of(m);
    near = with_sign((e + e / (e + 1.0)) * 0.5, x);
  } else {
    near = odd(x, polynomial(x.square(), {2.806790253e-6, 0.0001983803792, 0.008333339869, 0.1666666665}));
  }
  return x.isnan().where(x, (m < 1.0).where(near, far));
}

} // namespace

Tensor Tensor::expm1() const { return in_float("expm1", *this, expm1_of); }
Tensor Tensor::log1p() const { return in_float("log1p", *this, log1p_of); }
Tensor Tensor::atan() const { return in_float("atan", *this, atan_of); }
Tensor Tensor::erf() const { return in_float("erf", *this, erf_of); }
Tensor Tensor::tanh() const { return in_float("tanh", *this, tanh_of); }
Tensor Tensor::sinh() const { return in_float("sinh", *this, sinh_of); }

Tensor Tensor::tan() const {
  return in_float("tan", *this, [](const Tensor& x) { return x.sin() / x.cos(); });
}

Tensor Tensor::asin() const {
  return in_float("asin", *this, [](const Tensor& x) {
    Tensor m = x.abs();
    Tensor r = with_sign((m > 0.5).where(same(x, kPi / 2) - asin_rest(m), asin_core(m)), x);
    return (m > 1.0).where(same(x, std::nan("")), r);
  });
}

Tensor Tensor::acos() const {
  return in_float("acos", *this, [](const Tensor& x) {
    Tensor m = x.abs(), rest = asin_rest(m);
    return (m > 0.5).where((x < 0.0).where(same(x, kPi) - rest, rest), same(x, kPi / 2) - asin_core(x));
  });
}

Tensor Tensor::cosh() const {
  return in_float("cosh", *this, [](const Tensor& x) {
    Tensor h = (x.abs() * 0.5).exp();
    return h * 0.5 * h + same(x, 0.5) / h / h;
  });
}

Tensor Tensor::asinh() const {
  return in_float("asinh", *this, [](const Tensor& x) {
    Tensor m = x.abs(), s = x.square();
    Tensor near = log1p_of(m + s / ((s + 1.0).sqrt() + 1.0));
    return with_sign((m > 1e9).where(m.log() + kLn2, near), x) + x.isnan().where(x, same(x, -0.0));
  });
}

Tensor Tensor::acosh() const {
  return in_float("acosh", *this, [](const Tensor& x) {
    Tensor t = x - 1.0;
    Tensor near = log1p_of(t + (t * 2.0 + t.square()).sqrt());
    return (x < 1.0).where(same(x, std::nan("")), (x > 1e9).where(x.log() + kLn2, near));
  });
}

Tensor Tensor::atanh() const {
  return in_float("atanh", *this, [](const Tensor& x) {
    Tensor m = x.abs();
    Tensor r = with_sign(log1p_of(m * 2.0 / (same(x, 1.0) - m)) * 0.5, x);
    return (m > 1.0).where(same(x, std::nan("")), r) + x.isnan().where(x, same(x, -0.0));
  });
}

Tensor Tensor::sigmoid() const {
  return in_float("sigmoid", *this, [](const Tensor& x) { return same(x, 1.0) / (x.neg().exp() + 1.0); });
}

Tensor Tensor::softplus() const {
  return in_float("softplus", *this,
                  [](const Tensor& x) { return x.maximum(same(x, 0.0)) + log1p_of(x.abs().neg().exp()); });
}

namespace {

// Integer power by squaring, for a constant exponent.
Tensor power(const Tensor& x, uint64_t n) {
  Tensor result, square = x;
  for (; n; n >>= 1) {
    if (n & 1) result = result.defined() ? result * square : square;
    if (n > 1) square = square * square;
  }
  return result.defined() ? result : Tensor::constant(x.dtype(), 1);
}

Tensor float_power(const Tensor& base, const Tensor& exponent) {
  // In f64: y log x reaches 88, so f32 would lose seven bits of the result.
  Tensor x = base.cast(DType::F64), y = exponent.cast(DType::F64);
  Tensor magnitude = (y * x.abs().log()).exp();
  Tensor whole = equal(y.trunc(), y), is_odd = whole & not_equal((y * 0.5).trunc() * 2.0, y);
  Tensor negative = (x.bitcast(DType::I64) < 0) & x.isnan().logical_not();
  Tensor r = (negative & is_odd).where(magnitude.neg(), magnitude);
  r = ((x < 0.0) & whole.logical_not() & not_equal(x, -kInf)).where(same(x, std::nan("")), r);
  // A whole number to a whole power is whole, where f64 still tells whole numbers apart.
  Tensor exact = whole & (y >= 0.0) & equal(x.trunc(), x) & (magnitude < 9007199254740992.0);
  r = exact.where(r.round(), r);
  // 1^y and x^0 are 1 even for NaN; |x| = 1 with an infinite exponent too.
  Tensor one = equal(x, 1.0) | equal(y, 0.0) | (equal(x, -1.0) & y.isinf());
  return one.where(same(x, 1.0), r).cast(promote(base.dtype(), exponent.dtype()));
}

// The whole exponent value when it is a small constant.
std::optional<int64_t> whole_constant(const Tensor& t) {
  std::optional<double> v = detail::constant_value(t);
  if (!v || *v != std::floor(*v) || std::abs(*v) > 64) return std::nullopt;
  return int64_t(*v);
}

} // namespace

Tensor Tensor::pow(const Tensor& exponent) const {
  DType dtype = promote(this->dtype(), exponent.dtype());
  Shape shape = detail::broadcast_shape(this->shape(), exponent.shape());
  auto n = whole_constant(exponent);
  if (n && *n >= 0 && (*n <= 3 || !is_float(dtype)))
    return detail::value_of(power(cast(dtype), uint64_t(*n))).expand(shape);
  if (is_float(dtype)) {
    detail::Pair p = detail::matched(*this, exponent);
    return detail::named("pow", float_power(*this, exponent), {Tensor(p.a), Tensor(p.b)});
  }
  // Integers: squaring over the bits of the exponent; a negative one gives 0, or +-1 for a base of +-1.
  detail::Pair p = detail::matched(*this, exponent);
  Tensor x(p.a), y(p.b), one = constant(dtype, 1), result = one, square = x;
  for (int bit = 0; bit < 6; ++bit) {
    Tensor used = not_equal(y.shr(constant(dtype, bit)) & one, 0);
    result = used.where(result * square, result);
    square = square * square;
  }
  Tensor above = not_equal(y.shr(constant(dtype, 6)), 0); // only 0 and +-1 survive such powers
  Tensor odd_power = not_equal(y & one, 0);
  Tensor unit =
      equal(x, 1).where(one, is_signed(dtype) ? equal(x, -1).where(odd_power.where(constant(dtype, -1), one),
                                                                   constant(dtype, 0))
                                              : constant(dtype, 0));
  return above.where(unit, result);
}

namespace {

// x mod y for f32 by integer arithmetic on the mantissas, so the quotient may have any size.
Tensor exact_remainder(const Tensor& x, const Tensor& y) {
  Tensor xb = x.abs().bitcast(DType::U32), yb = y.abs().bitcast(DType::U32);
  auto split = [](const Tensor& b) {
    Tensor e = b.shr(Tensor::constant(DType::U32, 23)), m = b & Tensor::constant(DType::U32, 0x7fffff),
           one = Tensor::constant(DType::U32, 1);
    Tensor normal = not_equal(e, 0);
    return std::pair{normal.where(e, one).cast(DType::I64),
                     normal.where(m | Tensor::constant(DType::U32, 0x800000), m).cast(DType::I64)};
  };
  auto [xe, xm] = split(xb);
  auto [ye, ym] = split(yb);
  Tensor distance = (xe - ye).maximum(Tensor::constant(DType::I64, 0)),
         factor = Tensor::constant(DType::I64, 1);
  // 2^distance mod ym, bit by bit from the top; the products stay below 2^48.
  for (int bit = 8; bit >= 0; --bit) {
    factor = detail::binary(Op::CMOD, factor * factor, ym);
    Tensor set =
        not_equal(distance.shr(Tensor::constant(DType::I64, bit)) & Tensor::constant(DType::I64, 1), 0);
    factor = set.where(detail::binary(Op::CMOD, factor * 2, ym), factor);
  }
  Tensor r = detail::binary(Op::CMOD, detail::binary(Op::CMOD, xm, ym) * factor, ym);
  // r * 2^(ye - 150), exact in f64, whose exponent field is built in place.
  Tensor scale = (ye + 873).shl(Tensor::constant(DType::I64, 52)).bitcast(DType::F64);
  Tensor value = (r.cast(DType::F64) * scale).cast(DType::F32);
  Tensor smaller = xb < yb;
  return with_sign(smaller.where(x.abs(), value), x);
}

} // namespace

Tensor Tensor::fmod(const Tensor& other) const {
  DType dtype = promote(this->dtype(), other.dtype());
  if (!is_float(dtype)) {
    detail::require_integers(*this, other, "fmod", false);
    return detail::binary(Op::CMOD, *this, other);
  }
  DType wide = sum_dtype(dtype);
  detail::Pair p = detail::matched(cast(wide), other.cast(wide));
  Tensor x(p.a), y(p.b), r;
  if (wide == DType::F64) {
    // Exact while the quotient has at most 53 bits.
    Tensor q = (x / y).trunc(), rest = fused(q.neg(), y, x);
    Tensor over = not_equal(rest, 0.0) & not_equal(rest < 0.0, x < 0.0);
    rest = over.where(rest + with_sign(y, x), rest);
    r = (x.abs() < y.abs()).where(x, with_sign(rest, x));
  } else {
    r = exact_remainder(x, y);
  }
  Tensor bad = x.isnan() | y.isnan() | x.isinf() | equal(y, 0.0);
  r = (y.isinf() & bad.logical_not()).where(x, r);
  return detail::named("fmod", bad.where(Tensor::constant(wide, std::nan("")), r), {x, y}).cast(dtype);
}

} // namespace tolk
