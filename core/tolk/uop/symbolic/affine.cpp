#include "tolk/uop/symbolic/affine.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "tolk/uop/build.h"

namespace tolk::sym {

int order(const UOp& first, const UOp& second) {
  UOp a = first, b = second;
  // Differing nodes differ in themselves or in a source; the first differing source decides, so this is one
  // path down.
  for (int depth = 0; a != b; ++depth) {
    if (a.op() != b.op()) return a.op() < b.op() ? -1 : 1;
    if (a.dtype() != b.dtype()) return a.dtype() < b.dtype() ? -1 : 1;
    if (a.lanes() != b.lanes()) return a.lanes() < b.lanes() ? -1 : 1;
    if (a.arg().word != b.arg().word) return int64_t(a.arg().word) < int64_t(b.arg().word) ? -1 : 1;
    if (a.arg().data != b.arg().data) {
      auto less = [](const UOp& x, const UOp& y) {
        auto xt = x.arg().texts(), yt = y.arg().texts();
        if (!std::equal(xt.begin(), xt.end(), yt.begin(), yt.end()))
          return std::lexicographical_compare(xt.begin(), xt.end(), yt.begin(), yt.end());
        auto xi = x.arg().ints(), yi = y.arg().ints();
        return std::lexicographical_compare(xi.begin(), xi.end(), yi.begin(), yi.end());
      };
      return less(a, b) ? -1 : 1;
    }
    if (a.nsrc() != b.nsrc()) return a.nsrc() < b.nsrc() ? -1 : 1;
    if (depth > 64 && a.hash() != b.hash()) return a.hash() < b.hash() ? -1 : 1;
    size_t i = 0;
    while (a.src(i) == b.src(i)) ++i;
    UOp x = a.src(i), y = b.src(i);
    a = std::move(x), b = std::move(y);
  }
  return 0;
}

Interval bounds(const UOp& u) {
  constexpr int64_t low = std::numeric_limits<int64_t>::min(), high = std::numeric_limits<int64_t>::max();
  return {u.vmin() == low ? -kUnbounded : Wide(u.vmin()), u.vmax() == high ? kUnbounded : Wide(u.vmax())};
}

Interval scaled(const Interval& i, int64_t f) {
  auto times = [f](Wide v) -> Wide {
    if (v >= kUnbounded || v <= -kUnbounded) return (v > 0) == (f > 0) ? kUnbounded : -kUnbounded;
    return v * f;
  };
  return f >= 0 ? Interval{times(i.lo), times(i.hi)} : Interval{times(i.hi), times(i.lo)};
}

bool one_period(const Interval& i, int64_t c, Wide& quotient) {
  if (i.lo <= -kUnbounded || i.hi >= kUnbounded || i.lo > i.hi) return false;
  quotient = floor_div(i.lo, c);
  return quotient == floor_div(i.hi, c);
}

void Affine::add_constant(Wide c) {
  valid = valid && fits(c + k);
  k = int64_t(uint64_t(k) + uint64_t(c));
}

void Affine::add_term(const UOp& v, int64_t f) {
  if (f == 0) return;
  // New terms mostly come in order.
  auto at = terms.end();
  while (at != terms.begin()) {
    int c = order(std::prev(at)->v, v);
    if (c == 0) {
      --at;
      if (__builtin_add_overflow(at->f, f, &at->f)) valid = false;
      if (at->f == 0) terms.erase(at);
      return;
    }
    if (c < 0) break;
    --at;
  }
  if (terms.size() >= kMaxTerms) valid = false;
  terms.insert(at, Term{v, f});
}

void Affine::add(const UOp& u, int64_t scale) {
  boost::container::small_vector<std::pair<UOp, int64_t>, 8> todo;
  todo.emplace_back(u, scale);
  size_t seen = 0;
  auto push_scaled = [&](const UOp& node, int64_t f, int64_t by) {
    int64_t g;
    if (__builtin_mul_overflow(f, by, &g)) valid = false;
    todo.emplace_back(node, g);
  };
  while (!todo.empty() && valid) {
    auto [node, f] = std::move(todo.back());
    todo.pop_back();
    if (f == 0) continue;
    if (node.is(OpSet(Op::ADD, Op::SUB))) {
      if (++seen > 2 * kMaxTerms) valid = false;
      push_scaled(node.src(1), f, node.is(Op::SUB) ? -1 : 1);
      todo.emplace_back(node.src(0), f);
    } else if (node.is_const()) {
      add_constant(Wide(node.const_int()) * f);
    } else if (node.is(Op::MUL) && node.src(1).is_const()) {
      push_scaled(node.src(0), f, node.src(1).const_int());
    } else if (node.is(Op::NEG)) {
      push_scaled(node.src(0), f, -1);
    } else {
      add_term(node, f);
    }
  }
}

Affine Affine::of(const UOp& u) {
  Affine sum(u);
  if (!sum.valid) {
    sum = {};
    sum.add_term(u, 1);
  }
  return sum;
}

void Affine::add(const Affine& other, int64_t scale) {
  valid &= other.valid;
  for (const Term& t : other.terms) {
    int64_t f;
    if (__builtin_mul_overflow(t.f, scale, &f)) valid = false;
    add_term(t.v, f);
  }
  add_constant(Wide(other.k) * scale);
}

void Affine::scale(int64_t c) {
  if (c == 0) {
    terms.clear(), k = 0;
    return;
  }
  for (Term& t : terms)
    if (__builtin_mul_overflow(t.f, c, &t.f)) valid = false;
  if (__builtin_mul_overflow(k, c, &k)) valid = false;
}

void Affine::divide_exactly(int64_t g) {
  for (Term& t : terms) t.f /= g;
  k = int64_t(floor_div(k, g));
}

int64_t Affine::common_divisor(int64_t c) const {
  for (const Term& t : terms) c = std::gcd(c, t.f);
  return c;
}

int64_t Affine::factor(const UOp& v) const {
  for (const Term& t : terms)
    if (t.v == v) return t.f;
  return 0;
}

Interval Affine::interval() const {
  if (!valid) return {-kUnbounded, kUnbounded};
  Interval sum{k, k};
  for (const Term& t : terms) {
    Interval i = scaled(bounds(t.v), t.f);
    sum.lo = i.lo <= -kUnbounded || sum.lo <= -kUnbounded ? -kUnbounded : sum.lo + i.lo;
    sum.hi = i.hi >= kUnbounded || sum.hi >= kUnbounded ? kUnbounded : sum.hi + i.hi;
  }
  return sum;
}

UOp Affine::build() const {
  UOp sum;
  for (const Term& t : terms) {
    UOp x = t.f == 1 ? t.v : alu(Op::MUL, t.v, index_const(t.f));
    sum = sum ? alu(Op::ADD, sum, x) : std::move(x);
  }
  if (!sum) return index_const(k);
  return k ? alu(Op::ADD, sum, index_const(k)) : sum;
}

namespace {

int64_t residue(int64_t f, int64_t c, Residue kind) {
  int64_t r = int64_t(floor_mod(f, c));
  if (kind == Residue::Whole) return r == 0 ? 0 : f;
  if (kind == Residue::Truncated) return f % c;
  if (kind == Residue::Nearest && r > c - r) return r - c;
  return r;
}

} // namespace

Division divide(const Affine& x, int64_t c, Residue kind) {
  Division d;
  d.outer.valid = d.inner.valid = x.valid;
  d.inner.k = int64_t(floor_mod(x.k, c));
  d.outer.k = int64_t(floor_div(x.k, c));
  for (const Term& t : x.terms) {
    int64_t r = residue(t.f, c, kind);
    d.inner.add_term(t.v, r);
    d.outer.add_term(t.v, int64_t((Wide(t.f) - r) / c));
  }
  Wide q;
  d.known = one_period(d.inner.interval(), c, q) && fits(q);
  if (d.known) {
    d.outer.add_constant(q);
    d.inner.add_constant(-q * c);
  }
  return d;
}

void Product::multiply(const UOp& u) {
  boost::container::small_vector<UOp, 4> todo{u};
  while (!todo.empty()) {
    UOp node = std::move(todo.back());
    todo.pop_back();
    if (node.is(Op::MUL)) {
      todo.push_back(node.src(0)), todo.push_back(node.src(1));
    } else if (node.is_const()) {
      if (__builtin_mul_overflow(f, node.const_int(), &f)) valid = false;
    } else {
      auto at = factors.end();
      while (at != factors.begin() && order(*std::prev(at), node) > 0) --at;
      factors.insert(at, node);
      if (factors.size() > 16) {
        valid = false;
        return;
      }
    }
  }
}

bool Product::divide_factors(const Product& other) {
  auto left = factors;
  for (const UOp& g : other.factors) {
    auto at = std::find(left.begin(), left.end(), g);
    if (at == left.end()) return false;
    left.erase(at);
  }
  factors = std::move(left);
  return true;
}

UOp Product::build() const {
  if (f == 0) return index_const(0);
  UOp product;
  for (const UOp& g : factors) product = product ? alu(Op::MUL, product, g) : g;
  if (!product) return index_const(f);
  return f == 1 ? product : alu(Op::MUL, product, index_const(f));
}

} // namespace tolk::sym
