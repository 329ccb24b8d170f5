#include "tolk/schedule/tensor/split_reduce.h"

#include <algorithm>

#include "tolk/uop/build.h"

namespace tolk::schedule {
namespace {

constexpr int64_t kMaxParts = 256;
constexpr int64_t kMinParts = 8;
constexpr int64_t kMaxPartial = int64_t(1) << 22; // elements of the partial results

// Whether the value is the same all along the axis, judged by a few nodes. Splitting such an axis
// gains nothing: its loop may vanish.
bool repeats_along(const UOp& u, size_t axis) {
  std::vector<std::pair<UOp, size_t>> todo{{u, axis}};
  for (int steps = 0; !todo.empty(); ++steps) {
    if (steps > 64) return false;
    auto [at, a] = todo.back();
    todo.pop_back();
    if (shape_of(at).empty() || shape_of(at)[a] == 1) continue;
    switch (at.op()) {
    case Op::EXPAND:
    case Op::SHRINK:
    case Op::FLIP:
      todo.emplace_back(at.src(0), a);
      break;
    case Op::PERMUTE:
      todo.emplace_back(at.src(0), size_t(at.arg().i(a)));
      break;
    case Op::RESHAPE: {
      // The axis survives when the sizes before it multiply to the same.
      const Shape &to = shape_of(at), &from = shape_of(at.src(0));
      SInt before = 1, others = 1;
      for (size_t i = 0; i < a; ++i) before = before * to[i];
      size_t j = 0;
      while (j < from.size() && !(others == before && from[j] == to[a])) others = others * from[j++];
      if (j == from.size()) return false;
      todo.emplace_back(at.src(0), j);
      break;
    }
    default:
      if (!at.is(ops::Elementwise)) return false;
      for (const UOp& s : at.src())
        if (s.dtype() != DType::Index) todo.emplace_back(s, a);
    }
  }
  return true;
}

} // namespace

std::optional<SplitReduction> split_reduction(const UOp& u, const Options& options) {
  if (!options.split_reduce) return {};
  const UOp& value = u.src(0);
  const Shape &from = shape_of(value), &to = shape_of(u);
  for (const SInt& d : from)
    if (!d.is_const()) return {};
  int64_t in = max_numel(from), out = max_numel(to);
  if (out == 0 || in / out < options.reduce_split_threshold) return {};
  int64_t max_parts = std::min(kMaxParts, kMaxPartial / out);
  size_t rank = from.size();
  for (size_t axis = 0; axis < rank; ++axis) {
    if (!(reduce_axes(u) >> axis & 1) || repeats_along(value, axis)) continue;
    int64_t size = from[axis].value();
    for (int64_t parts = max_parts; parts >= kMinParts; --parts) {
      if (size % parts != 0) continue;
      // axis -> (parts, size / parts), and the parts become the last axis.
      Shape divided(from.begin(), from.end());
      divided[axis] = parts;
      divided.insert(divided.begin() + std::ptrdiff_t(axis) + 1, SInt(size / parts));
      std::vector<int64_t> order;
      for (size_t i = 0; i <= rank; ++i)
        if (i != axis) order.push_back(int64_t(i));
      order.push_back(int64_t(axis));
      UOp partial = reduce_axis(reduce_op(u), permute(reshape(value, divided), order), reduce_axes(u));
      // Parts of one element: nothing is reduced along this axis.
      if (!partial.is(Op::REDUCE_AXIS)) continue;
      UOp result = reshape(reduce_axis(reduce_op(u), partial, uint64_t(1) << rank), to);
      return SplitReduction{std::move(partial), std::move(result)};
    }
  }
  return {};
}

} // namespace tolk::schedule
