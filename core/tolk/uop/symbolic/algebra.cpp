// Sums and products of Index expressions.
#include "tolk/uop/symbolic/rules.h"
#include "tolk/uop/symbolic/symbolic.h"

namespace tolk::sym {
namespace {

using namespace pat;

bool index_typed(const UOp& u) { return is_index(u); }
bool is_division(const UOp& u) { return u.is(OpSet(Op::FLOORDIV, Op::FLOORMOD)); }

// m*(b % d) + rest, where rest holds d*m times every division of q = b // d: rest - d*m*q + m*b has none of
// them.
bool absorb_quotient(Affine& sum, size_t at, const UOp& b, int64_t dm, const Affine& q) {
  bool any = false;
  for (const Term& t : q.terms) {
    if (!is_division(t.v)) continue;
    int64_t f;
    if (__builtin_mul_overflow(dm, t.f, &f) || sum.factor(t.v) != f) return false;
    any = true;
  }
  if (!any) return false;
  int64_t m = sum.terms[at].f;
  Affine next = sum;
  next.erase(at);
  next.add(q, -dm);
  next.add(b, m);
  if (!next.valid) return false;
  sum = std::move(next);
  return true;
}

// m*(b % d) + d*m*(P % e), where P and q = b // d have the same divisions: with B = b + d*(P - q), which is b
// modulo d and has the quotient P, the two are m*(B % (d*e)).
bool join_remainders(Affine& sum, size_t at, const UOp& b, int64_t d, int64_t dm, const Affine& q) {
  for (size_t j = 0; j < sum.terms.size(); ++j) {
    const Term& t = sum.terms[j];
    if (t.f != dm || !t.v.is(Op::FLOORMOD) || !t.v.src(1).is_const()) continue;
    int64_t e = t.v.src(1).const_int(), de;
    if (e <= 0 || __builtin_mul_overflow(d, e, &de)) continue;
    Affine shift(t.v.src(0));
    shift.add(q, -1);
    if (!shift.valid) continue;
    bool divisions = false, cancelled = false;
    for (const Term& s : shift.terms) divisions |= is_division(s.v);
    for (const Term& s : q.terms) cancelled |= is_division(s.v);
    if (divisions || !cancelled) continue;
    Affine joined(b);
    joined.add(shift, d);
    if (!joined.valid) continue;
    int64_t m = sum.terms[at].f;
    UOp remainder = simplify(alu(Op::FLOORMOD, joined.build(), index_const(de)));
    Affine next = sum;
    next.erase(std::max(at, j)), next.erase(std::min(at, j));
    next.add(remainder, m);
    if (!next.valid) continue;
    sum = std::move(next);
    return true;
  }
  return false;
}

// The same with a symbolic divisor: m*(b % n) + m*((b // n) * n) is m*b.
bool absorb_symbolic(Affine& sum, size_t at, const UOp& b, const UOp& n) {
  if (n.vmin() <= 0) return false;
  UOp whole = simplify(alu(Op::MUL, alu(Op::FLOORDIV, b, n), n));
  int64_t m = sum.terms[at].f;
  Affine part(whole), next = sum;
  for (const Term& t : part.terms) {
    int64_t f;
    if (__builtin_mul_overflow(m, t.f, &f) || sum.factor(t.v) != f) return false;
  }
  if (part.terms.empty()) return false;
  next.erase(at);
  next.add(part, -m);
  next.add(b, m);
  if (!next.valid) return false;
  sum = std::move(next);
  return true;
}

bool recombine_once(Affine& sum) {
  for (size_t i = 0; i < sum.terms.size(); ++i) {
    UOp v = sum.terms[i].v;
    if (!v.is(Op::FLOORMOD)) continue;
    const UOp &b = v.src(0), &n = v.src(1);
    if (!n.is_const()) {
      if (absorb_symbolic(sum, i, b, n)) return true;
      continue;
    }
    int64_t d = n.const_int(), dm;
    if (d <= 0 || __builtin_mul_overflow(d, sum.terms[i].f, &dm)) continue;
    // Most remainders have no partner: look for a term of the right factor before computing the quotient.
    bool partner = false;
    for (const Term& t : sum.terms) partner |= is_division(t.v) && t.v != v && t.f % dm == 0;
    if (!partner) continue;
    Affine q(simplify(alu(Op::FLOORDIV, b, n)));
    if (!q.valid) continue;
    if (absorb_quotient(sum, i, b, dm, q) || join_remainders(sum, i, b, d, dm, q)) return true;
  }
  return false;
}

UOp canonical_sum(const Match& m) {
  const UOp& u = *m.root;
  if (!is_index(u)) return {};
  Affine sum(u);
  if (!sum.valid) return {};
  recombine(sum);
  return changed(sum.build(), u);
}

UOp canonical_product(const Match& m) {
  const UOp& u = *m.root;
  if (!is_index(u)) return {};
  const UOp &a = u.src(0), &b = u.src(1);
  if (b.is_const() || a.is_const()) {
    Affine sum(b.is_const() ? a : b);
    sum.scale((b.is_const() ? b : a).const_int());
    return sum.valid ? changed(sum.build(), u) : UOp{};
  }
  // One sum is distributed, so that like terms combine; a product of two sums is not, as it would grow.
  auto is_sum = [](const UOp& x) { return x.is(Op::ADD); };
  if (is_sum(a) != is_sum(b)) {
    const UOp &sum = is_sum(a) ? a : b, &by = is_sum(a) ? b : a;
    Affine parts(sum), out;
    if (parts.valid && parts.terms.size() <= 8) {
      for (const Term& t : parts.terms) {
        Product p(t.v);
        p.multiply(by);
        if (!p.valid) return {};
        out.add(p.build(), t.f);
      }
      out.add(by, parts.k);
      if (out.valid) return changed(out.build(), u);
    }
  }
  Product p(u);
  return p.valid ? changed(p.build(), u) : UOp{};
}

UOp as_sum(const Match& m) {
  const UOp& u = *m.root;
  if (!is_index(u)) return {};
  if (u.is(Op::NEG)) return alu(Op::MUL, u.src(0), index_const(-1));
  return alu(Op::ADD, u.src(0), alu(Op::MUL, u.src(1), index_const(-1)));
}

UOp shift_as_product(const Match& m) {
  const UOp& count = m[1];
  if (!is_index(*m.root) || count.const_int() < 0 || count.const_int() > 61) return {};
  UOp power = index_const(int64_t(1) << count.const_int());
  return m.root->is(Op::SHL) ? alu(Op::MUL, m[0], power) : alu(Op::FLOORDIV, m[0], power);
}

UOp ordered_operands(const Match& m) {
  const UOp& u = *m.root;
  if (!is_index(u.src(0)) || u.src(1).is_const() || order(u.src(0), u.src(1)) <= 0) return {};
  return make(u.op(), u.dtype(), {u.src(1), u.src(0)}, u.arg());
}

} // namespace

void recombine(Affine& sum) {
  if (sum.terms.size() < 2) return;
  while (recombine_once(sum)) {
  }
}

std::vector<Rule> algebra_rules() {
  return {
      {"as_sum", op(OpSet(Op::NEG, Op::SUB)).when(index_typed), as_sum},
      {"shift_as_product", op(OpSet(Op::SHL, Op::SHR), any(0), cst(1)), shift_as_product},
      {"canonical_sum", op(Op::ADD), canonical_sum},
      {"canonical_product", op(Op::MUL), canonical_product},
      {"ordered_operands", op(Op::MAX), ordered_operands},
  };
}

} // namespace tolk::sym
