#include "tolk/codegen/linear.h"

#include <memory>
#include <numeric>

#include "tolk/uop/build.h"

namespace tolk::codegen {

int64_t Linear::coefficient(const UOp& atom) const {
  for (const Term& t : terms)
    if (t.atom == atom) return t.coefficient;
  return 0;
}

void add_atom(Linear& sum, const UOp& atom, int64_t factor) {
  auto at = sum.terms.begin();
  while (at != sum.terms.end() && at->atom.id() < atom.id()) ++at;
  if (at == sum.terms.end() || at->atom != atom) {
    if (factor != 0) sum.terms.insert(at, {atom, factor});
  } else if ((at->coefficient += factor) == 0) {
    sum.terms.erase(at);
  }
}

void add_scaled(Linear& sum, const Linear& form, int64_t factor) {
  if (factor == 0) return;
  // Unsigned: an index that nobody can use may overflow while it is put together.
  sum.constant = int64_t(uint64_t(sum.constant) + uint64_t(form.constant) * uint64_t(factor));
  for (const Term& t : form.terms) add_atom(sum, t.atom, int64_t(uint64_t(t.coefficient) * uint64_t(factor)));
}

Bounds bounds(const Linear& form) {
  Bounds b{form.constant, form.constant};
  for (const Term& t : form.terms) {
    __int128 low = t.atom.vmin(), high = t.atom.vmax(), k = t.coefficient;
    b.low += k > 0 ? k * low : k * high;
    b.high += k > 0 ? k * high : k * low;
  }
  return b;
}

namespace {

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

// All values of `b` have the same floor quotient by `divisor`.
bool one_quotient(const Bounds& b, int64_t divisor, int64_t& quotient) {
  if (b.low < INT64_MIN || b.high > INT64_MAX) return false;
  quotient = floor_div(int64_t(b.low), divisor);
  return quotient == floor_div(int64_t(b.high), divisor);
}

} // namespace

Division divide(const Linear& form, int64_t divisor) {
  Division d;
  d.divisor = divisor;
  int64_t common = divisor;
  for (const Term& t : form.terms) {
    if (t.coefficient % divisor == 0) {
      d.quotient.terms.push_back({t.atom, t.coefficient / divisor});
    } else {
      d.remainder.terms.push_back(t);
      common = std::gcd(common, t.coefficient);
    }
  }
  d.quotient.constant = floor_div(form.constant, divisor);
  d.remainder.constant = form.constant - d.quotient.constant * divisor;
  int64_t q = 0;
  if (one_quotient(bounds(d.remainder), divisor, q)) {
    d.quotient.constant += q;
    d.remainder = {};
    return d;
  }
  // (g*x + c) // (g*e) = (x + c//g) // e
  if (common > 1) {
    for (Term& t : d.remainder.terms) t.coefficient /= common;
    d.remainder.constant = floor_div(d.remainder.constant, common);
    d.divisor /= common;
  }
  return d;
}

std::optional<Linear> modulo(const Linear& form, int64_t divisor, Linear& rest) {
  rest = {};
  for (const Term& t : form.terms)
    if (t.coefficient % divisor != 0) rest.terms.push_back(t);
  rest.constant = form.constant - floor_div(form.constant, divisor) * divisor;
  int64_t q = 0;
  if (!one_quotient(bounds(rest), divisor, q)) return std::nullopt;
  Linear result = rest;
  result.constant -= q * divisor;
  return result;
}

const Linear& LinearMap::of(const UOp& index) {
  if (const Linear* const* found = memo_.find(index)) return **found;
  owned_.push_back(std::make_unique<Linear>(compute(index)));
  memo_.set(index, owned_.back().get());
  return *owned_.back();
}

Linear LinearMap::compute(const UOp& u) {
  Linear sum;
  switch (u.op()) {
  case Op::CONST:
    sum.constant = u.const_int();
    return sum;
  case Op::ADD:
    add_scaled(sum, of(u.src(0)), 1);
    add_scaled(sum, of(u.src(1)), 1);
    return sum;
  case Op::SUB:
    add_scaled(sum, of(u.src(0)), 1);
    add_scaled(sum, of(u.src(1)), -1);
    return sum;
  case Op::NEG:
    add_scaled(sum, of(u.src(0)), -1);
    return sum;
  case Op::MUL:
    for (int i = 0; i < 2; ++i)
      if (const Linear& factor = of(u.src(i)); factor.is_const()) {
        add_scaled(sum, of(u.src(1 - i)), factor.constant);
        return sum;
      }
    break;
  default:
    break;
  }
  add_atom(sum, u, 1);
  return sum;
}

} // namespace tolk::codegen
