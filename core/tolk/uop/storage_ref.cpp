#include "tolk/uop/storage_ref.h"

#include <algorithm>

#include "tolk/base/check.h"

namespace tolk {
namespace {

constexpr OpSet kPassed = ops::View | OpSet(Op::AFTER); // by dense_range

bool all_const(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](const SInt& d) { return d.is_const(); });
}

// The offset of a SHRINK in a dense source when its elements are consecutive there: axes before the first
// that keeps more than one element may be cut anywhere, those behind it must be whole.
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

// Whether the op keeps the elements and their row-major order.
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
    // A single window of neighbours, or windows of one element side by side.
    auto axis = size_t(u.arg().i(0));
    SInt out = shape[axis], k = shape[axis + 1], n = shape_of(u.src(0))[axis];
    return (out == 1 && k == n && u.arg().i(2) == 1) || (k == 1 && out == n && u.arg().i(1) == 1);
  }
  default:
    return false;
  }
}

// Adds the bases below `u`; `part` says what the expression above it selects.
void add_parts(const UOp& u, StoragePart part, std::vector<StoragePart>& out) {
  if (u.is(OpSet(Op::BUFFER, Op::PARAM))) {
    part.base = u;
    out.push_back(std::move(part));
  } else if (u.is(Op::SLICE)) {
    part.sliced = true;
    bool symbolic = u.nsrc() > 1 && !u.src(1).is_const();
    if (symbolic || !part.exact) {
      part.begin = 0, part.end = StoragePart::kEnd, part.exact = false;
    } else {
      int64_t bytes = part.end == StoragePart::kEnd
                          ? int64_t(storage_bytes(u.dtype(), uint64_t(elements_of(u))))
                          : part.end - part.begin;
      part.begin += u.arg().i(0) + (u.nsrc() > 1 ? u.src(1).const_int() : 0);
      part.end = part.begin + bytes;
    }
    add_parts(u.src(0), std::move(part), out);
  } else if (u.is(Op::MSTACK)) {
    part.position = -1;
    for (const UOp& s : u.src()) add_parts(s, part, out);
  } else if (u.nsrc() > 0) {
    if (u.is(Op::MSELECT)) part.position = position_of(u);
    add_parts(u.src(0), std::move(part), out);
  }
}

} // namespace

StorageRef storage_ref(const UOp& u, Through through, NodeForm form) {
  StorageRef ref;
  auto pass_after = [&](const UOp& after) {
    if (!ref.after) ref.after = after;
    if (!ref.write && is_write(after)) ref.write = after;
  };
  UOp at = form ? form(u) : u;
  auto descend = [&] { at = form ? form(at.src(0)) : UOp(at.src(0)); };
  for (; passes(at, through); descend()) {
    if (at.is(Op::AFTER))
      pass_after(at);
    else
      ref.views.push_back(at);
  }
  ref.below = at;
  if (at.is(ops::Storage)) {
    ref.storage = at;
    for (; at.is(Op::SLICE) || (at.is(Op::AFTER) && passes(at, through)); descend()) {
      if (at.is(Op::AFTER)) {
        pass_after(at);
        continue;
      }
      ref.byte_offset += at.arg().i(0);
      if (at.nsrc() == 1) continue;
      if (at.src(1).is_const())
        ref.byte_offset += at.src(1).const_int();
      else
        ref.offset_known = false;
    }
    if (at.is(ops::Storage)) ref.base = at;
  }
  if (ref.after) ref.version = version_named(ref.after);
  return ref;
}

UOp with_views(std::span<const UOp> views, UOp base) {
  std::vector<UOp> src;
  for (size_t i = views.size(); i-- > 0;) {
    const UOp& u = views[i];
    if (u.is(Op::RESHAPE)) {
      base = reshape(base, shape_of(u));
      continue;
    }
    src.assign(u.src().begin(), u.src().end());
    src[0] = std::move(base);
    base = with_sources(u, src);
  }
  return base;
}

std::optional<DenseRange> dense_range(const UOp& u, const OpSet& also) {
  if (!all_const(shape_of(u))) return std::nullopt;
  int64_t first = 0;
  const UOp* at = &u;
  for (; !at->is(ops::Storage | also); at = &at->src(0)) {
    if (!at->is(kPassed)) return std::nullopt;
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
  return DenseRange{*at, u.dtype(), first * width / 8, numel(shape_of(u)).value()};
}

UOp storage_node(const DenseRange& range) {
  const UOp& s = range.storage;
  if (range.byte_offset == 0 && range.elements == elements_of(s) && range.dtype == s.dtype()) return s;
  return slice_over(slice_node(s, range.dtype, range.byte_offset, range.elements), s);
}

UOp slice_over(const UOp& slice, const UOp& source) {
  bool within = source.is(Op::SLICE);
  std::vector<UOp> src{within ? source.src(0) : source};
  for (const UOp* u : {&slice, &source}) // symbolic offsets
    if (u->is(Op::SLICE) && u->nsrc() > 1) {
      if (src.size() > 1)
        src[1] = src[1] + u->src(1);
      else
        src.push_back(u->src(1));
    }
  int64_t offset = slice.arg().i(0) + (within ? source.arg().i(0) : 0);
  return make(Op::SLICE, slice.dtype(), src, Arg({offset, elements_of(slice)}));
}

std::vector<StoragePart> storage_parts(const UOp& argument) {
  std::vector<StoragePart> out;
  add_parts(argument, {}, out);
  return out;
}

bool may_overlap(const UOp& argument, const UOp& other) {
  const std::vector<StoragePart> of_argument = storage_parts(argument), of_other = storage_parts(other);
  for (const StoragePart& a : of_argument)
    for (const StoragePart& b : of_other)
      if (a.base == b.base && (a.position == b.position || a.position < 0 || b.position < 0) &&
          a.begin < b.end && b.begin < a.end)
        return true;
  return false;
}

} // namespace tolk
