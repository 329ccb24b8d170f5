#include "tolk/schedule/tensor/multi_axis.h"

#include <memory>
#include <vector>

#include "tolk/uop/build.h"
#include "tolk/uop/traverse.h"

namespace tolk::schedule {
namespace {

constexpr Sharding kNone;

// The parts are the same elements in both shapes when as many elements come before the axis, and a part is a
// whole number of positions of the new axis.
Sharding reshaped(const UOp& u, Sharding from) {
  const Shape &old_shape = shape_of(u.src(0)), &shape = shape_of(u);
  SInt before = 1;
  for (int i = 0; i < from.axis; ++i) before = before * old_shape[size_t(i)];
  Sharding found = kNone;
  SInt here = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    const SInt& size = shape[i];
    if (here == before && size.is_const() && size.value() > 0 && size.value() % from.count == 0)
      found = {int(i), from.count};
    here = here * size;
  }
  return found;
}

bool is_whole_axis(const UOp& shrink, size_t axis) {
  const Shape& from = shape_of(shrink.src(0));
  return shrink.src(1 + axis).is_const_int(0) && SInt(shrink.src(1 + from.size() + axis)) == from[axis];
}

Sharding gathered(const UOp& u, Sharding value, Sharding indices) {
  int axis = int(u.arg().word), picks = int(shape_of(u.src(1)).size());
  if (value.sharded() && value.axis < axis) return value;
  if (value.sharded() && value.axis > axis) return {value.axis + picks - 1, value.count};
  if (indices.sharded()) return {axis + indices.axis, indices.count};
  return kNone;
}

} // namespace

Sharding sharding_from(const UOp& u, std::span<const Sharding> sources) {
  if (u.is(Op::MULTI)) return {multi_axis(u), multi_count(u)};
  if (u.is(ops::Elementwise)) {
    Sharding found = kNone;
    for (const Sharding& s : sources)
      if (s.sharded()) found = s;
    return found;
  }
  if (u.is(Op::GATHER)) return gathered(u, sources[0], sources[1]);
  Sharding from = sources.empty() ? kNone : sources[0];
  if (!from.sharded()) return kNone;
  auto axis = size_t(from.axis);
  switch (u.op()) {
  case Op::RESHAPE:
    return reshaped(u, from);
  case Op::PERMUTE:
    for (size_t i = 0; i < u.arg().ints().size(); ++i)
      if (u.arg().i(i) == from.axis) return {int(i), from.count};
    return kNone;
  case Op::PAD: {
    size_t rank = shape_of(u).size();
    return u.src(1 + axis).is_const_int(0) && u.src(1 + rank + axis).is_const_int(0) ? from : kNone;
  }
  case Op::SHRINK:
    return is_whole_axis(u, axis) ? from : kNone;
  case Op::FLIP:
    return u.arg().word >> axis & 1 ? kNone : from;
  case Op::WINDOW:
    if (u.arg().i(0) == from.axis) return kNone;
    return {from.axis + (from.axis > u.arg().i(0)), from.count};
  case Op::REDUCE_AXIS:
    return reduce_axes(u) >> axis & 1 ? kNone : from;
  case Op::EXPAND:
  case Op::CONTIGUOUS:
  case Op::DETACH:
  case Op::CONTIGUOUS_BACKWARD:
  case Op::FUNCTION:
  case Op::AFTER:
    return from;
  default:
    return kNone;
  }
}

Sharding sharding_of(const UOp& u) {
  Memo<std::shared_ptr<const Sharding>> known;
  std::vector<Sharding> sources;
  Sharding last;
  for (const UOp& node : toposort(u)) {
    sources.clear();
    for (const UOp& s : node.src()) {
      auto found = known.find(s);
      sources.push_back(found ? **found : kNone);
    }
    last = sharding_from(node, sources);
    if (last.sharded()) known.set(node, std::make_shared<const Sharding>(last));
  }
  return last;
}

} // namespace tolk::schedule
