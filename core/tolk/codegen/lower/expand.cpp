#include "tolk/codegen/lower/expand.h"

#include <algorithm>
#include <bit>

#include "tolk/base/error.h"
#include "tolk/codegen/lower/expander.h"
#include "tolk/uop/print.h"
#include "tolk/uop/traverse.h"

namespace tolk::codegen {
namespace {

bool becomes_lanes(AxisType type) {
  return type == AxisType::Upcast || type == AxisType::Unroll || type == AxisType::Vector;
}

template <typename F> void for_each_bit(uint64_t mask, F f) {
  for (; mask; mask &= mask - 1) f(std::countr_zero(mask));
}

} // namespace

Expansion expand(const UOp& sink, int independent) { return Expander(sink, independent).run(); }

Expander::Expander(const UOp& sink, int independent) : sink_(sink), independent_(independent) {
  find_axes();
  tiles_ = flatten_ranges({AxisType::Thread}, 0);
  items_ = flatten_ranges({AxisType::Local, AxisType::GroupReduce}, 256);
  find_blocks();
  rank_loops();
}

Expansion Expander::run() {
  std::vector<UOp> effects;
  for (const UOp& e : sink_.src()) effects.push_back(effect(e));
  return {with_sources(sink_, effects), tiles_, items_};
}

// One bit for each range that becomes lanes, and for every node the bits it depends on.
void Expander::find_axes() {
  std::unordered_map<UOp, uint64_t, UOpHash> bits;
  std::vector<UOp> order = toposort(sink_);
  depends_.assign(current_arena()->size(), 0);
  for (const UOp& u : order) {
    uint64_t mask = 0;
    for (const UOp& s : u.src()) mask |= depends_[s.id()];
    if (u.is(Op::RANGE) && becomes_lanes(axis_type(u))) {
      if (!u.src(0).is_const() || u.src(0).const_int() > 4096)
        throw InternalError("a range that becomes lanes needs a constant extent of at most 4096: " +
                            print_line(u));
      if (axes_.size() == 64) throw InternalError("a kernel has more than 64 unrolled ranges");
      mask = uint64_t(1) << axes_.size();
      axes_.push_back({u, int(u.src(0).const_int()), axis_type(u) == AxisType::Vector, 0});
    }
    if (u.is(Op::REDUCE) || u.is(Op::END))
      for (size_t i = 1; i < u.nsrc(); ++i)
        if (u.src(i).is(Op::RANGE) && becomes_lanes(axis_type(u.src(i)))) mask &= ~depends_[u.src(i).id()];
    depends_[u.id()] = mask;
  }
}

// All THREAD ranges together are one work-group index, all LOCAL and GROUP ranges one work-item index; the first is the
// slowest part. Returns how many values it has.
int64_t Expander::flatten_ranges(std::initializer_list<AxisType> types, uint64_t special) {
  std::vector<UOp> ranges;
  for (const UOp& u : toposort(sink_))
    if (u.is(Op::RANGE) && std::ranges::find(types, axis_type(u)) != types.end()) {
      if (!u.src(0).is_const()) throw InternalError("this range needs a constant extent: " + print_line(u));
      ranges.push_back(u);
    }
  std::sort(ranges.begin(), ranges.end(), [](const UOp& a, const UOp& b) { return axis_of(a) < axis_of(b); });
  int64_t all = 1;
  for (const UOp& r : ranges) all *= r.src(0).const_int();
  UOp number = make(Op::SPECIAL, DType::Index, {index_const(all)}, Arg(special));
  int64_t inner = all;
  for (const UOp& r : ranges) {
    inner /= r.src(0).const_int();
    launched_[r] = inner;
    if (axis_type(r) == AxisType::GroupReduce) shared_.push_back(r);
    substituted_[r] = remainder(quotient(Affine(number), inner), r.src(0).const_int());
  }
  return all;
}

// Sums are built from the outermost loop in, so that what does not change in a loop stays outside of it.
void Expander::rank_loops() {
  int next = 1;
  auto visit = [&](std::span<const UOp> ranges) {
    std::vector<UOp> loops;
    for (const UOp& r : ranges)
      if (r.is(Op::RANGE)) append_parts(r, loops);
    for (const UOp& r : loops)
      if (!loop_rank_.contains(r)) loop_rank_[r] = next++;
  };
  // Outer loops first: users before sources.
  std::vector<UOp> order = toposort(sink_);
  for (size_t i = order.size(); i-- > 0;)
    if (order[i].is(Op::END) || order[i].is(Op::REDUCE)) visit(order[i].src().subspan(1));
}

uint64_t Expander::bit_of(const UOp& range) const {
  return range.is(Op::RANGE) && becomes_lanes(axis_type(range)) ? depends_[range.id()] : 0;
}

Expander::Key Expander::key_of(const UOp& u) const {
  uint64_t lanes = 0;
  for_each_bit(depends(u), [&](int i) {
    const Axis& axis = axes_[size_t(i)];
    lanes = lanes * uint64_t(axis.extent + 1) + uint64_t(axis.lane + 1);
  });
  return {u.id(), lanes};
}

int Expander::width_of(uint64_t mask) const {
  int width = 1;
  for_each_bit(mask, [&](int i) {
    const Axis& axis = axes_[size_t(i)];
    if (!axis.vector || axis.lane != kWhole) return;
    TOLK_CHECK(width == 1, "a value depends on two vector axes");
    width = axis.extent;
  });
  return width;
}

UOp Expander::effect(const UOp& u) {
  if (u.is(Op::STORE)) {
    std::vector<UOp> out;
    stores(u, 0, out);
    return out.size() == 1 ? out[0] : sink(out);
  }
  if (!u.is(Op::END) || !u.src(0).is(Op::STORE))
    throw InternalError("a kernel's effects are END(STORE) and STORE, found " + print_line(u));
  std::vector<UOp> out, loops;
  uint64_t lanes = 0;
  for (const UOp& r : u.src().subspan(1)) {
    if (!r.is(Op::RANGE)) throw InternalError("END closes ranges only, found " + print_line(r));
    uint64_t bit = bit_of(r);
    lanes |= bit;
    if (!bit && !launched_.contains(r)) loops.push_back(loop(r));
  }
  stores(u.src(0), lanes, out);
  return end(out.size() == 1 ? out[0] : sink(out), loops);
}

// Emits a store for each assignment of lanes to the axes in `pending`.
void Expander::stores(const UOp& store, uint64_t pending, std::vector<UOp>& out) {
  pending &= depends(store);
  uint64_t vector = 0;
  for_each_bit(pending, [&](int i) { vector |= axes_[size_t(i)].vector ? uint64_t(1) << i : 0; });
  if (uint64_t plain = pending & ~vector) {
    Axis& axis = axes_[size_t(std::countr_zero(plain))];
    for (axis.lane = 0; axis.lane < axis.extent; ++axis.lane) stores(store, pending & ~(plain & -plain), out);
    axis.lane = 0;
    return;
  }
  for_each_bit(vector, [&](int i) { axes_[size_t(i)].lane = kWhole; });
  Affine where = index(store.src(1));
  int width = width_of(depends(store));
  UOp unit = width > 1 ? vector_axis_node(width) : UOp();
  bool contiguous = width > 1 && where.factor(unit) == 1;
  for (const sym::Term& t : where.terms)
    if (t.v.lanes() > 1 && t.v != unit) contiguous = false;
  if (width == 1 || contiguous) {
    UOp value = splat(lower(store.src(2)), width), gate = gate_of(store);
    if (width > 1) where.add_term(unit, -1);
    if (!gate || !gate.is_const() || gate.const_int())
      out.push_back(tolk::store(lower(store.src(0)), materialise(where), value,
                                gate && gate.is_const() ? UOp() : gate));
  } else {
    scatter(store, out);
  }
  for_each_bit(vector, [&](int i) { axes_[size_t(i)].lane = 0; });
}

// A vector that does not lie in one piece: computed whole, stored lane by lane.
void Expander::scatter(const UOp& store, std::vector<UOp>& out) {
  uint64_t vector = 0;
  for_each_bit(depends(store), [&](int i) {
    if (axes_[size_t(i)].vector && axes_[size_t(i)].lane == kWhole) vector |= uint64_t(1) << i;
  });
  Axis& axis = axes_[size_t(std::countr_zero(vector))];
  UOp value = lower(store.src(2));
  for (axis.lane = 0; axis.lane < axis.extent; ++axis.lane) {
    UOp gate = gate_of(store);
    if (gate && gate.is_const() && !gate.const_int()) continue;
    out.push_back(tolk::store(lower(store.src(0)), lower(store.src(1)), extract(value, axis.lane),
                              gate && gate.is_const() ? UOp() : gate));
  }
  axis.lane = kWhole;
}

namespace {

bool is_leaf(const UOp& u) { return u.is(OpSet(Op::CONST, Op::PARAM, Op::VAR)); }

// Lowered from its lowered sources alone.
bool is_plain(const UOp& u) {
  return u.is(ops::Elementwise) && u.dtype() != DType::Index &&
         !(u.is(ops::Compare) && u.src(0).dtype() == DType::Index);
}

} // namespace

// Lowers the sources of plain nodes first, on a stack of its own: an expression may be deeper than the thread's stack.
UOp Expander::lower(const UOp& u) {
  if (is_leaf(u)) return u;
  if (auto it = memo_.find(key_of(u)); it != memo_.end()) return it->second;
  for (std::vector<UOp> open{u};;) {
    UOp top = open.back();
    size_t known = open.size();
    if (is_plain(top))
      for (const UOp& s : top.src())
        if (!is_leaf(s) && !memo_.contains(key_of(s))) open.push_back(s);
    if (open.size() > known) continue;
    open.pop_back();
    Key key = key_of(top);
    if (!memo_.contains(key)) {
      UOp lowered = compute(top); // changes memo_
      memo_.emplace(key, lowered);
    }
    if (open.empty()) return memo_.at(key);
  }
}

UOp Expander::compute(const UOp& u) {
  if (u.is(Op::LOAD)) return load_node(u);
  if (u.is(Op::REDUCE)) return reduction(u);
  if (u.dtype() == DType::Index) return materialise(index(u));
  if (u.is(ops::Compare) && u.src(0).dtype() == DType::Index) return compare(u);
  if (!is_plain(u)) throw InternalError("a kernel cannot hold " + print_line(u));
  std::vector<UOp> src;
  src.reserve(u.nsrc());
  for (const UOp& s : u.src()) src.push_back(lower(s));
  return elementwise(u, src);
}

// The value for each assignment of lanes to the axes.
std::vector<UOp> Expander::unrolled(const UOp& value, uint64_t axes) {
  std::vector<UOp> out;
  axes &= depends(value);
  if (!axes) {
    out.push_back(lower(value));
    return out;
  }
  Axis& axis = axes_[size_t(std::countr_zero(axes))];
  for (axis.lane = 0; axis.lane < axis.extent; ++axis.lane) {
    std::vector<UOp> part = unrolled(value, axes & (axes - 1));
    out.insert(out.end(), part.begin(), part.end());
  }
  axis.lane = 0;
  return out;
}

// Values of a reduction in one iteration of its loops.
size_t Expander::unrolled_count(const UOp& reduce) const {
  size_t count = 1;
  for (const UOp& r : reduce.src().subspan(1))
    if (uint64_t bit = bit_of(r); bit & depends(reduce.src(0)))
      if (axis_type(r) != AxisType::Vector) count *= size_t(r.src(0).const_int());
  return count;
}

// Accumulators of a reduction in each lane of its result.
size_t Expander::chain_count(const UOp& reduce, size_t values) const {
  int64_t results = 1;
  for_each_bit(depends(reduce), [&](int i) {
    if (!axes_[size_t(i)].vector) results *= axes_[size_t(i)].extent;
  });
  auto least = (int64_t(values) - 1) / max_sequential_terms(reduce) + 1;
  return size_t(std::clamp<int64_t>(std::max<int64_t>(independent_ / results, least), 1, int64_t(values)));
}

UOp Expander::reduction(const UOp& u) {
  Op op = reduce_op(u);
  std::vector<UOp> whole, shared; // loops, where there are no levels; ranges of work-items
  uint64_t plain = 0, vector = 0;
  int64_t repeats = 1; // iterations of ranges that the value turned out not to depend on
  for (const UOp& r : u.src().subspan(1)) {
    if (!r.is(Op::RANGE)) throw InternalError("REDUCE closes ranges only, found " + print_line(r));
    uint64_t bit = bit_of(r);
    if (launched_.contains(r))
      shared.push_back(r);
    else if (!bit)
      append_parts(r, whole);
    else if (!(depends(u.src(0)) & bit))
      repeats *= r.src(0).const_int();
    else
      (axis_type(r) == AxisType::Vector ? vector : plain) |= bit;
  }
  TOLK_CHECK(repeats == 1 || op == Op::MAX, "a reduction over a range that its value does not depend on");
  for_each_bit(vector, [&](int i) { axes_[size_t(i)].lane = kWhole; });
  std::vector<UOp> values = unrolled(u.src(0), plain);
  int width = width_of(depends(u.src(0)));
  for_each_bit(vector, [&](int i) { axes_[size_t(i)].lane = 0; });
  // A vector of the reduced axis keeps its lanes as accumulators; they are folded once, after the loops.
  for (UOp& v : values) v = splat(v, width);
  std::vector<std::vector<UOp>> levels; // innermost first, in lowered form
  if (auto it = levels_.find(u); it != levels_.end())
    levels = it->second;
  else if (!whole.empty())
    levels.push_back(whole);
  for (std::vector<UOp>& level : levels) {
    std::vector<UOp> loops;
    for (const UOp& r : level) append_parts(r, loops);
    for (UOp& r : loops) r = loop(r);
    level = std::move(loops);
  }
  size_t count = chain_count(u, values.size());
  std::vector<UOp> partial;
  for (size_t k = 0; k < count; ++k) {
    std::vector<UOp> mine;
    for (size_t i = k; i < values.size(); i += count) mine.push_back(values[i]);
    if (levels.empty() && mine.size() > 1) mine = {accumulation(op, mine, {})};
    for (const std::vector<UOp>& level : levels) mine = {accumulation(op, mine, level)};
    partial.push_back(mine[0]);
  }
  UOp result = fold_values(op, std::move(partial));
  if (vector) result = fold_lanes(op, result);
  for (const UOp& range : shared) result = fold_items(op, result, range);
  return result;
}

} // namespace tolk::codegen
