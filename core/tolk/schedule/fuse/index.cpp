#include "tolk/schedule/fuse/index.h"

#include <algorithm>

#include "tolk/base/check.h"
#include "tolk/uop/arena.h"
#include "tolk/uop/build.h"
#include "tolk/uop/symbolic/symbolic.h"

namespace tolk::schedule {

namespace {
constexpr uint64_t kKnown = uint64_t(1) << 63;

uint64_t id_of(const UOp& u) { return u ? u.id() + 1 : 0; }

bool is_true(const UOp& gate) { return !gate || (gate.is_const() && gate.const_int() != 0); }
bool is_false(const UOp& gate) { return gate && gate.is_const() && gate.const_int() == 0; }

UOp times(const UOp& e, const SInt& factor) { return e * factor.uop(); }
} // namespace

size_t IndexSpace::MoveHash::operator()(const MoveKey& key) const {
  uint64_t h = key.movement->id * 0x9E3779B97F4A7C15ull + uint64_t(key.tuple) * 0xD6E8FEB86659FD93ull;
  return size_t(h ^ (h >> 29) ^ (key.gate ? key.gate->id * 0xC2B2AE3D27D4EB4Full : 0));
}

TupleId IndexSpace::intern(std::vector<UOp> indices) {
  uint64_t h = indices.size();
  for (const UOp& e : indices) h = (h ^ e.id()) * 0x9E3779B97F4A7C15ull + (h >> 31);
  auto [begin, end] = by_hash_.equal_range(h);
  for (auto it = begin; it != end; ++it)
    if (tuples_[size_t(it->second)] == indices) return it->second;
  auto id = TupleId(tuples_.size());
  uint64_t loops = 0;
  for (const UOp& e : indices) loops |= loops_in(e);
  tuples_.push_back(std::move(indices));
  tuple_loops_.push_back(loops);
  by_hash_.emplace(h, id);
  return id;
}

uint64_t IndexSpace::loops_in(TupleId id) { return tuple_loops_[size_t(id)]; }

void IndexSpace::set_loops(const UOp& leaf, uint64_t loops) {
  if (leaf.id() >= loops_.size()) loops_.resize(leaf.id() + 1 + leaf.id() / 2, 0);
  loops_[leaf.id()] = loops | kKnown;
}

uint64_t IndexSpace::loops_in(const UOp& e) {
  if (!e.has(kHasRange) && !e.has(kHasVar)) return 0;
  if (e.id() < loops_.size() && loops_[e.id()]) return loops_[e.id()] & ~kKnown;
  if (Arena* arena = current_arena(); loops_.size() < arena->size())
    loops_.resize(arena->size() + arena->size() / 2, 0);
  std::vector<std::pair<const UOp*, bool>> stack{{&e, false}};
  while (!stack.empty()) {
    auto [u, expanded] = stack.back();
    stack.pop_back();
    if (loops_[u->id()]) continue;
    if (u->is(Op::RANGE)) {
      loops_[u->id()] = uint64_t(1) << axis_of(*u) | kKnown;
    } else if (!u->has(kHasRange) && !u->has(kHasVar)) {
      loops_[u->id()] = kKnown;
    } else if (!expanded) {
      stack.emplace_back(u, true);
      for (const UOp& s : u->src()) stack.emplace_back(&s, false);
    } else {
      uint64_t loops = kKnown;
      for (const UOp& s : u->src()) loops |= loops_[s.id()];
      if (u->is(Op::REDUCE)) // closed here
        for (size_t i = 1; i < u->nsrc(); ++i) loops &= ~(uint64_t(1) << axis_of(u->src(i)));
      loops_[u->id()] = loops;
    }
  }
  return loops_[e.id()] & ~kKnown;
}

UOp IndexSpace::simplified(const UOp& e, const UOp& gate) {
  if (e.is(OpSet(Op::CONST, Op::RANGE))) return e;
  if (!gate) return simplify(e);
  UOp& known = simplified_[{id_of(e), id_of(gate)}];
  if (!known) known = simplify_under(e, gate);
  return known;
}

UOp IndexSpace::both(const UOp& a, const UOp& b) {
  if (is_true(a) || a == b) return is_true(b) ? UOp() : b;
  if (is_true(b)) return a;
  UOp joined = simplify_gate(logical_and(a, b));
  return is_true(joined) ? UOp() : joined;
}

UOp IndexSpace::flat(const Shape& shape, std::span<const UOp> indices, const UOp& gate) {
  UOp position;
  SInt stride = 1;
  std::vector<UOp> terms;
  for (size_t i = shape.size(); i-- > 0;) {
    if (!indices[i].is_const_int(0)) terms.push_back(times(indices[i], stride));
    stride = stride * shape[i];
  }
  for (size_t i = terms.size(); i-- > 0;) position = position ? position + terms[i] : terms[i];
  return position ? simplified(position, gate) : index_const(0);
}

// Runs of axes with equal products on both sides are treated alone, so that an axis that survives keeps its
// index and divisions arise only where sizes really split differently.
std::vector<UOp> IndexSpace::reshaped(const Shape& from, const Shape& to, std::span<const UOp> at,
                                      const UOp& gate) {
  std::vector<UOp> out(from.size(), index_const(0));
  size_t i = 0, j = 0; // axes of `to`, `from`
  auto skip_ones = [](const Shape& shape, size_t& k) {
    while (k < shape.size() && shape[k] == 1) ++k;
  };
  while (true) {
    skip_ones(to, i), skip_ones(from, j);
    if (i >= to.size() || j >= from.size()) break;
    size_t i0 = i, j0 = j;
    if (to[i] == from[j]) {
      out[j] = at[i];
      ++i, ++j;
      continue;
    }
    bool whole = !to[i].is_const() || !from[j].is_const();
    if (!whole) {
      __int128 a = to[i++].value(), b = from[j++].value();
      while (a != b) {
        SInt next = 1;
        if (a < b)
          next = i < to.size() ? to[i++] : SInt(0);
        else
          next = j < from.size() ? from[j++] : SInt(0);
        if (!next.is_const() || next == 0) {
          whole = true;
          break;
        }
        (a < b ? a : b) *= next.value();
      }
    }
    if (whole) i = to.size(), j = from.size(); // symbolic sizes: everything that is left is one run
    // One position over to[i0, i), taken apart over from[j0, j).
    Shape run_to(to.begin() + std::ptrdiff_t(i0), to.begin() + std::ptrdiff_t(i));
    UOp position = flat(run_to, at.subspan(i0, i - i0), gate);
    size_t first = j0;
    for (size_t k = j; k-- > first;) {
      if (from[k] == 1) continue;
      bool last = true;
      for (size_t m = first; m < k; ++m) last &= from[m] == 1;
      if (last) {
        out[k] = position;
        break;
      }
      UOp size = from[k].uop();
      out[k] = simplified(floormod(position, size), gate);
      position = simplified(floordiv(position, size), gate);
    }
  }
  return out;
}

const IndexSpace::Moved& IndexSpace::through(const UOp& movement, TupleId tuple, const UOp& gate) {
  MoveKey key{movement.node(), tuple, gate.node()};
  if (auto it = moved_.find(key); it != moved_.end()) return it->second;
  return moved_.emplace(key, move(movement, tuple, gate)).first->second;
}

IndexSpace::Moved IndexSpace::move(const UOp& u, TupleId id, const UOp& gate) {
  std::span<const UOp> at = tuple(id);
  const Shape& from = shape_of(u.src(0));
  size_t rank = from.size();
  Moved out;
  out.gate = gate;
  std::vector<UOp> to;
  switch (u.op()) {
  case Op::RESHAPE:
    to = reshaped(from, shape_of(u), at, gate);
    break;
  case Op::PERMUTE:
    to.resize(rank);
    for (size_t i = 0; i < rank; ++i) to[size_t(u.arg().i(i))] = at[i];
    break;
  case Op::EXPAND:
    for (size_t i = 0; i < rank; ++i) to.push_back(from[i] == 1 ? index_const(0) : at[i]);
    break;
  case Op::SHRINK:
    for (size_t i = 0; i < rank; ++i) to.push_back(simplified(at[i] + u.src(1 + i), gate));
    break;
  case Op::FLIP:
    for (size_t i = 0; i < rank; ++i)
      to.push_back(u.arg().word >> i & 1 ? simplified(from[i].uop() - index_const(1) - at[i], gate) : at[i]);
    break;
  case Op::WINDOW: {
    auto axis = size_t(u.arg().i(0));
    for (size_t i = 0; i < rank; ++i) {
      UOp e = at[i <= axis ? i : i + 1];
      to.push_back(i == axis ? simplified(e * u.arg().i(1) + at[i + 1] * u.arg().i(2), gate) : e);
    }
    break;
  }
  case Op::PAD: {
    const Shape& padded = shape_of(u);
    UOp guard;
    for (size_t i = 0; i < rank; ++i) {
      const UOp& before = u.src(1 + i);
      const UOp& after = u.src(1 + rank + i);
      to.push_back(at[i]);
      if (padded[i] == from[i]) continue;
      if (!before.is_const_int(0)) guard = logical_and(guard, less(before + int64_t(-1), at[i]));
      if (!after.is_const_int(0)) guard = logical_and(guard, less(at[i], before + from[i].uop()));
      to.back() = at[i] - before;
    }
    if (guard) guard = simplified(guard, gate);
    if (is_false(guard)) {
      out.never = true;
      return out;
    }
    if (!is_true(guard)) {
      out.guard = simplify_gate(guard);
      out.gate = both(gate, guard);
      out.never = is_false(out.gate);
      if (out.never) return out;
    }
    for (UOp& e : to) e = simplified(e, out.gate);
    break;
  }
  default:
    TOLK_UNREACHABLE("a movement op without an index rule");
  }
  out.tuple = intern(std::move(to));
  return out;
}

} // namespace tolk::schedule
