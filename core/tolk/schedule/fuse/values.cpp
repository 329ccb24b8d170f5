#include "tolk/schedule/fuse/values.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "tolk/base/check.h"
#include "tolk/uop/build.h"
#include "tolk/uop/symbolic/symbolic.h"

namespace tolk::schedule {
namespace {

// Whether the value is zero wherever the loads in it are gated off. Every load below a guard carries it in
// its gate.
bool vanishes_with_its_gate(const UOp& value) {
  const UOp* at = &value;
  while (at->is(Op::CAST)) at = &at->src(0);
  return at->is(Op::LOAD) && at->nsrc() >= 3;
}

UOp guarded(const UOp& guard, const UOp& value) {
  if (!guard || vanishes_with_its_gate(value)) return value;
  return where(guard, value, zero_of(value.dtype()));
}

} // namespace

Values::Values(const Graph& graph, const Fusion& fusion, IndexSpace& index, const std::vector<UOp>& storage)
    : graph_(graph), fusion_(fusion), index_(index), storage_(storage) {
  values_.resize(graph.nodes.size());
  own_.resize(fusion.own.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const FusedNode& fused = fusion.nodes[n];
    if (fused.own >= 0) own_[size_t(fused.own)] = evaluated(int(n), fusion.own[size_t(fused.own)]);
    values_[n].reserve(fused.uses.size());
    for (const Use& use : fused.uses)
      values_[n].push_back(fused.stored || graph.nodes[n].kind == Kind::Storage ? read(int(n), use)
                                                                                : evaluated(int(n), use));
  }
  if (!fusion.placeholders.empty()) bind_placeholders();
}

UOp Values::read(int n, const Use& use) const {
  const Node& node = graph_.nodes[size_t(n)];
  const UOp& storage = node.kind == Kind::Storage ? node.u : storage_[size_t(n)];
  return load(storage, index_.flat(shape_of(node.u), index_.tuple(use.tuple), use.gate), use.gate);
}

UOp Values::evaluated(int n, const Use& use) {
  const Node& node = graph_.nodes[size_t(n)];
  std::span<const int> sources = graph_.sources_of(n);
  auto value = [&](size_t i) -> const UOp& {
    return values_[size_t(sources[i])][size_t(fusion_.links[size_t(use.links) + i])];
  };
  switch (node.kind) {
  case Kind::Constant:
    return node.u;
  case Kind::Iota:
    return cast(index_.tuple(use.tuple)[0], node.u.dtype());
  case Kind::Elementwise: {
    std::vector<UOp> src;
    size_t next = 0;
    for (const UOp& s : node.u.src()) src.push_back(s.dtype() == DType::Index ? s : value(next++));
    return with_sources(node.u, src);
  }
  case Kind::Movement:
    return use.never ? zero_of(node.u.dtype()) : guarded(use.guard, value(0));
  case Kind::Gather:
    return guarded(use.guard, value(0));
  case Kind::Reduce:
    return reduced(n, use, value(0));
  case Kind::After:
  case Kind::Contiguous:
    return value(0);
  case Kind::Store:
    return value(1);
  case Kind::Copy:
  case Kind::Select:
  case Kind::Stack:
  case Kind::Storage:
    break;
  }
  TOLK_UNREACHABLE("storage is read, not evaluated");
}

UOp Values::reduced(int n, const Use& use, UOp value) {
  const UOp& u = graph_.nodes[size_t(n)].u;
  const auto& loops = fusion_.kernels[size_t(use.kernel)].loops;
  uint64_t varies = index_.loops_in(value);
  Op op = reduce_op(u);
  std::vector<UOp> kept;
  UOp repeats;
  for (int i = use.first_loop; i < use.first_loop + use.loop_count; ++i) {
    const UOp& loop = loops[size_t(i)];
    bool constant_along = !(varies >> axis_of(loop) & 1);
    // The same term repeated: integers are exact, and so is a maximum.
    if (constant_along && op == Op::MAX) continue;
    if (constant_along && op == Op::ADD && is_int(u.dtype())) {
      repeats = repeats ? repeats * loop.src(0) : loop.src(0);
      continue;
    }
    kept.push_back(loop);
  }
  if (!kept.empty()) value = reduce(op, value, kept);
  if (repeats)
    value =
        value * (repeats.is_const() ? constant(u.dtype(), repeats.const_int()) : cast(repeats, u.dtype()));
  return value;
}

// Replaces placeholders by the expressions of the indices. An index may itself be gathered, and be read where
// another gather is open, so each is replaced after those that its expression contains.
void Values::bind_placeholders() {
  const std::vector<IndexPlaceholder>& placeholders = fusion_.placeholders;
  std::unordered_map<const UOpNode*, size_t> placeholder_of;
  for (size_t i = 0; i < placeholders.size(); ++i)
    placeholder_of[placeholders[i].index.node()] = i, placeholder_of[placeholders[i].inside.node()] = i;
  std::unordered_map<const UOpNode*, UOp> known;
  Rebuilder seen, rebuilder;
  rebuilder.start();
  auto fill = [&](const UOp& u) -> UOp {
    if (!u.has(kHasVar)) return u;
    if (!u.is(Op::VAR)) return {};
    auto it = known.find(u.node());
    return it == known.end() ? u : it->second; // a variable of the program
  };
  // Positions that turn out to be always inside, or never, leave no gate.
  auto settle = [](UOp u) -> UOp {
    if (u.is(Op::LOAD) && u.nsrc() > 2) {
      UOp gate = simplify(u.src(2));
      if (gate.is_const() && gate.const_int() == 0) return zero_of(u.dtype());
      return load(u.src(0), u.src(1), gate);
    }
    if (u.is(Op::WHERE)) {
      UOp condition = simplify(u.src(0));
      if (condition.is_const()) return u.src(condition.const_int() ? 1 : 2);
      return where(condition, u.src(1), u.src(2));
    }
    return u;
  };
  std::vector<size_t> stack;
  for (size_t i = placeholders.size(); i-- > 0;) stack.push_back(i);
  while (!stack.empty()) {
    size_t at = stack.back();
    const IndexPlaceholder& placeholder = placeholders[at];
    const UOp& raw = values_[size_t(placeholder.node)][size_t(placeholder.use)];
    if (known.contains(placeholder.index.node())) {
      stack.pop_back();
      continue;
    }
    size_t waiting = stack.size();
    if (raw.has(kHasVar)) {
      seen.start();
      seen.run(raw, [&](const UOp& u) -> UOp {
        if (!u.has(kHasVar)) return u;
        if (u.is(Op::VAR))
          if (auto it = placeholder_of.find(u.node());
              it != placeholder_of.end() && !known.contains(u.node()))
            stack.push_back(it->second);
        return {};
      });
    }
    if (stack.size() != waiting) continue;
    UOp index = cast(rebuilder.run(raw, fill, settle), DType::Index);
    bool negative = !is_unsigned(raw.dtype()) && index.vmin() < 0;
    if (negative) index = where(less(index, index_const(0)), index + placeholder.size, index);
    UOp inside = less(index, placeholder.size);
    if (negative) inside = logical_and(less(index_const(-1), index), inside);
    known[placeholder.index.node()] = index;
    known[placeholder.inside.node()] = simplify(inside);
    stack.pop_back();
  }
  for (UOp& value : own_)
    if (value && value.has(kHasVar)) value = rebuilder.run(value, fill, settle);
}

std::vector<Values::Cut> Values::cuts_for_buffers(const std::vector<bool>& kernels, size_t limit) const {
  std::vector<Cut> cuts;
  // Storage below every use of the kernels, sources first; when a node exceeds the limit its sources are cut
  // and count one each from there on.
  std::map<std::pair<int, int>, std::vector<uint64_t>> below;
  auto handle = [&](int n, int use_number, const Use& use) {
    std::vector<uint64_t>& mine = below[{n, use_number}];
    const Node& node = graph_.nodes[size_t(n)];
    if (use_number >= 0 && (node.kind == Kind::Storage || fusion_.nodes[size_t(n)].stored)) {
      mine.push_back(uint64_t(n));
      return;
    }
    if (use.links < 0) return;
    auto collect = [&] {
      mine.clear();
      std::span<const int> sources = graph_.sources_of(n);
      size_t count = node.kind == Kind::After || node.kind == Kind::Movement ? 1 : sources.size();
      for (size_t i = 0; i < count && !use.never; ++i) {
        int link = fusion_.links[size_t(use.links) + i];
        if (link < 0) continue;
        const auto& other = below[{sources[i], link}];
        mine.insert(mine.end(), other.begin(), other.end());
      }
      std::sort(mine.begin(), mine.end());
      mine.erase(std::unique(mine.begin(), mine.end()), mine.end());
    };
    collect();
    if (mine.size() <= limit || !(node.kind == Kind::Elementwise || node.kind == Kind::Gather)) return;
    std::span<const int> sources = graph_.sources_of(n);
    for (size_t i = 0; i < sources.size(); ++i) {
      auto& other = below[{sources[i], fusion_.links[size_t(use.links) + i]}];
      if (other.size() < 2) continue;
      int cut = sources[i];
      while (graph_.nodes[size_t(cut)].kind == Kind::Movement) cut = graph_.sources_of(cut)[0];
      cuts.push_back({use.kernel, cut});
      other.assign(1, uint64_t(cut));
    }
    collect();
  };
  for (size_t n = 0; n < graph_.nodes.size(); ++n) {
    const FusedNode& fused = fusion_.nodes[n];
    for (size_t i = 0; i < fused.uses.size(); ++i)
      if (kernels[size_t(fused.uses[i].kernel)]) handle(int(n), int(i), fused.uses[i]);
    if (fused.own >= 0 && kernels[size_t(fused.kernel)]) handle(int(n), -1, fusion_.own[size_t(fused.own)]);
  }
  return cuts;
}

} // namespace tolk::schedule
