// Simplifies expressions under the assumption that a gate is true.
#include <unordered_map>

#include "tolk/uop/symbolic/rules.h"
#include "tolk/uop/symbolic/symbolic.h"
#include "tolk/uop/traverse.h"

namespace tolk {
namespace {

using namespace sym;

// Known: lo <= x <= hi, ends saturated at the unbounded ones.
struct Knowledge {
  UOp x;
  Wide lo = -kUnbounded, hi = kUnbounded;
};

// Known bounds in the order they were found; one entry per expression.
class Facts {
public:
  std::vector<Knowledge> all;

  void learn(const UOp& x, Wide lo, Wide hi) {
    for (Knowledge& k : all)
      if (k.x == x) {
        k.lo = std::max(k.lo, lo), k.hi = std::min(k.hi, hi);
        return;
      }
    all.push_back({x, lo, hi});
  }

  // From sum <= 0: the sum without its constant is at most -k; then each term alone, the others at their
  // minimum.
  void learn_at_most_zero(const Affine& sum) {
    if (!sum.valid || sum.is_constant()) return;
    if (sum.terms.size() > 1) {
      Affine body = sum;
      body.k = 0;
      // Stored with a positive first factor, so that both bounds of one sum meet.
      if (body.terms[0].f > 0) {
        learn(body.build(), -kUnbounded, -Wide(sum.k));
      } else {
        body.scale(-1);
        if (body.valid) learn(body.build(), Wide(sum.k), kUnbounded);
      }
    }
    for (size_t i = 0; i < sum.terms.size(); ++i) {
      Affine others = sum;
      others.erase(i);
      Wide least = others.interval().lo; // f*v <= -least
      if (least <= -kUnbounded) continue;
      const Term& t = sum.terms[i];
      if (t.f > 0)
        learn(t.v, -kUnbounded, floor_div(-least, t.f));
      else
        learn(t.v, -floor_div(-least, -Wide(t.f)), kUnbounded);
    }
  }
};

void read_clauses(const UOp& gate, std::vector<UOp>& out) {
  std::vector<UOp> todo{gate};
  while (!todo.empty()) {
    UOp u = std::move(todo.back());
    todo.pop_back();
    if (u.is(Op::AND))
      todo.push_back(u.src(1)), todo.push_back(u.src(0));
    else
      out.push_back(std::move(u));
  }
}

// X < Y, which is X - Y + 1 <= 0; !(X < Y), which is Y - X <= 0; X == Y both ways.
void read_clause(const UOp& clause, Facts& facts) {
  bool negative = clause.is(Op::XOR) && clause.src(1).is_const_int(1);
  const UOp& c = negative ? clause.src(0) : clause;
  if (c.nsrc() != 2 || !is_index(c.src(0))) return;
  Affine difference(c.src(0));
  difference.add(c.src(1), -1);
  if (!difference.valid) return;
  if (c.is(Op::CMPLT) && !negative) {
    difference.add_constant(1);
    facts.learn_at_most_zero(difference);
  } else if (c.is(Op::CMPLT)) {
    difference.scale(-1);
    facts.learn_at_most_zero(difference);
  } else if (c.is(negative ? Op::CMPNE : Op::CMPEQ)) {
    facts.learn_at_most_zero(difference);
    difference.scale(-1);
    facts.learn_at_most_zero(difference);
  }
}

// Expressions under a gate are small and asked for often: tables of their own size, not of the arena's.
using Done = UOpMap;

UOp rebuilt(const UOp& u, const Done& done) {
  std::vector<UOp> src;
  bool changed = false;
  for (const UOp& s : u.src()) {
    src.push_back(done.at(s));
    changed |= src.back() != s;
  }
  return changed ? with_sources(u, src) : u;
}

UOp replaced(const UOp& root, const UOpMap& map) {
  Done done = map;
  std::vector<std::pair<UOp, bool>> stack{{root, false}};
  while (!stack.empty()) {
    auto [u, expanded] = stack.back();
    stack.pop_back();
    if (done.contains(u)) continue;
    if (expanded) {
      done.emplace(u, rebuilt(u, done));
      continue;
    }
    stack.emplace_back(u, true);
    for (const UOp& s : u.src()) stack.emplace_back(s, false);
  }
  return done.at(root);
}

// Replaces known expressions in sums by placeholders: f*(X's terms) becomes f*V.
class StandIns {
public:
  explicit StandIns(const Facts& facts) {
    for (const Knowledge& k : facts.all) {
      Interval own = bounds(k.x);
      Wide lo = std::max(k.lo, own.lo), hi = std::min(k.hi, own.hi);
      if (lo > hi || (lo <= own.lo && hi >= own.hi)) continue; // nothing new, or the gate is never true
      if (lo <= INT64_MIN || hi >= INT64_MAX) {
        // One side may stay open.
        if (lo <= INT64_MIN) lo = -(Wide(1) << 62);
        if (hi >= INT64_MAX) hi = Wide(1) << 62;
        if (lo > hi) continue;
      }
      int64_t multiple = k.x.is(Op::VAR) ? k.x.arg().i(2) : 1;
      UOp v = lo == hi ? index_const(int64_t(lo))
                       : variable("\x01"
                                  "given" +
                                      std::to_string(items_.size()),
                                  int64_t(lo), int64_t(hi), multiple);
      items_.push_back({k.x, v, Affine(k.x)});
      single_.emplace(k.x, v);
      if (!v.is_const()) back_.emplace(v, k.x);
    }
  }
  bool empty() const { return items_.empty(); }

  UOp put_in(const UOp& root) {
    Done done;
    std::vector<std::pair<UOp, bool>> stack{{root, false}};
    while (!stack.empty()) {
      auto [u, expanded] = stack.back();
      stack.pop_back();
      if (done.contains(u)) continue;
      if (auto it = single_.find(u); it != single_.end()) {
        done.emplace(u, it->second);
        continue;
      }
      bool sum = u.is(Op::ADD) && is_index(u);
      Affine parts;
      if (sum) {
        parts = Affine(u);
        sum = parts.valid;
      }
      if (!expanded) {
        stack.emplace_back(u, true);
        if (sum) {
          for (const Term& t : parts.terms) stack.emplace_back(t.v, false);
        } else {
          for (const UOp& s : u.src()) stack.emplace_back(s, false);
        }
        continue;
      }
      done.emplace(u, sum ? in_sum(parts, done) : rebuilt(u, done));
    }
    return done.at(root);
  }

  UOp take_out(const UOp& root) const { return replaced(root, back_); }

private:
  struct Item {
    UOp x, stand_in;
    Affine parts;
  };

  UOp in_sum(Affine parts, const Done& done) const {
    Affine out;
    for (const Item& item : items_) {
      if (item.parts.terms.size() < 2) continue;
      const Term& first = item.parts.terms[0];
      int64_t f = parts.factor(first.v);
      if (f == 0 || f % first.f) continue;
      f /= first.f;
      bool all = true;
      for (const Term& t : item.parts.terms) all = all && Wide(parts.factor(t.v)) == Wide(t.f) * f;
      if (!all) continue;
      Affine rest = parts;
      rest.add(item.parts, -f);
      if (!rest.valid) continue;
      parts = std::move(rest);
      out.add(item.stand_in, f);
    }
    for (const Term& t : parts.terms) out.add(done.at(t.v), t.f);
    out.add_constant(parts.k);
    if (out.valid) return out.build();
    UOp sum = index_const(parts.k);
    for (const Term& t : parts.terms) sum = sum + done.at(t.v) * t.f;
    return sum;
  }

  std::vector<Item> items_;
  UOpMap single_, back_;
};

UOp under(const UOp& e, std::span<const UOp> clauses) {
  Facts facts;
  UOpMap truths;
  for (const UOp& c : clauses) {
    read_clause(c, facts);
    if (!c.is_const()) truths.emplace(c, bool_const(true));
  }
  UOp now = e;
  if (e.dtype() == DType::BOOL || e.node()->flags) now = replaced(now, truths);
  StandIns stand_ins(facts);
  if (stand_ins.empty()) return simplify(now);
  UOp inside = simplify(stand_ins.put_in(now));
  return simplify(stand_ins.take_out(inside));
}

} // namespace

UOp simplify_under(const UOp& e, const UOp& gate) {
  UOp now = simplify(e);
  if (!gate || now.is_const()) return now;
  std::vector<UOp> clauses;
  read_clauses(simplify(gate), clauses);
  return under(now, clauses);
}

UOp simplify_gate(const UOp& gate) {
  UOp now = simplify(gate);
  std::vector<UOp> clauses;
  read_clauses(now, clauses);
  if (clauses.size() < 2 || clauses.size() > 16) return now;
  // One clause after the other under those before it and those still to come in their present form.
  bool any = false;
  for (size_t i = 0; i < clauses.size();) {
    std::vector<UOp> others;
    for (size_t j = 0; j < clauses.size(); ++j)
      if (j != i) others.push_back(clauses[j]);
    UOp c = under(clauses[i], others);
    any |= c != clauses[i];
    if (c.is_const_int(0)) return c;
    if (c.is_const_int(1))
      clauses.erase(clauses.begin() + std::ptrdiff_t(i));
    else
      clauses[i++] = c;
  }
  if (!any) return now;
  UOp joined;
  for (const UOp& c : clauses) joined = logical_and(joined, c);
  return joined ? simplify(joined) : bool_const(true);
}

} // namespace tolk
