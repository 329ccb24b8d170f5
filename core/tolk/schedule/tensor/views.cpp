#include "tolk/schedule/tensor/views.h"

#include <algorithm>
#include <vector>

#include "tolk/base/check.h"
#include "tolk/base/error.h"
#include "tolk/uop/build.h"

namespace tolk::schedule {
namespace {

constexpr OpSet kThrough = ops::Movement | OpSet(Op::AFTER, Op::BITCAST, Op::DETACH, Op::CONTIGUOUS_BACKWARD);

bool all_const(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](const SInt& d) { return d.is_const(); });
}

// Where a box of a dense value starts, when its elements are consecutive: axes before the first that keeps
// more than one element may be cut anywhere, those behind it must be whole.
std::optional<int64_t> dense_box_offset(const UOp& u) {
  const Shape& from = shape_of(u.src(0));
  size_t rank = from.size();
  bool behind = false;
  int64_t offset = 0;
  for (size_t i = 0; i < rank; ++i) {
    const UOp &begin = u.src(1 + i), &size = u.src(1 + rank + i);
    if (!begin.is_const() || !size.is_const() || !from[i].is_const()) return std::nullopt;
    if (behind && size.const_int() != from[i].value()) return std::nullopt;
    behind |= size.const_int() > 1;
    offset = offset * from[i].value() + begin.const_int();
  }
  return offset;
}

// Whether the op leaves the row-major order of elements alone.
bool keeps_order(const UOp& u) {
  const Shape& shape = shape_of(u);
  switch (u.op()) {
  case Op::RESHAPE:
  case Op::AFTER:
  case Op::DETACH:
  case Op::CONTIGUOUS_BACKWARD:
  case Op::BITCAST:
    return true;
  case Op::EXPAND:
    return numel(shape) == numel(shape_of(u.src(0)));
  case Op::PERMUTE: {
    int64_t last = -1;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] == 1) continue;
      if (u.arg().i(i) < last) return false;
      last = u.arg().i(i);
    }
    return true;
  }
  case Op::FLIP:
    for (size_t i = 0; i < shape.size(); ++i)
      if (u.arg().word >> i & 1 && !(shape[i] == 1)) return false;
    return true;
  case Op::WINDOW: {
    // One window of neighbours, or windows of one element side by side.
    auto axis = size_t(u.arg().i(0));
    SInt out = shape[axis], k = shape[axis + 1], n = shape_of(u.src(0))[axis];
    return (out == 1 && k == n && u.arg().i(2) == 1) || (k == 1 && out == n && u.arg().i(1) == 1);
  }
  default:
    return false;
  }
}

// Every element of a target must be a place of its own.
void check_part(const UOp& u) {
  bool injective = true;
  if (u.is(Op::EXPAND)) injective = numel(shape_of(u)) == numel(shape_of(u.src(0)));
  if (u.is(Op::WINDOW)) {
    const Shape& shape = shape_of(u);
    auto axis = size_t(u.arg().i(0));
    int64_t stride = u.arg().i(1), reach = (shape[axis + 1].max() - 1) * u.arg().i(2);
    injective = shape[axis] == 1 || reach < stride;
  }
  if (!injective)
    throw InvalidArgument("a store through " + std::string(name(u.op())) + " to " + to_string(shape_of(u)) +
                          " would write elements more than once; assign to the view it repeats");
  if (u.is(Op::BITCAST))
    throw InvalidArgument("a store through a reshaped bitcast is not possible; bitcast the value instead");
}

} // namespace

UOp viewed_storage(const UOp& u) {
  const UOp* at = &u;
  while (at->is(kThrough) && !at->is(Op::PAD)) at = &at->src(0);
  return at->is(ops::Storage) ? *at : UOp();
}

UOp viewed_state(const UOp& u) {
  const UOp* at = &u;
  while (at->is(kThrough) && !at->is(OpSet(Op::AFTER, Op::PAD))) at = &at->src(0);
  return at->is(ops::Storage | OpSet(Op::AFTER)) ? *at : UOp();
}

std::optional<StorageRange> contiguous_range(const UOp& u, const OpSet& also) {
  if (!all_const(shape_of(u))) return std::nullopt;
  int64_t first = 0;
  const UOp* at = &u;
  for (; !at->is(ops::Storage | also); at = &at->src(0)) {
    if (!at->is(kThrough)) return std::nullopt;
    if (at->is(Op::SHRINK)) {
      auto offset = dense_box_offset(*at);
      if (!offset) return std::nullopt;
      first += *offset;
    } else if (!keeps_order(*at)) {
      return std::nullopt;
    }
  }
  // BITCASTs keep the width, so that offsets in elements stay right.
  auto width = int64_t(bits(u.dtype()));
  if (first * width % 8 != 0) return std::nullopt;
  return StorageRange{*at, u.dtype(), first * width / 8, numel(shape_of(u)).value()};
}

UOp range_storage(const StorageRange& range) {
  const UOp& s = range.storage;
  if (range.byte_offset == 0 && range.elements == elements_of(s) && range.dtype == s.dtype()) return s;
  if (s.is(Op::SLICE))
    return slice_node(s.src(0), range.dtype, s.arg().i(0) + range.byte_offset, range.elements);
  return slice_node(s, range.dtype, range.byte_offset, range.elements);
}

UOp plain_view(const UOp& u) {
  if (auto range = contiguous_range(u)) return reshape(range_storage(*range), shape_of(u));
  std::vector<UOp> chain;
  UOp at = u;
  for (; !at.is(ops::Storage); at = at.src(0)) {
    TOLK_CHECK(at.is(kThrough), "a plain view needs a movement chain over storage");
    if (at.is(ops::Movement)) chain.push_back(at);
  }
  if (at.dtype() != u.dtype()) at = range_storage({at, u.dtype(), 0, elements_of(at)});
  std::vector<UOp> src;
  for (size_t i = chain.size(); i-- > 0;) {
    src.assign(chain[i].src().begin(), chain[i].src().end());
    src[0] = at;
    at = make(chain[i].op(), u.dtype(), src, chain[i].arg());
  }
  return at;
}

void check_store_target(const UOp& view) {
  const UOp* part = &view;
  while (part->is(OpSet(Op::BITCAST, Op::DETACH))) part = &part->src(0);
  for (; !part->is(ops::Storage); part = &part->src(0)) check_part(*part);
}

} // namespace tolk::schedule
