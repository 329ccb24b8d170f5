// Index expressions in the expansion: linear forms under the current lanes, comparisons, and loads by their stride
// along the vector.
#include <algorithm>
#include <bit>

#include "tolk/base/error.h"
#include "tolk/codegen/lower/expander.h"
#include "tolk/uop/print.h"

namespace tolk::codegen {

using sym::Term;

UOp Expander::vector_axis_node(int width) {
  std::vector<UOp> lanes;
  for (int i = 0; i < width; ++i) lanes.push_back(index_const(i));
  return make(Op::STACK, DType::Index, lanes, {}, width);
}

bool Expander::is_vector(const Affine& form) const {
  return std::any_of(form.terms.begin(), form.terms.end(), [](const Term& t) { return t.v.lanes() > 1; });
}

// A loop whose extent is an expression gets it in lowered form.
UOp Expander::loop(const UOp& range) {
  if (range.src(0).is_const()) return range;
  UOp lowered = make(Op::RANGE, range.dtype(), {lower(range.src(0))}, range.arg());
  if (auto it = loop_rank_.find(range); it != loop_rank_.end()) loop_rank_[lowered] = it->second;
  return lowered;
}

int Expander::rank(const UOp& atom) {
  if (!atom.has(kHasRange)) return 0;
  if (atom.is(Op::RANGE)) {
    auto it = loop_rank_.find(atom);
    return it == loop_rank_.end() ? 0 : it->second;
  }
  if (auto it = rank_memo_.find(atom); it != rank_memo_.end()) return it->second;
  int deepest = 0;
  for (const UOp& s : atom.src()) deepest = std::max(deepest, rank(s));
  return rank_memo_[atom] = deepest;
}

Affine Expander::index(const UOp& u) {
  Affine form = Affine::of(u), sum;
  sum.k = form.k;
  for (const Term& t : form.terms) sum.add(atom(t.v), t.f);
  return sum;
}

Affine Expander::atom(const UOp& u) {
  Affine form;
  if (!u.is(Op::RANGE)) return atom_node(u);
  if (auto it = substituted_.find(u); it != substituted_.end()) return it->second;
  if (auto it = splits_.find(u); it != splits_.end()) {
    Split split = it->second;
    form.add(atom(split.outer), split.block);
    form.add(atom(split.inner), 1);
    return substituted_[u] = form;
  }
  if (uint64_t bit = bit_of(u)) {
    const Axis& axis = axes_[size_t(std::countr_zero(bit))];
    if (axis.lane == kWhole)
      form.add_term(vector_axis_node(axis.extent), 1);
    else
      form.k = axis.lane;
    return form;
  }
  form.add_term(loop(u), 1);
  return form;
}

Affine Expander::quotient(const Affine& x, int64_t divisor) {
  sym::Division d = sym::divide(x, divisor, sym::Residue::Whole);
  if (d.known) return d.outer;
  // (g*x + c) // (g*e) = (x + c//g) // e
  int64_t g = d.inner.common_divisor(divisor);
  d.inner.divide_exactly(g);
  UOp rest = materialise(d.inner);
  d.outer.add_term(alu(Op::FLOORDIV, rest, constant(DType::Index, divisor / g, rest.lanes())), 1);
  return d.outer;
}

Affine Expander::remainder(const Affine& x, int64_t divisor) {
  sym::Division d = sym::divide(x, divisor, sym::Residue::Whole);
  if (d.known) return d.inner;
  UOp rest = materialise(d.inner);
  return Affine(alu(Op::FLOORMOD, rest, constant(DType::Index, divisor, rest.lanes())));
}

Affine Expander::atom_node(const UOp& u) {
  if (u.is(OpSet(Op::FLOORDIV, Op::FLOORMOD)) && u.src(1).is_const() && u.src(1).const_int() > 0) {
    Affine x = index(u.src(0));
    int64_t divisor = u.src(1).const_int();
    return u.is(Op::FLOORDIV) ? quotient(x, divisor) : remainder(x, divisor);
  }
  Affine form;
  if (u.is(Op::MUL)) {
    Affine a = index(u.src(0)), b = index(u.src(1));
    if (a.is_constant() || b.is_constant())
      form.add(a.is_constant() ? b : a, a.is_constant() ? a.k : b.k);
    else
      form.add_term(value_op(Op::MUL, materialise(a), materialise(b)), 1);
    return form;
  }
  if (u.is(OpSet(Op::VAR, Op::SPECIAL, Op::BIND))) {
    form.add_term(u.is(Op::BIND) ? u.src(0) : u, 1);
    return form;
  }
  if (u.is(Op::REDUCE)) {
    form.add_term(reduction(u), 1);
    return form;
  }
  if (!u.is(ops::Elementwise)) throw InternalError("an index cannot hold " + print_line(u));
  std::vector<UOp> src;
  for (const UOp& s : u.src()) src.push_back(lower(s));
  UOp r = elementwise(u, src);
  // What folded away may be a sum again.
  if (r.op() != u.op()) return Affine::of(r);
  form.add_term(r, 1);
  return form;
}

// Terms from the outermost loop in, the constant last: accesses that differ by a constant share everything
// else.
UOp Expander::materialise(const Affine& form) {
  boost::container::small_vector<std::pair<int, const Term*>, 8> scalars;
  boost::container::small_vector<const Term*, 4> vectors;
  for (const Term& t : form.terms)
    if (t.v.lanes() > 1)
      vectors.push_back(&t);
    else
      scalars.emplace_back(rank(t.v), &t);
  std::sort(scalars.begin(), scalars.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second->v.id() < b.second->v.id();
  });
  UOp sum;
  for (const auto& [r, t] : scalars) {
    UOp part = t->f == 1 ? t->v : t->v * t->f;
    sum = sum ? alu(Op::ADD, sum, part) : part;
  }
  if (vectors.empty()) {
    if (!sum) return index_const(form.k);
    return form.k ? alu(Op::ADD, sum, index_const(form.k)) : sum;
  }
  int width = vectors[0]->v.lanes();
  UOp unit = vector_axis_node(width), wide;
  int64_t constant_part = form.k;
  for (const Term* t : vectors) {
    UOp part;
    if (t->v == unit) {
      std::vector<UOp> lanes;
      for (int i = 0; i < width; ++i) lanes.push_back(index_const(constant_part + i * t->f));
      constant_part = 0;
      part = make(Op::STACK, DType::Index, lanes, {}, width);
    } else {
      part = t->f == 1 ? t->v : alu(Op::MUL, t->v, constant(DType::Index, t->f, width));
    }
    wide = wide ? alu(Op::ADD, wide, part) : part;
  }
  if (constant_part != 0)
    sum = sum ? alu(Op::ADD, sum, index_const(constant_part)) : index_const(constant_part);
  return sum ? alu(Op::ADD, splat(sum, width), wide) : wide;
}

// Compares terms with a constant: the fastest-varying ones on the left, the rest on the right.
UOp Expander::compare(const UOp& u) {
  Affine difference = index(u.src(0));
  difference.add(index(u.src(1)), -1);
  sym::Interval range = difference.interval();
  if (u.is(Op::CMPLT)) {
    if (range.hi < 0) return bool_const(true);
    if (range.lo >= 0) return bool_const(false);
  } else {
    if (range.lo > 0 || range.hi < 0) return bool_const(u.is(Op::CMPNE));
    if (range.lo == 0 && range.hi == 0) return bool_const(u.is(Op::CMPEQ));
  }
  Affine left, right;
  right.add_constant(-sym::Wide(difference.k));
  bool vector = is_vector(difference);
  int sign = 1, deepest = -1;
  for (const Term& t : difference.terms) {
    if (vector != (t.v.lanes() > 1)) {
      right.add_term(t.v, -t.f);
      continue;
    }
    left.add_term(t.v, t.f);
    if (int r = rank(t.v); r > deepest) deepest = r, sign = t.f < 0 ? -1 : 1;
  }
  left.scale(sign);
  right.scale(sign);
  UOp l = materialise(left), r = splat(materialise(right), l.lanes());
  return sign < 0 ? alu(u.op(), r, l) : alu(u.op(), l, r);
}

// The value of `u`, which depends on a vector axis, from one scalar per lane.
UOp Expander::lanewise(const UOp& u, int axis_number) {
  Axis& axis = axes_[size_t(axis_number)];
  std::vector<UOp> lanes;
  for (axis.lane = 0; axis.lane < axis.extent; ++axis.lane) lanes.push_back(lower(u));
  axis.lane = kWhole;
  return stack(lanes);
}

// Lanes that lie a few elements apart, or backwards: vectors of consecutive elements, from which the lanes
// are picked. No vector reaches beyond the first and last lane, and elements that only stand between lanes
// are masked like the lanes around them when there is a gate per lane.
UOp Expander::strided_load(const UOp& storage, const Affine& where, const UOp& gate, const UOp& alt,
                           int64_t stride, int width) {
  UOp unit = vector_axis_node(width);
  int64_t step = stride < 0 ? -stride : stride, span = step * (width - 1) + 1;
  // Position of lane j counted from the lowest address.
  auto position = [&](int j) { return stride < 0 ? step * (width - 1 - j) : step * j; };
  std::vector<UOp> lanes(static_cast<size_t>(width));
  for (int64_t covered = 0; covered < span;) {
    int64_t first = std::min(covered, span - width);
    Affine at = where;
    at.add_term(unit, -stride);
    at.add_constant(first + (stride < 0 ? stride * (width - 1) : 0));
    UOp mask = gate;
    if (gate && gate.lanes() > 1) {
      std::vector<UOp> bits(static_cast<size_t>(width), bool_const(false));
      for (int j = 0; j < width; ++j)
        if (int64_t p = position(j) - first; p >= 0 && p < width) bits[size_t(p)] = extract(gate, j);
      mask = stack(bits);
    }
    UOp part =
        load(storage, materialise(at), mask, mask ? splat(zero_of(storage.dtype()), width) : UOp(), width);
    for (int j = 0; j < width; ++j)
      if (int64_t p = position(j) - first; p >= 0 && p < width && !lanes[size_t(j)])
        lanes[size_t(j)] = extract(part, int(p));
    // The next missing lane.
    covered = span;
    for (int j = 0; j < width; ++j)
      if (!lanes[size_t(j)]) covered = std::min(covered, position(j));
  }
  UOp value = stack(lanes);
  if (!gate || alt == zero_of(storage.dtype())) return value;
  return tolk::where(gate, value, splat(alt, width));
}

UOp Expander::load_node(const UOp& u) {
  Affine where = index(u.src(1));
  UOp gate = u.nsrc() > 2 ? lower(u.src(2)) : UOp();
  UOp alt = u.nsrc() > 3 ? lower(u.src(3)) : UOp();
  if (gate && gate.is_const()) {
    if (!gate.const_int()) return alt ? alt : zero_of(u.dtype());
    gate = {};
  }
  const UOp& storage = u.src(0);
  int width = width_of(depends(u));
  int gate_lanes = gate ? gate.lanes() : 1;
  if (width == 1 || (!is_vector(where) && gate_lanes == 1 && (!alt || alt.lanes() == 1)))
    return load(storage, materialise(where), gate, gate ? alt : UOp());
  int axis_number = -1;
  for (uint64_t m = depends(u); m; m &= m - 1) {
    int i = std::countr_zero(m);
    if (axes_[size_t(i)].vector && axes_[size_t(i)].lane == kWhole) axis_number = i;
  }
  UOp unit = vector_axis_node(width);
  int64_t stride = where.factor(unit);
  bool linear = std::none_of(where.terms.begin(), where.terms.end(),
                             [&](const Term& t) { return t.v.lanes() > 1 && t.v != unit; });
  if (linear && stride == 1) {
    where.add_term(unit, -1);
    return load(storage, materialise(where), gate, gate && alt ? splat(alt, width) : UOp(), width);
  }
  if (linear && (stride == -1 || (stride >= 2 && stride <= 4)) && width >= 4)
    return strided_load(storage, where, gate, alt ? alt : zero_of(u.dtype()), stride, width);
  // Addresses that do not depend on loads are computed lane by lane, mostly outside of the innermost loop.
  if (linear || !u.src(1).has(kHasLoad)) return lanewise(u, axis_number);
  return load(storage, materialise(where), gate, gate && alt ? splat(alt, width) : UOp(), width);
}

} // namespace tolk::codegen
