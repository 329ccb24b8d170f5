// Comparisons, mostly of Index expressions.
#include <algorithm>
#include <functional>
#include <numeric>

#include "tolk/dtype/scalar.h"
#include "tolk/uop/symbolic/rules.h"

namespace tolk::sym {
namespace {

using namespace pat;

UOp truth(const UOp& like, bool value) { return constant(DType::BOOL, int64_t(value), like.lanes()); }

int64_t divide_up(Wide a, int64_t b) { return int64_t(-floor_div(-a, b)); }

// sum < 0 as left < right with positive factors; the constant stands on the right.
UOp as_less(const Affine& sum) {
  Affine left, right;
  for (const Term& t : sum.terms) {
    if (t.f > 0)
      left.add_term(t.v, t.f);
    else if (t.f == INT64_MIN)
      return {};
    else
      right.add_term(t.v, -t.f);
  }
  Affine& takes = right.is_constant() || !left.is_constant() ? right : left;
  takes.add_constant(&takes == &right ? -Wide(sum.k) : Wide(sum.k));
  if (!left.valid || !right.valid) return {};
  return alu(Op::CMPLT, left.build(), right.build());
}

// An upper bound of the sum where loop variables have symbolic extents: each is at most its extent less one.
Wide upper_bound_by_extents(const Affine& sum) {
  Affine high;
  high.k = sum.k;
  bool any = false;
  for (const Term& t : sum.terms) {
    if (t.v.is(Op::RANGE) && t.f > 0 && !t.v.src(0).is_const())
      high.add(t.v.src(0), t.f), high.add_constant(-Wide(t.f)), any = true;
    else
      high.add_term(t.v, t.f);
  }
  return any && high.valid ? high.interval().hi : kUnbounded;
}

// d*N + low < c, where low changes nothing: N < the common bound. Also plain division by a common factor.
bool drop_low_terms(Affine& sum) {
  boost::container::small_vector<int64_t, 8> divisors;
  int64_t all = 0;
  for (const Term& t : sum.terms) {
    if (t.f == INT64_MIN) return false;
    divisors.push_back(t.f < 0 ? -t.f : t.f);
    all = std::gcd(all, t.f);
  }
  divisors.push_back(all);
  std::sort(divisors.begin(), divisors.end(), std::greater<>());
  Wide c = -Wide(sum.k);
  for (int64_t d : divisors) {
    if (d <= 1) continue;
    Affine high, low;
    for (const Term& t : sum.terms) t.f % d ? low.add_term(t.v, t.f) : high.add_term(t.v, t.f / d);
    Interval i = low.interval();
    if (i.lo <= -kUnbounded || i.hi >= kUnbounded || i.lo > i.hi) continue;
    int64_t bound = divide_up(c - i.lo, d);
    if (bound != divide_up(c - i.hi, d)) continue;
    high.add_constant(-Wide(bound));
    if (!high.valid) continue;
    sum = std::move(high);
    return true;
  }
  return false;
}

// u // c < b is u < b*c, and b < u // c is (b + 1)*c - 1 < u.
bool lift_quotient(Affine& sum) {
  if (sum.terms.size() != 1) return false;
  Term t = sum.terms[0];
  if ((t.f != 1 && t.f != -1) || !t.v.is(Op::FLOORDIV) || !t.v.src(1).is_const() ||
      t.v.src(1).const_int() <= 0)
    return false;
  int64_t c = t.v.src(1).const_int();
  Affine lifted;
  lifted.add(t.v.src(0), t.f);
  lifted.add_constant(t.f == 1 ? Wide(sum.k) * c : (Wide(sum.k) + 1) * c - 1);
  if (!lifted.valid) return false;
  sum = std::move(lifted);
  return true;
}

UOp index_less(const UOp& u) {
  if (!is_index(u.src(0))) return {};
  Affine sum(u.src(0));
  sum.add(u.src(1), -1);
  if (!sum.valid) return {};
  do {
    Interval i = sum.interval();
    if (i.hi < 0) return truth(u, true);
    if (i.lo >= 0) return truth(u, false);
    if (upper_bound_by_extents(sum) < 0) return truth(u, true);
  } while (drop_low_terms(sum) || lift_quotient(sum));
  return as_less(sum);
}

// x + c0 < c1 of fixed-width integers whose sum does not wrap.
UOp fixed_less(const UOp& u) {
  const UOp &a = u.src(0), &b = u.src(1);
  if (!a.is(Op::ADD) || !a.src(1).is_const() || !b.is_const() || !is_int(a.dtype()) || a.lanes() != 1)
    return {};
  if (a.dtype() == DType::Index || a.dtype() == DType::U64 || !never_wraps(a)) return {};
  Wide c = Wide(b.const_int()) - a.src(1).const_int();
  if (c < int_min(a.dtype()) || c > int_max(a.dtype())) return {};
  return alu(Op::CMPLT, a.src(0), constant(a.dtype(), int64_t(c)));
}

// A fixed-width comparison of loop positions: done in Index, where it can be seen through.
bool lifts_to_index(const UOp& u) {
  if (u.dtype() == DType::U64) return false;
  if (u.is_const()) return true;
  if (u.is(Op::CAST) && u.src(0).dtype() == DType::Index)
    return bounded(u.src(0)) && u.src(0).vmin() >= int_min(u.dtype()) &&
           u.src(0).vmax() <= int_max(u.dtype());
  if (u.is(OpSet(Op::ADD, Op::SUB, Op::MUL)) && never_wraps(u))
    return lifts_to_index(u.src(0)) && lifts_to_index(u.src(1));
  return false;
}

UOp compare_in_index(const Match& m) {
  const UOp& u = *m.root;
  const UOp &a = u.src(0), &b = u.src(1);
  if (!is_int(a.dtype()) || a.dtype() == DType::Index || u.lanes() != 1 || (a.is_const() && b.is_const()))
    return {};
  // One level of arithmetic is looked through at each side; deeper ones have been rewritten from below.
  auto shallow = [](const UOp& x) {
    return !x.is(OpSet(Op::ADD, Op::SUB, Op::MUL)) || (x.src(0).nsrc() <= 1 && x.src(1).nsrc() <= 1);
  };
  if (!shallow(a) || !shallow(b) || !lifts_to_index(a) || !lifts_to_index(b)) return {};
  return make(u.op(), DType::BOOL, {cast(a, DType::Index), cast(b, DType::Index)});
}

UOp less_than(const Match& m) {
  const UOp& u = *m.root;
  if (u.src(0) == u.src(1)) return truth(u, false);
  UOp r = u.src(0).dtype() == DType::Index ? index_less(u) : fixed_less(u);
  return r ? changed(r, u) : UOp{};
}

UOp equal(const Match& m) {
  const UOp& u = *m.root;
  const UOp &a = u.src(0), &b = u.src(1);
  bool eq = u.is(Op::CMPEQ);
  if (a == b && is_integer(a)) return truth(u, eq);
  if (a.dtype() == DType::BOOL && b.is_const()) return (b.const_int() != 0) == eq ? a : logical_not(a);
  if (!is_index(a)) return {};
  Affine sum(a);
  sum.add(b, -1);
  if (!sum.valid) return {};
  Interval i = sum.interval();
  if (i.lo > 0 || i.hi < 0) return truth(u, !eq);
  if (sum.is_constant()) return truth(u, (sum.k == 0) == eq);
  int64_t g = 0;
  for (const Term& t : sum.terms) g = std::gcd(g, t.f);
  if (sum.k % g) return truth(u, !eq);
  Affine left, right;
  // The first term is positive: a == b and b == a are one node.
  int64_t sign = sum.terms[0].f > 0 ? 1 : -1;
  for (const Term& t : sum.terms) {
    if (t.f == INT64_MIN) return {};
    int64_t f = t.f / g * sign;
    f > 0 ? left.add_term(t.v, f) : right.add_term(t.v, -f);
  }
  right.add_constant(-Wide(sum.k / g) * sign);
  if (!right.valid) return {};
  return changed(alu(u.op(), left.build(), right.build()), u);
}

// !(a < b) is b < a + 1, and equality negates, also of floats.
UOp negated(const Match& m) {
  const UOp& c = m[0];
  if (c.is(Op::CMPEQ)) return make(Op::CMPNE, DType::BOOL, c.src(), {}, c.lanes());
  if (c.is(Op::CMPNE)) return make(Op::CMPEQ, DType::BOOL, c.src(), {}, c.lanes());
  if (c.is(Op::CMPLT) && is_index(c.src(0)))
    return alu(Op::CMPLT, c.src(1), alu(Op::ADD, c.src(0), index_const(1)));
  return {};
}

} // namespace

std::vector<Rule> compare_rules() {
  return {
      {"compare_in_index", op(ops::Compare), compare_in_index},
      {"less_than", op(Op::CMPLT), less_than},
      {"equal", op(OpSet(Op::CMPEQ, Op::CMPNE)), equal},
      {"negated_comparison", op(Op::XOR, op(ops::Compare).named(0), number(1)), negated},
  };
}

} // namespace tolk::sym
