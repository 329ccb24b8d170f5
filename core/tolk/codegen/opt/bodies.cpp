#include "tolk/codegen/opt/bodies.h"

#include <algorithm>

#include "tolk/codegen/opt/ranges.h"
#include "tolk/uop/symbolic/affine.h"
#include "tolk/uop/traverse.h"

namespace tolk::codegen {
namespace {

class Analysis {
public:
  explicit Analysis(const UOp& end) {
    nest_.end = end;
    if (end.is(Op::END))
      for (const UOp& r : end.src().subspan(1)) add_loop(r);
    nest_.output = LoopSet::below(nest_.loops.size());
    std::vector<UOp> order = toposort(end);
    for (const UOp& u : order)
      if (u.is(Op::REDUCE))
        for (const UOp& r : u.src().subspan(1)) add_loop(r);
    for (const UOp& u : order) find_mask(u);
    const UOp& store = end.is(Op::END) ? end.src(0) : end;
    for (const UOp& u : order)
      if (u.is(Op::REDUCE)) reduction(u);
    root(store);
    auto work = [](const Body& b) { return b.trips * (b.operations + 1); };
    auto place = [](const Body& b) { return b.reduce ? b.reduce.id() : UINT64_MAX; };
    std::sort(nest_.bodies.begin(), nest_.bodies.end(), [&](const Body& a, const Body& b) {
      return work(a) != work(b) ? work(a) > work(b) : place(a) < place(b);
    });
  }
  Nest nest() { return std::move(nest_); }

private:
  void add_loop(const UOp& r) {
    if (std::find(nest_.loops.begin(), nest_.loops.end(), r) != nest_.loops.end()) return;
    nest_.loops.push_back(r);
    nest_.extents.push_back(std::max<int64_t>(1, r.src(0).vmax()));
  }

  void find_mask(const UOp& u) {
    LoopSet m;
    for (const UOp& s : u.src()) m |= mask(s);
    if (u.is(Op::RANGE)) m |= nest_.set_of(u);
    if (u.is(Op::REDUCE))
      for (const UOp& r : u.src().subspan(1)) m -= nest_.set_of(r);
    if (m) masks_.set(u, m);
  }
  LoopSet mask(const UOp& u) const {
    const LoopSet* m = masks_.find(u);
    return m ? *m : LoopSet();
  }

  Access access(const UOp& storage, const UOp& index, const UOp& gate) {
    Access a;
    a.bytes = std::max(1, bits(storage.dtype()) / 8);
    a.elements = double(elements_of(storage));
    a.address = mask(index);
    a.gate = gate ? mask(gate) : LoopSet();
    a.loops = a.address | a.gate;
    a.stride.assign(nest_.loops.size(), 0);
    for (const sym::Term& t : sym::Affine::of(index).terms) {
      if (LoopSet loop = nest_.set_of(t.v))
        a.stride[loop.number()] += t.f;
      else
        a.irregular |= mask(t.v);
    }
    return a;
  }

  double trips(LoopSet loops) const {
    double n = 1;
    for (LoopSet loop : loops) n *= double(nest_.extent(loop));
    return n;
  }

  // Loads and arithmetic of a value, without what lies in reductions below it and what does not change in
  // `moving`.
  void collect(Body& body, const UOp& value, LoopSet moving) {
    // The cost of loads includes their addresses and masks, unless these are loaded themselves.
    auto enter = [](const UOp& n) {
      return !n.is(Op::REDUCE) && !(n.is(Op::LOAD) && !n.src(1).has(kHasLoad));
    };
    for (const UOp& u : toposort(value, enter)) {
      if (u.is(Op::REDUCE) || u.dtype() == DType::Index || u.is(ops::Storage)) continue;
      if (u.is(Op::LOAD)) {
        if (mask(u) & moving)
          body.loads.push_back(access(u.src(0), u.src(1), u.nsrc() > 2 ? u.src(2) : UOp()));
        body.widest = std::max(body.widest, bits(u.dtype()) / 8);
      } else if (u.is(ops::Elementwise) && (mask(u) & moving)) {
        body.operations += op_info(u.op()).cost;
        body.widest = std::max(body.widest, bits(u.dtype()) / 8);
      }
    }
  }

  void reduction(const UOp& u) {
    Body body;
    body.reduce = u;
    for (const UOp& r : u.src().subspan(1)) body.inner |= nest_.set_of(r);
    body.outer = mask(u) & nest_.output;
    body.trips = trips(mask(u) | body.inner);
    const UOp& value = u.src(0);
    body.multiplies_adds = u.arg().word == uint64_t(Op::ADD) << 56 && value.is(Op::MUL);
    collect(body, value, body.inner);
    if (!body.multiplies_adds) body.operations += 1;
    nest_.bodies.push_back(std::move(body));
  }

  void root(const UOp& store) {
    Body body;
    body.inner = nest_.output;
    body.trips = trips(nest_.output);
    collect(body, store.src(2), nest_.output);
    body.store = access(store.src(0), store.src(1), store.nsrc() > 3 ? store.src(3) : UOp());
    body.widest = std::max(body.widest, bits(store.src(2).dtype()) / 8);
    nest_.bodies.push_back(std::move(body));
  }

  Nest nest_;
  Memo<LoopSet> masks_;
};

} // namespace

LoopSet Nest::set_of(const UOp& range) const {
  auto it = std::find(loops.begin(), loops.end(), range);
  return it == loops.end() ? LoopSet() : LoopSet::one(size_t(it - loops.begin()));
}

std::vector<Nest> nests_of(const UOp& ast) {
  std::vector<Nest> out;
  for (const UOp& effect : ast.src()) {
    if (all_ranges(effect).size() > LoopSet::kMaxLoops) continue;
    out.push_back(Analysis(effect).nest());
  }
  return out;
}

} // namespace tolk::codegen
