// Bool algebra and WHERE.
#include "tolk/uop/symbolic/rules.h"

namespace tolk::sym {
namespace {

using namespace pat;

bool is_bool_value(const UOp& u) { return u.dtype() == DType::BOOL; }

// x of !x, else null.
UOp inside_not(const UOp& u) {
  return u.is(Op::XOR) && u.dtype() == DType::BOOL && u.src(1).is_const_int(1) ? u.src(0) : UOp{};
}

// Whether one is the negation of the other, in normal form.
bool opposite(const UOp& a, const UOp& b) {
  if (inside_not(a) == b || inside_not(b) == a) return true;
  bool equality = (a.is(Op::CMPEQ) && b.is(Op::CMPNE)) || (a.is(Op::CMPNE) && b.is(Op::CMPEQ));
  return equality && a.src(0) == b.src(0) && a.src(1) == b.src(1);
}

// X < c or c < X.
struct Bound {
  const UOp* x = nullptr;
  int64_t c = 0;
  bool upper = false;
};
Bound bound_of(const UOp& u) {
  if (!u.is(Op::CMPLT) || u.src(0).dtype() != DType::Index) return {};
  if (u.src(1).is_const()) return {&u.src(0), u.src(1).const_int(), true};
  if (u.src(0).is_const()) return {&u.src(1), u.src(0).const_int(), false};
  return {};
}

// Exclude: not both. Cover: at least one. Opposite: exactly one.
enum class Relation { None, FirstImplies, SecondImplies, Exclude, Cover, Opposite };

// The relation of two clauses, as far as it is syntactically evident.
Relation relation(const UOp& a, const UOp& b) {
  if (a == b) return Relation::FirstImplies;
  if (opposite(a, b)) return Relation::Opposite;
  Bound x = bound_of(a), y = bound_of(b);
  if (!x.x || !y.x || *x.x != *y.x) return Relation::None;
  if (x.upper == y.upper) return (x.c <= y.c) == x.upper ? Relation::FirstImplies : Relation::SecondImplies;
  const Bound &upper = x.upper ? x : y, &lower = x.upper ? y : x;
  Wide gap = Wide(upper.c) - lower.c;
  return gap == 1 ? Relation::Opposite : gap < 1 ? Relation::Exclude : Relation::Cover;
}

constexpr size_t kMostClauses = 48;

bool gather(const UOp& u, Op op, std::vector<UOp>& out) {
  std::vector<UOp> todo{u};
  while (!todo.empty()) {
    UOp node = std::move(todo.back());
    todo.pop_back();
    if (node.is(op))
      todo.push_back(node.src(1)), todo.push_back(node.src(0));
    else
      out.push_back(std::move(node));
    if (out.size() + todo.size() > kMostClauses) return false;
  }
  return true;
}

// AND and OR chains: clauses in structural order, none implied by (AND) or implying (OR) another.
UOp clauses(const Match& m) {
  const UOp& u = *m.root;
  if (u.dtype() != DType::BOOL || u.lanes() != 1) return {};
  bool conjunction = u.is(Op::AND);
  std::vector<UOp> all, kept;
  if (!gather(u, u.op(), all)) return {};
  for (const UOp& c : all) {
    bool drop = c.is_const_int(conjunction);
    if (c.is_const_int(!conjunction)) return c;
    for (size_t i = 0; i < kept.size() && !drop;) {
      Relation r = relation(kept[i], c);
      if (r == Relation::Opposite || r == (conjunction ? Relation::Exclude : Relation::Cover))
        return bool_const(!conjunction);
      if (r == (conjunction ? Relation::FirstImplies : Relation::SecondImplies) || kept[i] == c)
        drop = true;
      else if (r == (conjunction ? Relation::SecondImplies : Relation::FirstImplies))
        kept.erase(kept.begin() + std::ptrdiff_t(i));
      else
        ++i;
    }
    if (drop) continue;
    auto at = kept.end();
    while (at != kept.begin() && order(*std::prev(at), c) > 0) --at;
    kept.insert(at, c);
  }
  if (kept.empty()) return bool_const(conjunction);
  UOp out = kept[0];
  for (size_t i = 1; i < kept.size(); ++i) out = alu(u.op(), out, kept[i]);
  return changed(out, u);
}

UOp bool_arithmetic(const Match& m) {
  const UOp& u = *m.root;
  return alu(u.is(Op::MUL) ? Op::AND : Op::OR, u.src(0), u.src(1));
}

UOp where_constant(const Match& m) { return m[0].const_int() ? m[1] : m[2]; }

UOp where_of_bools(const Match& m) {
  const UOp &c = m[0], &a = m[1], &b = m[2];
  if (a.dtype() != DType::BOOL) return {};
  if (a.is_const() && b.is_const()) return a.const_int() ? c : logical_not(c);
  if (a.is_const()) return a.const_int() ? alu(Op::OR, c, b) : alu(Op::AND, logical_not(c), b);
  if (b.is_const()) return b.const_int() ? alu(Op::OR, logical_not(c), a) : alu(Op::AND, c, a);
  return {};
}

UOp where_of_not(const Match& m) {
  UOp c = inside_not(m[0]);
  return c ? where(c, m[2], m[1]) : UOp{};
}

// The condition inside its own branches is known.
UOp where_inside(const Match& m) {
  const UOp &c = m[0], &a = m[1], &b = m[2];
  UOp x = a, y = b;
  if (a.is(Op::WHERE) && a.src(0) == c) x = a.src(1);
  if (b.is(Op::WHERE) && b.src(0) == c) y = b.src(2);
  if (x != a || y != b) return where(c, x, y);
  if (a.is(Op::WHERE) && a.src(2) == b) return where(alu(Op::AND, c, a.src(0)), a.src(1), b);
  if (b.is(Op::WHERE) && b.src(1) == a) return where(alu(Op::OR, c, b.src(0)), a, b.src(2));
  return {};
}

} // namespace

std::vector<Rule> logic_rules() {
  return {
      {"not_twice", op(Op::XOR, op(Op::XOR, any(0), number(1)).when(is_bool_value), number(1)),
       [](const Match& m) { return m[0]; }},
      {"clauses", op(OpSet(Op::AND, Op::OR)).when(is_bool_value), clauses},
      {"bool_arithmetic", op(OpSet(Op::MUL, Op::MAX)).when(is_bool_value), bool_arithmetic},
      {"where_constant", op(Op::WHERE, cst(0), any(1), any(2)), where_constant},
      {"where_same", op(Op::WHERE, any(0), any(1), any(1)), [](const Match& m) { return m[1]; }},
      {"where_of_bools", op(Op::WHERE, any(0), any(1), any(2)), where_of_bools},
      {"where_of_not", op(Op::WHERE, any(0), any(1), any(2)), where_of_not},
      {"where_inside", op(Op::WHERE, any(0), any(1), any(2)), where_inside},
  };
}

} // namespace tolk::sym
