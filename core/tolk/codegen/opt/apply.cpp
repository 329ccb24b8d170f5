// Applies one optimisation to a kernel, or says why it does not fit.
#include "tolk/codegen/opt/opt.h"

#include <algorithm>
#include <bit>

#include "tolk/codegen/opt/ranges.h"
#include "tolk/uop/traverse.h"

namespace tolk::codegen {
namespace {

using Reason = std::optional<std::string>;

constexpr const char* kNames[] = {"UPCAST", "UNROLL", "VECTOR", "THREAD", "LOCAL",
                                  "GROUP",  "PADTO",  "MERGE",  "SINK"};

// Limits on the size of a kernel's code.
constexpr int64_t kMaxUpcast = 256, kMaxUnroll = 256, kMaxVector = 64, kMaxTiles = 1 << 24, kMaxItems = 1024;

class Action {
public:
  Action(Schedule& s, const Opt& opt) : s_(s), opt_(opt) {}

  Reason run() {
    range_ = find_range(s_.ast, opt_.axis);
    if (!range_) return "there is no axis " + std::to_string(opt_.axis);
    extent_ = range_.src(0);
    type_ = axis_type(range_);
    switch (opt_.kind) {
    case OptKind::Upcast:
      if (type_ != AxisType::Loop) return "only an output loop can be upcast";
      return split(AxisType::Upcast, kMaxUpcast);
    case OptKind::Unroll:
      if (type_ != AxisType::Reduce) return "only a loop of a reduction can be unrolled";
      return split(AxisType::Unroll, kMaxUnroll);
    case OptKind::Vector:
      return vector();
    case OptKind::Thread:
      return thread();
    case OptKind::Local:
      return local();
    case OptKind::Group:
      return group();
    case OptKind::PadTo:
      return pad();
    case OptKind::Merge:
      return merge();
    case OptKind::Sink:
      return sink_below();
    }
    return "unknown action";
  }

private:
  UOp fresh(const UOp& extent, AxisType type) {
    s_.last_inner = s_.next_axis;
    return range_node(extent, s_.next_axis++, type);
  }
  UOp fresh(int64_t extent, AxisType type) { return fresh(index_const(extent), type); }
  // The part of a split that keeps the axis id; a single iteration is no loop.
  UOp remaining(const UOp& extent, std::vector<UOp>& list) {
    if (extent.is_const_int(1)) return index_const(0);
    list.push_back(range_node(extent, opt_.axis, type_));
    return list.back();
  }

  // Whether the END or REDUCE closes the range.
  bool closes(const UOp& u) const {
    return u.is(OpSet(Op::END, Op::REDUCE)) &&
           std::find(u.src().begin() + 1, u.src().end(), range_) != u.src().end();
  }

  // Whether all values of all reductions over the range change with it, and no extent uses it.
  bool used_by_every_value() const {
    for (const UOp& u : toposort(s_.ast)) {
      if (u.is(Op::RANGE) && u != range_ && contains(u, range_)) return false;
      if (u.is(Op::REDUCE) && closes(u) && !contains(u.src(0), range_)) return false;
    }
    return true;
  }

  Reason split(AxisType inner_type, int64_t most) {
    int64_t amount = opt_.amount;
    bool known = extent_.is_const();
    if (amount == 0) {
      if (!known) return "the extent is not known";
      amount = extent_.const_int();
    }
    if (amount < 2 || amount > most) return "the amount is not 2 to " + std::to_string(most);
    if (!used_by_every_value()) return "a value or an extent does not fit the split";
    if (known && extent_.const_int() < amount) return "the amount exceeds the extent";
    bool divides = known && extent_.const_int() % amount == 0;
    if (!divides && type_ == AxisType::Loop && known && !reads_what_it_writes(s_.ast))
      return split_overlapping(amount, inner_type);
    if (!divides && type_ != AxisType::Loop && type_ != AxisType::Reduce)
      return "the amount does not divide the unrolled extent";
    if (!divides) return split_with_remainder(amount, inner_type);
    std::vector<UOp> list;
    UOp outer = remaining(index_const(extent_.const_int() / amount), list);
    list.push_back(fresh(amount, inner_type));
    s_.ast = replace_range(s_.ast, range_, outer * amount + list.back(), list);
    return {};
  }

  // The last block begins earlier.
  Reason split_overlapping(int64_t amount, AxisType inner_type) {
    int64_t n = extent_.const_int();
    std::vector<UOp> list;
    UOp outer = remaining(index_const((n + amount - 1) / amount), list);
    list.push_back(fresh(amount, inner_type));
    UOp start = smaller(outer * amount, index_const(n - amount));
    s_.ast = replace_range(s_.ast, range_, start + list.back(), list);
    return {};
  }

  // Blocks, and a second nest or a second reduction for the remainder.
  Reason split_with_remainder(int64_t amount, AxisType inner_type) {
    UOp blocks = tolk::floordiv(extent_, index_const(amount)),
        rest = tolk::floormod(extent_, index_const(amount));
    std::vector<UOp> list, tail;
    UOp outer = remaining(blocks, list);
    list.push_back(fresh(amount, inner_type));
    UOp inner = list.back();
    int64_t inner_axis = s_.last_inner;
    UOp last = rest.is_const_int(1) ? index_const(0) : fresh(rest, type_);
    if (!last.is_const()) tail.push_back(last);
    auto in_blocks = [&](const UOp& u) { return replace_range(u, range_, outer * amount + inner, list); };
    auto remainder = [&](const UOp& u) { return replace_range(u, range_, blocks * amount + last, tail); };
    if (type_ == AxisType::Loop) {
      std::vector<UOp> effects;
      for (const UOp& e : s_.ast.src()) {
        effects.push_back(closes(e) ? in_blocks(e) : e);
        if (closes(e)) effects.push_back(remainder(e));
      }
      s_.ast = with_sources(s_.ast, effects);
    } else {
      UOpMap joined;
      for (const UOp& u : toposort(s_.ast)) {
        if (!closes(u)) continue;
        UOp now = substitute(u, joined);
        UOp main = in_blocks(now);
        joined[u] = alu(reduce_op(u), main, remainder(now));
      }
      s_.ast = substitute(s_.ast, joined);
    }
    s_.last_inner = inner_axis;
    return {};
  }

  Reason vector() {
    if (type_ == AxisType::Vector || type_ == AxisType::Thread) return "the axis is already taken";
    if (opt_.amount > kMaxVector) return "a vector has at most " + std::to_string(kMaxVector) + " lanes";
    Schedule before = s_;
    if (Reason why = split(AxisType::Vector, kMaxVector)) return why;
    if (one_vector_each()) return {};
    s_ = before;
    return "a value would depend on two vector axes";
  }

  bool one_vector_each() const {
    Memo<uint64_t> mask; // vector ranges below, one bit each
    std::vector<UOp> axes;
    for (const UOp& u : toposort(s_.ast)) {
      uint64_t bits = 0;
      for (const UOp& s : u.src())
        if (const uint64_t* m = mask.find(s)) bits |= *m;
      if (u.is(Op::RANGE) && axis_type(u) == AxisType::Vector) {
        if (axes.size() == 64) return false;
        bits |= uint64_t(1) << axes.size();
        axes.push_back(u);
      }
      if (bits & (bits - 1)) return false;
      if (u.is(Op::REDUCE) || u.is(Op::END))
        for (size_t i = 1; i < u.nsrc(); ++i)
          if (const uint64_t* m = mask.find(u.src(i))) bits &= ~*m;
      if (bits) mask.set(u, bits);
    }
    return true;
  }

  bool in_every_nest() const {
    return std::ranges::all_of(s_.ast.src(), [&](const UOp& e) { return closes(e); });
  }

  Reason local() {
    if (type_ != AxisType::Loop) return "only an output loop becomes work-items";
    if (opt_.amount < 2 || opt_.amount > kMaxItems)
      return "a group has 2 to " + std::to_string(kMaxItems) + " work-items";
    if (!in_every_nest()) return "a nest does not have the axis";
    if (!used_by_every_value()) return "a value or an extent does not fit the split";
    return split_into_items(AxisType::Local);
  }

  Reason split_into_items(AxisType inner_type) {
    if (!extent_.is_const() || extent_.const_int() % opt_.amount)
      return "the amount does not divide the extent";
    std::vector<UOp> list;
    UOp outer = remaining(index_const(extent_.const_int() / opt_.amount), list);
    list.push_back(fresh(opt_.amount, inner_type));
    s_.ast = replace_range(s_.ast, range_, outer * opt_.amount + list.back(), list);
    return {};
  }

  Reason group() {
    if (type_ != AxisType::Reduce) return "only a loop of a reduction is shared by work-items";
    if (opt_.amount < 2 || opt_.amount > kMaxItems || !std::has_single_bit(uint64_t(opt_.amount)))
      return "the amount is not a power of two, 2 to " + std::to_string(kMaxItems);
    if (!used_by_every_value()) return "a value or an extent does not fit the split";
    if (reads_what_it_writes(s_.ast)) return "the kernel reads what it writes";
    for (const UOp& u : toposort(s_.ast))
      if (u.is(Op::REDUCE) && closes(u) && bits(u.dtype()) < 32)
        return "work-group storage holds no values below 32 bits";
    return split_into_items(AxisType::GroupReduce);
  }

  Reason thread() {
    if (type_ != AxisType::Loop) return "only an output loop can be threaded";
    if (opt_.amount < 2 || opt_.amount > kMaxTiles)
      return "a launch has 2 to " + std::to_string(kMaxTiles) + " tiles";
    if (!in_every_nest()) return "a nest does not have the axis";
    std::vector<UOp> list;
    if (!extent_.is_const()) {
      UOp tile = fresh(opt_.amount, AxisType::Thread);
      UOp chunk = tolk::floordiv(extent_ + (opt_.amount - 1), index_const(opt_.amount));
      UOp left = larger(extent_ + tile * chunk * int64_t(-1), index_const(0));
      list = {tile, range_node(smaller(chunk, left), opt_.axis, AxisType::Loop)};
      s_.ast = replace_range(s_.ast, range_, tile * chunk + list[1], list);
      return {};
    }
    int64_t n = extent_.const_int(), chunk = (n + opt_.amount - 1) / opt_.amount,
            tiles = (n + chunk - 1) / chunk;
    if (tiles < 2) return "there are too few iterations";
    list.push_back(fresh(tiles, AxisType::Thread));
    UOp tile = list[0], count = index_const(chunk);
    if (n % chunk) count = smaller(count, index_const(n) + tile * -chunk);
    UOp inner = remaining(count, list);
    s_.ast = replace_range(s_.ast, range_, tile * chunk + inner, list);
    return {};
  }

  Reason pad() {
    if (type_ != AxisType::Loop && type_ != AxisType::Reduce) return "only a loop can be padded";
    if (!extent_.is_const()) return "the extent is not known";
    int64_t n = extent_.const_int();
    if (opt_.amount < 2) return "the amount is below 2";
    int64_t padded = (n + opt_.amount - 1) / opt_.amount * opt_.amount;
    if (padded == n) return "the extent is a multiple already";
    if (padded >= 4 * n) return "the axis would grow fourfold";
    if (!used_by_every_value()) return "a value or an extent does not fit the padding";
    UOp wide = range_node(padded, opt_.axis, type_), valid = less(wide, index_const(n));
    Memo<UOp> done;
    Memo<char> inside;
    std::vector<UOp> src;
    for (const UOp& u : toposort(s_.ast)) {
      if (u == range_) {
        done.set(u, wide);
        inside.set(u, 1);
        continue;
      }
      src.clear();
      bool depends = false, closes = false;
      for (size_t i = 0; i < u.nsrc(); ++i) {
        bool is_list = i > 0 && (u.is(Op::END) || u.is(Op::REDUCE));
        if (inside.find(u.src(i)) && !is_list) depends = true;
        if (is_list && u.src(i) == range_) closes = true;
        src.push_back(*done.find(u.src(i)));
      }
      if (depends && u.is(Op::LOAD)) {
        if (src.size() == 2)
          src.push_back(valid);
        else
          src[2] = logical_and(valid, src[2]);
      }
      if (depends && u.is(Op::STORE)) {
        if (src.size() == 3)
          src.push_back(valid);
        else
          src[3] = logical_and(valid, src[3]);
      }
      // Elements beyond the end must not contribute, whatever their value.
      if (closes && u.is(Op::REDUCE)) src[0] = where(valid, src[0], reduce_identity(reduce_op(u), u.dtype()));
      if (depends && !closes) inside.set(u, 1);
      done.set(u, with_sources(u, src));
    }
    s_.ast = *done.find(s_.ast);
    return {};
  }

  // Whether some END or REDUCE closes both axes, and none only one of them.
  bool always_with(const UOp& other) const {
    bool found = false;
    for (const UOp& u : toposort(s_.ast)) {
      if (!u.is(Op::END) && !u.is(Op::REDUCE)) continue;
      auto list = u.src().subspan(1);
      bool first = std::find(list.begin(), list.end(), range_) != list.end();
      bool second = std::find(list.begin(), list.end(), other) != list.end();
      if (first != second) return false;
      found |= first;
    }
    return found;
  }

  Reason merge() {
    UOp other = find_range(s_.ast, opt_.amount);
    if (!other || other == range_) return "there is no other axis " + std::to_string(opt_.amount);
    if (axis_type(other) != type_ || (type_ != AxisType::Loop && type_ != AxisType::Reduce))
      return "only loops of one kind merge";
    if (!extent_.is_const() || !other.src(0).is_const()) return "an extent is not known";
    if (!used_by_every_value() || !always_with(other))
      return "the axes are not loops of the same nests and reductions";
    UOp merged = range_node(extent_.const_int() * other.src(0).const_int(), opt_.axis, type_);
    s_.ast = merge_ranges(s_.ast, range_, other, merged, false);
    return {};
  }

  Reason sink_below() {
    UOp other = find_range(s_.ast, opt_.amount);
    if (!other || other == range_) return "there is no other axis " + std::to_string(opt_.amount);
    if (!always_with(other)) return "the axes are not loops of the same nest or reduction";
    for (const UOp& u : toposort(s_.ast))
      if (u.is(Op::RANGE) && u != range_ && contains(u, range_)) return "an extent depends on the axis";
    Memo<UOp> done;
    std::vector<UOp> src;
    for (const UOp& u : toposort(s_.ast)) {
      src.clear();
      bool moved = false;
      for (size_t i = 0; i < u.nsrc(); ++i) {
        if ((u.is(Op::END) || u.is(Op::REDUCE)) && i > 0) {
          if (u.src(i) == range_) {
            moved = true;
            continue;
          }
          src.push_back(u.src(i));
          if (u.src(i) == other) src.push_back(range_);
        } else {
          src.push_back(*done.find(u.src(i)));
        }
      }
      if (!moved && (u.is(Op::END) || u.is(Op::REDUCE))) {
        src.clear();
        for (size_t i = 0; i < u.nsrc(); ++i) src.push_back(i ? u.src(i) : *done.find(u.src(i)));
      }
      done.set(u, with_sources(u, src));
    }
    s_.ast = *done.find(s_.ast);
    return {};
  }

  Schedule& s_;
  const Opt& opt_;
  UOp range_, extent_;
  AxisType type_ = AxisType::Loop;
};

} // namespace

std::string to_string(const Opt& opt) {
  return std::string(kNames[int(opt.kind)]) + "(" + std::to_string(opt.axis) + "," +
         std::to_string(opt.amount) + ")";
}

Schedule::Schedule(const UOp& root) : ast(root), next_axis(0) {
  for (const UOp& u : toposort(root))
    if (u.is(Op::RANGE)) next_axis = std::max(next_axis, axis_of(u) + 1);
}

std::optional<std::string> apply(Schedule& schedule, const Opt& opt) {
  Schedule before = schedule;
  schedule.last_inner = -1;
  std::optional<std::string> why = Action(schedule, opt).run();
  if (why) schedule = before;
  return why;
}

} // namespace tolk::codegen
