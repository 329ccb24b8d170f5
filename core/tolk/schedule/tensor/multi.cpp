#include "tolk/schedule/tensor/multi.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "tolk/base/error.h"
#include "tolk/schedule/tensor/allreduce.h"
#include "tolk/schedule/tensor/placement.h"
#include "tolk/schedule/tensor/shard.h"
#include "tolk/schedule/tensor/views.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"
#include "tolk/uop/traverse.h"

namespace tolk::schedule {
namespace {

using Devices = std::vector<std::string>;

// The lowered form of a node: the value at one position, and where it is.
struct Value {
  UOp u;
  Sharding sharding;
  const Devices* devices = nullptr; // null: any
  explicit operator bool() const { return bool(u); }
  bool on_several() const { return devices && devices->size() > 1; }
};

SInt begin_of(const UOp& shrink, size_t axis) { return SInt(shrink.src(1 + axis)); }
SInt size_of(const UOp& shrink, size_t axis) { return SInt(shrink.src(1 + (shrink.nsrc() - 1) / 2 + axis)); }

Shape of_position(Shape shape, const Sharding& sharding) {
  auto axis = size_t(sharding.axis);
  shape[axis] = floordiv(shape[axis], SInt(sharding.count));
  return shape;
}

// What an argument on several devices is at one position.
UOp storage_at(const UOp& argument, size_t position) {
  if (argument.is(Op::MSTACK)) return argument.src(position);
  if (!argument.is(Op::SLICE)) return mselect(argument, int64_t(position));
  UOp source = storage_at(argument.src(0), position);
  return with_sources(argument, std::span(&source, 1));
}

class MultiPass {
public:
  explicit MultiPass(const Options& options) : options_(options) {}

  PerPosition run(const UOp& body) {
    std::vector<UOp> roots;
    PerPosition out;
    for (const UOp& u : toposort(body)) {
      if (u == body) break;
      done_.set(u, u.dtype() == DType::Index ? Value{u, {}, nullptr} : rewritten(u));
    }
    for (const UOp& root : body.src()) {
      roots.push_back(at(root).u);
      out.shardings.push_back(at(root).sharding);
      out.devices.push_back(at(root).devices ? join_devices(*at(root).devices) : "");
    }
    out.body = sink(roots);
    return out;
  }

private:
  const Value& at(const UOp& u) const { return *done_.find(u); }

  const Devices* named(const std::string& text) {
    return &tuples_.emplace(text, split_devices(text)).first->second;
  }

  Value rewritten(const UOp& u) {
    switch (u.op()) {
    case Op::BUFFER:
    case Op::PARAM:
      return {u, {}, named(device_text(u))};
    case Op::MULTI:
      return parts(u);
    case Op::MSELECT:
      return one_position(u);
    case Op::MSTACK:
      return stacked(u);
    case Op::ALLREDUCE:
      return combined(u);
    case Op::COPY:
      return copied(u);
    case Op::STORE:
      return {store(u), {}, nullptr};
    case Op::AFTER:
      return after_effects(u);
    case Op::FUNCTION: // its arguments only matter to gradients
      return at(u.src(0));
    default:
      return plain(u);
    }
  }

  // ---- operations with a rule of their own

  Value parts(const UOp& u) {
    Value v = at(u.src(0));
    if (v.sharding.sharded() || !v.devices || int64_t(v.devices->size()) != multi_count(u))
      throw InvalidArgument(describe(u) + " needs one part of a value on each of " +
                            std::to_string(multi_count(u)) + " devices; copy the parts there first");
    return {v.u, {multi_axis(u), multi_count(u)}, v.devices};
  }

  Value one_position(const UOp& u) {
    const Value& v = at(u.src(0));
    if (v.sharding.sharded() || !v.on_several() || size_t(position_of(u)) >= v.devices->size())
      throw InvalidArgument(describe(u) + " selects from a value that has no such position");
    auto position = size_t(position_of(u));
    return {selected(v.u, position), {}, named((*v.devices)[position])};
  }

  Value stacked(const UOp& u) {
    std::vector<UOp> src;
    Devices devices;
    for (const UOp& s : u.src()) {
      const Value& v = at(s);
      if (!v.devices || v.on_several())
        throw InvalidArgument("the parts of " + describe(u) + " must be on one device each");
      src.push_back(v.u);
      devices.push_back(v.devices->front());
    }
    return {mstack(src), {}, named(join_devices(devices))};
  }

  Value combined(const UOp& u) {
    const Value& v = at(u.src(0));
    if (v.sharding.sharded())
      throw InvalidArgument(
          "an all-reduce combines what the positions hold; a sharded value is one value already");
    return v.on_several() ? Value{reduced_across(v, allreduce_op(u)), {}, v.devices} : v;
  }

  Value copied(const UOp& u) {
    const Value& v = at(u.src(0));
    const Devices* to = named(device_text(u));
    if (v.sharding.sharded()) return {gathered(v, *to), {}, to};
    if (!v.on_several()) return {copy_to(v.u, device_text(u)), {}, to};
    if (to == v.devices) return v;
    // Any replica serves; the one that is there already needs no copy.
    std::vector<UOp> copies;
    for (const std::string& device : *to) {
      auto here = std::find(v.devices->begin(), v.devices->end(), device);
      size_t from = here == v.devices->end() ? 0 : size_t(here - v.devices->begin());
      copies.push_back(copy_to(selected(v.u, from), device));
    }
    return {copies.size() == 1 ? copies[0] : mstack(copies), {}, to};
  }

  // Whether a view cuts along the axis that its source is sharded by.
  bool cuts_parts(const UOp& u) const {
    if (!u.is(Op::SHRINK)) return false;
    const Sharding& from = at(u.src(0)).sharding;
    return from.sharded() && !sharding_from(u, std::span(&from, 1)).sharded();
  }

  UOp store(const UOp& u) {
    const UOp& target = u.src(0);
    const Value &to = at(target), &from = at(u.src(1));
    if (to.devices && from.devices && to.devices != from.devices && max_numel(shape_of(target)) > 0)
      refuse_devices(u, target, join_devices(*to.devices), u.src(1), join_devices(*from.devices));
    if (cuts_parts(target)) return store_across(target, u.src(1));
    if (storage_of(target) && !viewed_storage(to.u))
      throw InvalidArgument("a store to " + describe(target) +
                            " would mix the parts of a sharded value (axis " +
                            std::to_string(sharding_of(target.src(0)).axis) +
                            "); assign to the whole value, or to a slice of it");
    return store_to(to.u, as(from, to.sharding));
  }

  // Every position computes all of its part again: the old value where the slice does not reach.
  UOp store_across(const UOp& target, const UOp& value) {
    const Value& base = at(target.src(0));
    auto axis = size_t(base.sharding.axis);
    const Shape& whole = shape_of(target.src(0));
    UOp part = own_box(base, target);
    UOp full = as(at(value), {});
    if (shape_of(full).empty()) full = expand(reshape(full, Shape(whole.size(), SInt(1))), shape_of(target));
    Shape line(whole.size(), SInt(1)), before(whole.size(), SInt(0)), behind = before;
    line[axis] = size_of(target, axis);
    before[axis] = begin_of(target, axis);
    behind[axis] = whole[axis] - before[axis] - line[axis];
    UOp covered = expand(reshape(bool_const(true), Shape(whole.size(), SInt(1))), line);
    covered = expand(own_part(pad(covered, before, behind), base.sharding), shape_of(part));
    return store_to(part, where(covered, own_part(pad(full, before, behind), base.sharding), part));
  }

  // A slice without its cut along the sharded axis.
  static UOp own_box(const Value& base, const UOp& slice) {
    size_t rank = shape_of(base.u).size();
    Shape begin, size;
    for (size_t i = 0; i < rank; ++i) begin.push_back(begin_of(slice, i)), size.push_back(size_of(slice, i));
    auto axis = size_t(base.sharding.axis);
    begin[axis] = 0, size[axis] = shape_of(base.u)[axis];
    return shrink(base.u, begin, size);
  }

  Value after_effects(const UOp& u) {
    const UOp& value = u.src(0);
    bool across = cuts_parts(value);
    Value v = at(across ? value.src(0) : value);
    std::vector<UOp> effects;
    for (const UOp& effect : u.src().subspan(1)) effects.push_back(at(effect).u);
    v.u = after(v.u, effects);
    return across ? slice(v, value) : v;
  }

  // ---- everything else: by axis

  Value plain(const UOp& u) {
    std::vector<Sharding> from;
    const Devices* devices = nullptr;
    const UOp* first = nullptr;
    bool any = false;
    for (const UOp& s : u.src()) {
      const Value& v = at(s);
      from.push_back(v.sharding);
      any |= v.sharding.sharded();
      if (!devices) devices = v.devices, first = &s;
      if (v.devices && v.devices != devices && max_numel(shape_of(u)) > 0)
        refuse_devices(u, *first, join_devices(*devices), s, join_devices(*v.devices));
    }
    if (!any) return {rebuilt(u), {}, devices};
    Sharding sharding = sharding_from(u, from);
    if (u.is(ops::Elementwise)) return elementwise(u, sharding);
    if (u.is(Op::GATHER)) return gather_of(u, sharding);
    Value v = at(u.src(0));
    if (sharding.sharded()) return {per_position(u, v.u, sharding), sharding, v.devices};
    if (u.is(Op::SHRINK)) return slice(v, u);
    if (u.is(Op::REDUCE_AXIS)) {
      v.u = reduce_axis(reduce_op(u), v.u, reduce_axes(u));
      return {v.on_several() ? reduced_across(v, reduce_op(u)) : v.u, {}, v.devices};
    }
    return {over(u, gathered(v, *v.devices)), {}, v.devices};
  }

  UOp rebuilt(const UOp& u) {
    std::vector<UOp> src;
    bool changed = false;
    for (const UOp& s : u.src()) {
      src.push_back(at(s).u);
      changed |= src.back() != s;
    }
    return changed ? with_sources(u, src) : u;
  }

  // The node with another value under it.
  static UOp over(const UOp& u, const UOp& value) {
    std::vector<UOp> src(u.src().begin(), u.src().end());
    src[0] = value;
    return with_sources(u, src);
  }

  static UOp per_position(const UOp& u, const UOp& value, const Sharding& sharding) {
    switch (u.op()) {
    case Op::RESHAPE:
      return reshape(value, of_position(shape_of(u), sharding));
    case Op::EXPAND:
      return expand(value, of_position(shape_of(u), sharding));
    case Op::SHRINK: {
      Shape begin, size = of_position(shape_of(u), sharding);
      for (size_t i = 0; i < size.size(); ++i) begin.push_back(begin_of(u, i));
      return shrink(value, begin, size);
    }
    default:
      return over(u, value);
    }
  }

  Value elementwise(const UOp& u, const Sharding& sharding) {
    std::vector<UOp> src;
    const Devices* devices = nullptr;
    for (const UOp& s : u.src())
      if (at(s).sharding == sharding && at(s).devices) devices = at(s).devices;
    for (const UOp& s : u.src()) src.push_back(shape_of(s).empty() ? at(s).u : as(at(s), sharding));
    return {with_sources(u, src), sharding, devices};
  }

  Value gather_of(const UOp& u, const Sharding& sharding) {
    Value value = at(u.src(0)), indices = at(u.src(1));
    const Devices* devices = value.devices ? value.devices : indices.devices;
    int axis = int(u.arg().word), picks = int(shape_of(u.src(1)).size());
    bool by_indices = sharding.sharded() && sharding.axis >= axis && sharding.axis < axis + picks &&
                      indices.sharding == Sharding{sharding.axis - axis, sharding.count};
    UOp src[] = {as(value, sharding.sharded() && !by_indices ? value.sharding : Sharding{}),
                 as(indices, by_indices ? indices.sharding : Sharding{})};
    return {with_sources(u, src), sharding, devices};
  }

  // The value sharded differently, or replicated, on the same devices.
  UOp as(const Value& v, const Sharding& wanted) {
    if (v.sharding == wanted || shape_of(v.u).empty()) return v.u;
    UOp whole = v.u;
    if (v.sharding.sharded()) whole = gathered(v, *v.devices);
    return wanted.sharded() ? own_part(whole, wanted) : whole;
  }

  // ---- communication

  UOp reduced_across(const Value& v, Op op) {
    std::vector<UOp> partial;
    for (size_t i = 0; i < v.devices->size(); ++i) partial.push_back(selected(v.u, i));
    return lowered_allreduce(partial, op, *v.devices, options_);
  }

  // The whole of a sharded value, on every one of the devices.
  UOp gathered(const Value& v, const Devices& to) {
    UOp& known = gathered_[{v.u.node(), v.sharding.axis, &to}];
    if (known) return known;
    std::vector<UOp> all;
    for (size_t i = 0; i < v.devices->size(); ++i) all.push_back(selected(v.u, i));
    return known = assembled(all, v.sharding.axis, to);
  }

  UOp assembled(std::span<const UOp> all, int axis, const Devices& to) {
    Assembly assembly{{}, axis};
    for (const UOp& part : all)
      assembly.parts.push_back(to.size() > 1 ? handed_out(part, to) : copy_to(part, to[0]));
    UOp whole = joined_parts(assembly.parts, axis);
    if (to.size() > 1) assemblies_.emplace(whole.node(), std::move(assembly));
    return whole;
  }

  // A slice across parts, on every device that the value is on.
  Value slice(const Value& v, const UOp& cut) {
    auto axis = size_t(v.sharding.axis);
    SInt begin = begin_of(cut, axis), size = size_of(cut, axis), part = shape_of(v.u)[axis];
    if (!begin.is_const() || !size.is_const() || !part.is_const() || size == 0)
      return {over(cut, gathered(v, *v.devices)), {}, v.devices};
    UOp box = own_box(v, cut);
    std::vector<UOp> covered;
    int64_t first = begin.value(), last = first + size.value(), width = part.value();
    for (int64_t i = first / width; i * width < last; ++i) {
      Shape from(shape_of(box).size(), SInt(0)), extent = shape_of(box);
      int64_t low = std::max(first - i * width, int64_t(0)), high = std::min(last - i * width, width);
      from[axis] = low, extent[axis] = high - low;
      covered.push_back(shrink(selected(box, size_t(i)), from, extent));
    }
    return {assembled(covered, v.sharding.axis, *v.devices), {}, v.devices};
  }

  // One position's value, without what the others would compute for it, where that is plain to see: the
  // selection moves below views, and into parts that were joined.
  UOp selected(const UOp& u, size_t position) {
    if (u.is(Op::MSTACK)) return u.src(position);
    if (auto it = assemblies_.find(u.node()); it != assemblies_.end()) {
      std::vector<UOp> mine;
      for (const UOp& part : it->second.parts) mine.push_back(selected(part, position));
      return joined_parts(mine, it->second.axis);
    }
    if (u.is(ops::Movement) && !u.has(kHasVar)) return over(u, selected(u.src(0), position));
    return mselect(u, int64_t(position));
  }

  struct Assembly {
    std::vector<UOp> parts;
    int axis;
  };

  const Options& options_;
  Memo<Value> done_;
  std::map<std::string, Devices> tuples_;
  std::map<std::tuple<const UOpNode*, int, const Devices*>, UOp> gathered_;
  std::map<const UOpNode*, Assembly> assemblies_; // looked up only: the order of keys does not matter
};

} // namespace

void append_calls(const UOp& call, std::vector<UOp>& calls) {
  Devices devices;
  if (call.src(0).is(Op::SINK) && call.nsrc() > 1) devices = split_devices(device_of(call.src(1)));
  auto backend = [&](const std::string& name) { return name.substr(0, name.find(':')); };
  bool one_backend = true;
  for (const std::string& name : devices) one_backend &= backend(name) == backend(devices[0]);
  if (one_backend) return calls.push_back(call);
  UOp position = device_position(int64_t(devices.size()));
  for (size_t p = 0; p < devices.size(); ++p) {
    std::vector<UOp> src{substitute(call.src(0), {{position, index_const(int64_t(p))}})};
    for (const UOp& argument : call.src().subspan(1)) src.push_back(storage_at(argument, p));
    calls.push_back(with_sources(call, src));
  }
}

PerPosition without_multi(const UOp& body, const Options& options) { return MultiPass(options).run(body); }

} // namespace tolk::schedule
