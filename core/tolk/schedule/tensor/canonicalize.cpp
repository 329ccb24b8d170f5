#include "tolk/schedule/tensor/canonicalize.h"

#include <algorithm>
#include <set>

#include "tolk/base/error.h"
#include "tolk/schedule/tensor/split_reduce.h"
#include "tolk/schedule/tensor/views.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"
#include "tolk/uop/traverse.h"

namespace tolk::schedule {
namespace {

constexpr OpSet kShuffles(Op::RESHAPE, Op::PERMUTE, Op::FLIP, Op::EXPAND);
constexpr OpSet kSelected(Op::MSELECT, Op::MSTACK);

bool is_empty(const Shape& shape) {
  for (const SInt& d : shape)
    if (d.max() == 0) return true;
  return false;
}

// A constant of the shape.
UOp filled(const UOp& value, const Shape& shape) {
  return shape.empty() ? value : expand(reshape(value, Shape(shape.size(), SInt(1))), shape);
}

class Canonicalizer {
public:
  Canonicalizer(const UOp& body, const Options& options) : options_(options), body_(body) {}

  Canonical run() {
    std::vector<UOp> order = toposort(body_);
    // States of storage that a write of this graph supersedes.
    for (const UOp& u : order)
      if (u.is(Op::STORE))
        if (UOp state = viewed_state(u.src(0))) superseded_.insert(state);
    for (const UOp& u : order) {
      if (u == body_) break;
      devices_.set(u, find_device(u));
      done_.set(u, u.dtype() == DType::Index ? u : rewritten(u));
    }
    for (const UOp& root : body_.src()) out_.roots.push_back(at(root));
    return std::move(out_);
  }

private:
  UOp at(const UOp& u) const {
    const UOp* found = done_.find(u);
    return found ? *found : UOp();
  }

  // The device of a node of the body, from its first source that has one; null for constants.
  const std::string* find_device(const UOp& u) {
    if (u.is(OpSet(Op::BUFFER, Op::PARAM, Op::COPY))) return &device_text(u);
    if (u.is(OpSet(Op::MSELECT, Op::MSTACK))) {
      std::vector<std::string> names;
      for (const UOp& s : u.src()) {
        auto found = devices_.find(s);
        if (!found) throw InvalidArgument(describe(u) + " needs values on devices");
        names.push_back(**found);
      }
      if (u.is(Op::MSELECT)) names = {split_devices(names[0]).at(size_t(position_of(u)))};
      return &*joined_.insert(join_devices(names)).first;
    }
    for (const UOp& s : u.src())
      if (auto found = devices_.find(s)) return *found;
    return nullptr;
  }

  UOp split(const UOp& reduce) {
    auto two = split_reduction(reduce, options_);
    if (!two) return reduce;
    out_.stored.insert(two->partial);
    return two->result;
  }

  UOp rebuilt(const UOp& u) {
    bool changed = false;
    src_.clear();
    for (const UOp& s : u.src()) {
      src_.push_back(at(s));
      changed |= src_.back() != s;
    }
    if (!changed) return u;
    // The constructors merge and cancel where they can.
    if (u.is(Op::RESHAPE)) return reshape(src_[0], shape_of(u));
    if (u.is(Op::PERMUTE)) return permute(src_[0], {u.arg().ints().begin(), u.arg().ints().end()});
    return with_sources(u, src_);
  }

  UOp rewritten(const UOp& u) {
    switch (u.op()) {
    case Op::DETACH:
    case Op::CONTIGUOUS_BACKWARD:
    case Op::FUNCTION:
      return at(u.src(0));
    case Op::STORE:
      return store(u);
    default:
      break;
    }
    if (!u.is(ops::Storage | ops::Effect) && is_empty(shape_of(u)))
      return filled(zero_of(u.dtype()), shape_of(u));
    switch (u.op()) {
    case Op::AFTER:
      return after_effects(u);
    case Op::REDUCE_AXIS: {
      UOp value = at(u.src(0));
      if (is_empty(shape_of(value))) return filled(reduce_identity(reduce_op(u), u.dtype()), shape_of(u));
      return split(rebuilt(u));
    }
    case Op::GATHER:
      if (is_empty(shape_of(u.src(0))))
        return filled(zero_of(u.dtype()), shape_of(u)); // every index is outside
      return rebuilt(u);
    case Op::CONTIGUOUS:
      return materialised(u);
    case Op::COPY:
      return copied(u);
    case Op::MSELECT:
      return selected(u);
    case Op::MSTACK:
      return stacked(u);
    default:
      return rebuilt(u);
    }
  }

  // The value in memory, in its own order of elements.
  UOp materialised(const UOp& u) {
    UOp value = at(u.src(0));
    UOp storage = viewed_storage(value);
    if (!storage) {
      // A reshape keeps the order: its source's axes are the better loops.
      UOp base = value;
      while (base.is(Op::RESHAPE)) base = base.src(0);
      if (!viewed_storage(base)) out_.stored.insert(base);
      return value;
    }
    if (dense_range(value) && !superseded_.contains(viewed_state(u.src(0)))) return value;
    return contiguous(value);
  }

  UOp copied(const UOp& u) {
    UOp value = at(u.src(0));
    auto from = devices_.find(u.src(0));
    if (from && **from == device_text(u)) return value;
    if (!from || device_of(value).empty()) { // nothing to copy: computed on the destination
      UOp there = with_sources(u, std::span(&value, 1));
      out_.stored.insert(there);
      return there;
    }
    return of_stored(u, value);
  }

  // A value that needs no kernel to be read from memory as it is: dense storage, or one position's part of
  // what is stored.
  static bool in_memory(const UOp& value) { return dense_range(value, kSelected).has_value(); }

  UOp stored(UOp value) {
    if (in_memory(value)) return value;
    if (viewed_storage(value)) return contiguous(value);
    out_.stored.insert(value);
    return value;
  }

  // `u`, which does not change memory, over the value: views of the value become views of the result. On HOST
  // this holds for all views, since the host has no kernel that could cut them.
  UOp of_stored(const UOp& u, UOp value) {
    std::vector<UOp> views;
    auto from = devices_.find(u.src(0));
    OpSet moved_around = from && **from == "HOST" ? ops::Movement : kShuffles;
    while (!in_memory(value) && value.is(moved_around) && !out_.stored.contains(value)) {
      views.push_back(value);
      value = value.src(0);
    }
    value = stored(value);
    UOp moved = u.is(Op::MSELECT) && value.is(Op::MSTACK) ? value.src(size_t(position_of(u)))
                                                          : with_sources(u, std::span(&value, 1));
    if (!viewed_storage(moved)) out_.stored.insert(moved);
    while (!views.empty()) {
      src_.assign(views.back().src().begin(), views.back().src().end());
      src_[0] = moved;
      moved = with_sources(views.back(), src_);
      views.pop_back();
    }
    return moved;
  }

  UOp selected(const UOp& u) {
    UOp value = at(u.src(0));
    if (!device_of(value).empty()) return of_stored(u, value);
    // Constants, and other values that depend on the position alone, are computed where they are used.
    auto count = int64_t(split_devices(**devices_.find(u.src(0))).size());
    return substitute(value, {{device_position(count), index_const(position_of(u))}});
  }

  UOp stacked(const UOp& u) {
    std::vector<UOp> parts;
    bool equal = true;
    for (const UOp& s : u.src()) {
      UOp part = at(s);
      while (part.is(Op::RESHAPE) && !in_memory(part) && !out_.stored.contains(part)) part = part.src(0);
      if (device_of(part).empty()) part = copy_to(part, **devices_.find(s));
      parts.push_back(part);
      equal &= shape_of(part) == shape_of(parts[0]);
    }
    for (size_t i = 0; i < parts.size(); ++i)
      parts[i] = stored(equal ? parts[i] : reshape(parts[i], shape_of(u)));
    UOp joined = mstack(parts);
    out_.stored.insert(joined);
    return reshape(joined, shape_of(u));
  }

  // STORE, or null when nothing is written.
  UOp store(const UOp& u) {
    UOp target = at(u.src(0)), value = at(u.src(1));
    if (is_empty(shape_of(u.src(0))) || target == value) return {};
    if (!viewed_storage(target)) return {}; // the AFTER becomes the value, or reports the error
    check_store_target(target);
    while (target.is(Op::BITCAST)) {
      target = target.src(0);
      value = bitcast(value, target.dtype());
    }
    return store_to(target, value);
  }

  UOp after_effects(const UOp& u) {
    UOp value = at(u.src(0));
    bool in_place = bool(viewed_storage(value));
    src_.assign({value});
    for (size_t i = 1; i < u.nsrc(); ++i) {
      const UOp& effect = u.src(i);
      if (!effect.is(OpSet(Op::STORE, Op::AFTER)))
        throw InvalidArgument(std::string("an AFTER waits for STORE and AFTER, not for ") +
                              name(effect.op()));
      UOp now = at(effect);
      if (!in_place && effect.is(Op::STORE) && effect.src(0) == u.src(0) && !now) {
        // Assigning to a computed value is only another value.
        UOp assigned = at(effect.src(1));
        if (shape_of(assigned).empty()) assigned = filled(assigned, shape_of(value));
        UOp base = assigned;
        while (base.is(Op::RESHAPE)) base = base.src(0);
        if (!viewed_storage(base)) out_.stored.insert(base);
        return assigned;
      }
      if (!now && effect.is(Op::STORE) && !viewed_storage(at(effect.src(0))) &&
          !is_empty(shape_of(effect.src(0))))
        throw InvalidArgument("a store needs a view of storage as its target, found " +
                              describe(effect.src(0)) + "; realize the target first");
      if (now && now.is(OpSet(Op::STORE, Op::AFTER))) {
        src_.push_back(now);
      } else if (effect.is(Op::AFTER) && !is_empty(shape_of(effect))) {
        throw InvalidArgument(
            "a store to part of a computed value is not possible; realize the value first: " +
            describe(effect));
      }
    }
    if (src_.size() == 1) return value;
    if (!in_place)
      throw InvalidArgument("a value that waits for a store must be a view of storage, found " +
                            describe(u.src(0)));
    src_[0] = flat(value, std::span(src_).subspan(1));
    return with_sources(u, src_);
  }

  // The view without the AFTER in it, when one of the effects overwrites that state and so is ordered after it
  // anyway: this keeps chains of writes short.
  static UOp flat(const UOp& view, std::span<const UOp> effects) {
    UOp before = viewed_state(view);
    if (!before.is(Op::AFTER)) return view;
    auto overwrites = [&](const UOp& u) { return u.is(Op::STORE) && viewed_state(u.src(0)) == before; };
    auto behind = [&](const UOp& u) { return overwrites(u) || std::ranges::any_of(u.src(), overwrites); };
    if (std::ranges::none_of(effects, behind)) return view;
    std::vector<UOp> views;
    for (UOp at = view; at != before; at = UOp(at.src(0))) views.push_back(at);
    UOp out = before.src(0);
    std::vector<UOp> src;
    for (; !views.empty(); views.pop_back()) {
      const UOp& u = views.back();
      src.assign(u.src().begin(), u.src().end());
      src[0] = out;
      out = u.is(Op::RESHAPE) ? reshape(out, shape_of(u)) : with_sources(u, src);
    }
    return out;
  }

  const Options& options_;
  UOp body_;
  Canonical out_;
  Memo<UOp> done_;
  Memo<const std::string*> devices_; // by node of the body: the node's own text, or one of
  std::set<std::string> joined_;
  UOpSet superseded_;
  std::vector<UOp> src_;
};

} // namespace

Canonical canonicalize(const UOp& body, const Options& options) { return Canonicalizer(body, options).run(); }

} // namespace tolk::schedule
