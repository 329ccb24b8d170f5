// FLOORDIV and FLOORMOD of Index expressions. With x = sum of f_i*v_i + k and a divisor c > 0, floor
// semantics make every step below exact for all signs. Each step removes a division, shrinks a factor or the
// divisor, or drops a term, so they end.
#include <algorithm>
#include <functional>
#include <numeric>

#include "tolk/uop/symbolic/rules.h"
#include "tolk/uop/symbolic/symbolic.h"

namespace tolk::sym {
namespace {

using namespace pat;

// FLOORDIV or FLOORMOD of x by a constant c > 0.
struct Fraction {
  bool quotient; // else the remainder
  Affine x;
  int64_t c;
};

UOp divided(const Affine& x, int64_t c, bool quotient) {
  if (!x.valid) return {};
  UOp numerator = x.build();
  if (c == 1) return quotient ? numerator : index_const(0);
  return alu(quotient ? Op::FLOORDIV : Op::FLOORMOD, numerator, index_const(c));
}

// The value of a*scale + b for sums; null when it does not fit.
UOp combined(const UOp& a, int64_t scale, const Affine& b) {
  if (!a || !b.valid) return {};
  Affine sum = b;
  sum.add(a, scale);
  return sum.valid ? sum.build() : UOp{};
}

// All of x lies in one period: the quotient is known.
UOp known_quotient(const Fraction& d) {
  Wide q;
  if (!one_period(d.x.interval(), d.c, q) || !fits(q)) return {};
  if (d.quotient) return index_const(int64_t(q));
  Affine r = d.x;
  r.add_constant(-q * d.c);
  return r.valid ? r.build() : UOp{};
}

// Under a remainder, terms that are multiples of c vanish, and (u % M) stands for u where M is a multiple of
// c.
bool drop_multiples(Affine& x, int64_t c) {
  bool any = false;
  for (size_t i = 0; i < x.terms.size();) {
    Term t = x.terms[i];
    if (t.v.is(Op::VAR) && Wide(t.f) * t.v.arg().i(2) % c == 0) {
      x.erase(i), any = true;
    } else if (t.v.is(Op::FLOORMOD) && t.v.src(1).is_const() && t.v.src(1).const_int() > 0 &&
               Wide(t.f) * t.v.src(1).const_int() % c == 0) {
      x.erase(i), x.add(t.v.src(0), t.f), any = true, i = 0;
    } else {
      ++i;
    }
  }
  return any;
}

// Multiples of c leave the division. When what stays lies in one period, no division stays.
UOp take_out_multiples(const Fraction& d) {
  for (Residue kind : {Residue::Truncated, Residue::Nearest, Residue::Positive}) {
    Division split = divide(d.x, d.c, kind);
    const Affine& result = d.quotient ? split.outer : split.inner;
    if (split.known) return result.valid ? result.build() : UOp{};
  }
  Division split = divide(d.x, d.c, Residue::Truncated);
  if (split.outer.terms.empty() && split.outer.k == 0) return {};
  UOp rest = divided(split.inner, d.c, d.quotient);
  return d.quotient ? combined(rest, 1, split.outer) : rest;
}

// A divisor of c and of every factor divides both.
UOp common_divisor(const Fraction& d) {
  int64_t g = d.x.common_divisor(d.c);
  if (g == 1) return {};
  Affine y = d.x;
  y.divide_exactly(g);
  UOp rest = divided(y, d.c / g, d.quotient);
  if (d.quotient) return rest;
  Affine low;
  low.k = int64_t(floor_mod(d.x.k, g));
  return combined(rest, g, low);
}

// x = g*high + low with low in one period of g: x // c is (high + period) // (c/g).
UOp drop_low_terms(const Fraction& d) {
  boost::container::small_vector<int64_t, 8> divisors;
  for (const Term& t : d.x.terms)
    if (int64_t g = std::gcd(t.f, d.c); g > 1) divisors.push_back(g);
  std::sort(divisors.begin(), divisors.end(), std::greater<>());
  for (int64_t g : divisors) {
    Affine high, low;
    for (const Term& t : d.x.terms) t.f % g ? low.add_term(t.v, t.f) : high.add_term(t.v, t.f / g);
    high.k = int64_t(floor_div(d.x.k, g)), low.k = int64_t(floor_mod(d.x.k, g));
    Wide q;
    if (low.terms.empty() || !one_period(low.interval(), g, q)) continue;
    high.add_constant(q), low.add_constant(-q * g);
    UOp rest = divided(high, d.c / g, d.quotient);
    return d.quotient ? rest : combined(rest, g, low);
  }
  return {};
}

// (u // a + rest) // c is (u + a*rest) // (a*c).
UOp nested_quotient(const Fraction& d) {
  if (!d.quotient) return {};
  for (size_t i = 0; i < d.x.terms.size(); ++i) {
    const Term& t = d.x.terms[i];
    if (t.f != 1 || !t.v.is(Op::FLOORDIV) || !t.v.src(1).is_const()) continue;
    int64_t a = t.v.src(1).const_int(), ac;
    if (a <= 0 || __builtin_mul_overflow(a, d.c, &ac)) continue;
    Affine x = d.x;
    x.erase(i), x.scale(a), x.add(t.v.src(0), 1);
    if (x.valid) return divided(x, ac, true);
  }
  return {};
}

// (u % M) // c is (u // c) % (M / c).
UOp quotient_of_remainder(const Fraction& d) {
  if (!d.quotient || d.x.terms.size() != 1 || d.x.k != 0 || d.x.terms[0].f != 1) return {};
  const UOp& v = d.x.terms[0].v;
  if (!v.is(Op::FLOORMOD) || !v.src(1).is_const()) return {};
  int64_t period = v.src(1).const_int();
  if (period <= 0 || period % d.c) return {};
  return alu(Op::FLOORMOD, alu(Op::FLOORDIV, v.src(0), index_const(d.c)), index_const(period / d.c));
}

UOp by_constant(const UOp& u, int64_t c) {
  bool quotient = u.is(Op::FLOORDIV);
  Affine x(u.src(0));
  if (!x.valid || c == INT64_MIN) return {};
  if (c < 0) { // floor(x / c) is floor(-x / -c); the remainder has the divisor's sign
    x.scale(-1);
    UOp positive = divided(x, -c, quotient);
    return quotient || !positive ? positive : alu(Op::MUL, positive, index_const(-1));
  }
  Fraction d{quotient, std::move(x), c};
  if (UOp r = known_quotient(d)) return r;
  if (!quotient && drop_multiples(d.x, c)) return divided(d.x, c, false);
  if (UOp r = take_out_multiples(d)) return r;
  if (UOp r = common_divisor(d)) return r;
  if (UOp r = drop_low_terms(d)) return r;
  if (UOp r = nested_quotient(d)) return r;
  return quotient_of_remainder(d);
}

// A loop variable over 0 .. n-1 stays below n, which bounds cannot say of a symbolic n.
bool below_extent(const UOp& x, const UOp& n) { return x.is(Op::RANGE) && x.src(0) == n; }

// Symbolic divisor y > 0, as a product: terms that hold all its factors are multiples.
UOp by_symbol(const UOp& u) {
  const UOp &x = u.src(0), &y = u.src(1);
  bool quotient = u.is(Op::FLOORDIV);
  if (y.vmin() <= 0) return {};
  if (below_extent(x, y)) return quotient ? index_const(0) : x;
  Affine sum(x);
  Product by(y);
  if (!sum.valid || !by.valid || by.f <= 0) return {};
  Affine outer, inner;
  inner.k = sum.k;
  for (const Term& t : sum.terms) {
    Product p(t.v);
    if (p.valid && t.f % by.f == 0 && p.divide_factors(by)) {
      p.f = 1;
      outer.add(p.build(), t.f / by.f);
    } else {
      inner.add_term(t.v, t.f);
    }
  }
  if (!outer.is_constant() || outer.k != 0) {
    UOp rest = inner.build();
    if (!quotient) return alu(Op::FLOORMOD, rest, y);
    return combined(alu(Op::FLOORDIV, rest, y), 1, outer);
  }
  // (x // a) // y is x // (a*y) for positive a.
  if (quotient && x.is(Op::FLOORDIV) && x.src(1).vmin() > 0)
    return alu(Op::FLOORDIV, x.src(0), alu(Op::MUL, x.src(1), y));
  // A factor of y that every term holds: (s*a) // (s*b) is a // b, (s*a) % (s*b) is s*(a % b).
  if (sum.k != 0) return {};
  for (const UOp& s : by.factors) {
    if (s.vmin() <= 0) continue;
    Product common(s);
    Affine reduced;
    bool all = true;
    for (const Term& t : sum.terms) {
      Product p(t.v);
      all = all && p.valid && p.divide_factors(common);
      if (all) reduced.add(p.build(), t.f);
    }
    Product rest = by;
    if (!all || !reduced.valid || !rest.divide_factors(common)) continue;
    UOp inside = alu(u.op(), reduced.build(), rest.build());
    return quotient ? inside : alu(Op::MUL, inside, s);
  }
  // Low terms below a common constant divisor: (g*high + low) // (g*z) is high // z.
  for (const Term& t : sum.terms) {
    int64_t g = std::gcd(t.f, by.f);
    if (g <= 1) continue;
    Affine high, low;
    for (const Term& s : sum.terms) s.f % g ? low.add_term(s.v, s.f) : high.add_term(s.v, s.f / g);
    Wide q;
    if (!one_period(low.interval(), g, q)) continue;
    high.add_constant(q), low.add_constant(-q * g);
    Product rest = by;
    rest.f /= g;
    if (!high.valid || !low.valid) continue;
    UOp inside = alu(u.op(), high.build(), rest.build());
    return quotient ? inside : combined(inside, g, low);
  }
  return {};
}

UOp by_rules(const Match& m) {
  const UOp& u = *m.root;
  if (!is_index(u)) return {};
  const UOp& y = u.src(1);
  UOp r = y.is_const() ? by_constant(u, y.const_int()) : by_symbol(u);
  return r ? changed(r, u) : UOp{};
}

} // namespace

std::vector<Rule> divmod_rules() { return {{"divide", op(OpSet(Op::FLOORDIV, Op::FLOORMOD)), by_rules}}; }

} // namespace tolk::sym
