// The half of the expansion that deals with indices: linear forms under the present lanes, comparisons of
// indices, and loads by their stride along the vector.
#include <algorithm>
#include <bit>

#include "tolk/base/error.h"
#include "tolk/codegen/lower/expander.h"
#include "tolk/uop/print.h"

namespace tolk::codegen {

UOp Expander::vector_axis_node(int width) {
  std::vector<UOp> lanes;
  for (int i = 0; i < width; ++i) lanes.push_back(index_const(i));
  return make(Op::STACK, DType::Index, lanes, {}, width);
}

bool Expander::is_vector(const Linear& form) const {
  return std::any_of(form.terms.begin(), form.terms.end(), [](const Term& t) { return t.atom.lanes() > 1; });
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

Linear Expander::index(const UOp& u) {
  const Linear& form = linear_.of(u);
  Linear sum;
  sum.constant = form.constant;
  for (const Term& t : form.terms) add_scaled(sum, atom(t.atom), t.coefficient);
  return sum;
}

Linear Expander::atom(const UOp& u) {
  Linear form;
  if (!u.is(Op::RANGE)) return atom_node(u);
  if (auto it = threads_.find(u); it != threads_.end()) return it->second;
  if (uint64_t bit = bit_of(u)) {
    const Axis& axis = axes_[size_t(std::countr_zero(bit))];
    if (axis.lane == kWhole)
      add_atom(form, vector_axis_node(axis.extent), 1);
    else
      form.constant = axis.lane;
    return form;
  }
  add_atom(form, loop(u), 1);
  return form;
}

Linear Expander::atom_node(const UOp& u) {
  Linear form;
  bool divides = u.is(OpSet(Op::FLOORDIV, Op::FLOORMOD)) && u.src(1).is_const() && u.src(1).const_int() > 0;
  if (divides) {
    int64_t d = u.src(1).const_int();
    Linear x = index(u.src(0));
    if (u.is(Op::FLOORDIV)) {
      Division q = divide(x, d);
      if (q.remainder.terms.empty()) return q.quotient;
      UOp rest = materialise(q.remainder);
      add_atom(q.quotient, alu(Op::FLOORDIV, rest, constant(DType::Index, q.divisor, rest.lanes())), 1);
      return q.quotient;
    }
    Linear rest;
    if (std::optional<Linear> m = modulo(x, d, rest)) return *m;
    UOp r = materialise(rest);
    add_atom(form, alu(Op::FLOORMOD, r, constant(DType::Index, d, r.lanes())), 1);
    return form;
  }
  if (u.is(Op::MUL)) {
    Linear a = index(u.src(0)), b = index(u.src(1));
    if (a.is_const() || b.is_const()) {
      add_scaled(form, a.is_const() ? b : a, a.is_const() ? a.constant : b.constant);
      return form;
    }
    add_atom(form, value_op(Op::MUL, materialise(a), materialise(b)), 1);
    return form;
  }
  if (u.is(OpSet(Op::VAR, Op::SPECIAL, Op::BIND))) {
    add_atom(form, u.is(Op::BIND) ? u.src(0) : u, 1);
    return form;
  }
  if (u.is(Op::REDUCE)) {
    add_atom(form, reduction(u), 1);
    return form;
  }
  if (!u.is(ops::Elementwise)) throw InternalError("an index cannot hold " + print_line(u));
  std::vector<UOp> src;
  for (const UOp& s : u.src()) src.push_back(lower(s));
  UOp r = elementwise(u, src);
  // What folded away may be a sum again.
  if (r.op() != u.op()) return linear_.of(r);
  add_atom(form, r, 1);
  return form;
}

// Terms from the outermost loop in, the constant last: accesses that differ by a constant share everything
// else.
UOp Expander::materialise(const Linear& form) {
  boost::container::small_vector<std::pair<int, const Term*>, 8> scalars;
  boost::container::small_vector<const Term*, 4> vectors;
  for (const Term& t : form.terms)
    if (t.atom.lanes() > 1)
      vectors.push_back(&t);
    else
      scalars.emplace_back(rank(t.atom), &t);
  std::sort(scalars.begin(), scalars.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second->atom.id() < b.second->atom.id();
  });
  UOp sum;
  for (const auto& [r, t] : scalars) {
    UOp part = t->coefficient == 1 ? t->atom : t->atom * t->coefficient;
    sum = sum ? alu(Op::ADD, sum, part) : part;
  }
  if (vectors.empty()) {
    if (!sum) return index_const(form.constant);
    return form.constant ? alu(Op::ADD, sum, index_const(form.constant)) : sum;
  }
  int width = vectors[0]->atom.lanes();
  UOp unit = vector_axis_node(width), wide;
  int64_t constant_part = form.constant;
  for (const Term* t : vectors) {
    UOp part;
    if (t->atom == unit) {
      std::vector<UOp> lanes;
      for (int i = 0; i < width; ++i) lanes.push_back(index_const(constant_part + i * t->coefficient));
      constant_part = 0;
      part = make(Op::STACK, DType::Index, lanes, {}, width);
    } else {
      part = t->coefficient == 1 ? t->atom
                                 : alu(Op::MUL, t->atom, constant(DType::Index, t->coefficient, width));
    }
    wide = wide ? alu(Op::ADD, wide, part) : part;
  }
  if (constant_part != 0)
    sum = sum ? alu(Op::ADD, sum, index_const(constant_part)) : index_const(constant_part);
  return sum ? alu(Op::ADD, splat(sum, width), wide) : wide;
}

// a ? b as terms ? constant: what varies fastest on the left, the rest on the right.
UOp Expander::compare(const UOp& u) {
  Linear difference = index(u.src(0));
  add_scaled(difference, index(u.src(1)), -1);
  Bounds b = bounds(difference);
  if (u.is(Op::CMPLT)) {
    if (b.high < 0) return bool_const(true);
    if (b.low >= 0) return bool_const(false);
  } else {
    if (b.low > 0 || b.high < 0) return bool_const(u.is(Op::CMPNE));
    if (b.low == 0 && b.high == 0) return bool_const(u.is(Op::CMPEQ));
  }
  Linear left, right;
  right.constant = -difference.constant;
  bool vector = is_vector(difference);
  int sign = 1, deepest = -1;
  for (const Term& t : difference.terms) {
    if (vector != (t.atom.lanes() > 1)) {
      add_atom(right, t.atom, -t.coefficient);
      continue;
    }
    add_atom(left, t.atom, t.coefficient);
    if (int r = rank(t.atom); r > deepest) deepest = r, sign = t.coefficient < 0 ? -1 : 1;
  }
  Linear zero;
  if (sign < 0) {
    Linear negated;
    add_scaled(negated, left, -1);
    left = negated;
    negated = {};
    add_scaled(negated, right, -1);
    right = negated;
  }
  UOp l = materialise(left), r = splat(materialise(right), l.lanes());
  return sign < 0 ? alu(u.op(), r, l) : alu(u.op(), l, r);
}

// The value of `u`, which depends on a vector axis, made of one scalar per lane.
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
UOp Expander::strided_load(const UOp& storage, const Linear& where, const UOp& gate, const UOp& alt,
                           int64_t stride, int width) {
  UOp unit = vector_axis_node(width);
  int64_t step = stride < 0 ? -stride : stride, span = step * (width - 1) + 1;
  // Position of lane j counted from the lowest address.
  auto position = [&](int j) { return stride < 0 ? step * (width - 1 - j) : step * j; };
  std::vector<UOp> lanes(static_cast<size_t>(width));
  for (int64_t covered = 0; covered < span;) {
    int64_t first = std::min(covered, span - width);
    Linear at = where;
    add_atom(at, unit, -stride);
    at.constant += first + (stride < 0 ? stride * (width - 1) : 0);
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
    // The next lane that is not there yet.
    covered = span;
    for (int j = 0; j < width; ++j)
      if (!lanes[size_t(j)]) covered = std::min(covered, position(j));
  }
  UOp value = stack(lanes);
  if (!gate || alt == zero_of(storage.dtype())) return value;
  return tolk::where(gate, value, splat(alt, width));
}

UOp Expander::load_node(const UOp& u) {
  Linear where = index(u.src(1));
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
  int64_t stride = where.coefficient(unit);
  bool linear = std::none_of(where.terms.begin(), where.terms.end(),
                             [&](const Term& t) { return t.atom.lanes() > 1 && t.atom != unit; });
  if (linear && stride == 1) {
    add_atom(where, unit, -1);
    return load(storage, materialise(where), gate, gate && alt ? splat(alt, width) : UOp(), width);
  }
  if (linear && (stride == -1 || (stride >= 2 && stride <= 4)) && width >= 4)
    return strided_load(storage, where, gate, alt ? alt : zero_of(u.dtype()), stride, width);
  // Addresses that no memory decides are computed lane by lane, mostly outside of the innermost loop.
  if (linear || !u.src(1).has(kHasLoad)) return lanewise(u, axis_number);
  return load(storage, materialise(where), gate, gate && alt ? splat(alt, width) : UOp(), width);
}

} // namespace tolk::codegen
