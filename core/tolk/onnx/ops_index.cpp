// Gathers, scatters, sorting and other data-dependent selection.
#include <algorithm>
#include <cmath>

#include "tolk/base/error.h"
#include "tolk/onnx/importer.h"

namespace tolk::onnx {
namespace {

using Values = std::vector<GraphValue>;

// Indices that are known while importing are checked; others outside of the axis read 0 (see Tensor::gather).
Values gather(OpCall& op) {
  const Tensor& x = op.in(0);
  int64_t axis = op.axis("axis", 0, x.rank());
  op.check_positions(1, x.size(axis));
  return {x.gather(op.in(1), axis)};
}

// Off the axis, indices cover the data or a corner of it.
void check_corner(OpCall& op, const Tensor& x, const Tensor& indices, int64_t axis) {
  bool fits = indices.rank() == x.rank();
  for (int64_t d = 0; fits && d < x.rank(); ++d) fits = d == axis || indices.size(d).max() <= x.size(d).max();
  if (!fits)
    op.fail("indices " + to_string(indices.shape()) + " exceed the data " + to_string(x.shape()) +
            " off axis " + std::to_string(axis));
  op.check_positions(1, x.size(axis));
}

Values gather_elements(OpCall& op) {
  const Tensor& x = op.in(0);
  int64_t axis = op.axis("axis", 0, x.rank());
  check_corner(op, x, op.in(1), axis);
  return {x.gather_elements(op.in(1), axis)};
}

Values gather_nd(OpCall& op) {
  const Tensor &x = op.in(0), &indices = op.in(1);
  int64_t batch = op.node.integer("batch_dims", 0);
  if (x.rank() < 1 || indices.rank() < 1 || batch >= std::min(x.rank(), indices.rank()))
    op.fail("data " + to_string(x.shape()) + " and indices " + to_string(indices.shape()) + " do not have " +
            std::to_string(batch) + " batch axes and more");
  for (int64_t d = 0; d < batch; ++d)
    if (!(x.size(d) == indices.size(d)))
      op.fail("the batch axes of data " + to_string(x.shape()) + " and indices " +
              to_string(indices.shape()) + " differ");
  return {x.gather_nd(indices, batch)};
}

Tensor::Combine combine_of(OpCall& op) {
  std::string how = op.node.text("reduction", "none");
  if (how == "none") return Tensor::Combine::Replace;
  if (how == "add") return Tensor::Combine::Add;
  if (how == "mul") return Tensor::Combine::Mul;
  if (how == "max") return Tensor::Combine::Max;
  if (how == "min") return Tensor::Combine::Min;
  op.fail("reduction \"" + how + "\" is not one of none, add, mul, max, min");
}
Values scatter_elements(OpCall& op) {
  const Tensor& x = op.in(0);
  int64_t axis = op.axis("axis", 0, x.rank());
  check_corner(op, x, op.in(1), axis);
  return {x.scatter_elements(op.in(1), op.in(2), axis, combine_of(op))};
}

Values scatter_nd(OpCall& op) {
  const Tensor &x = op.in(0), &indices = op.in(1), &updates = op.in(2);
  if (indices.rank() < 1) op.fail("indices need an axis of positions, they are one number");
  int64_t depth = indices.size(-1).value("ScatterND");
  if (depth > x.rank())
    op.fail("indices " + to_string(indices.shape()) + " name " + std::to_string(depth) +
            " axes of the data " + to_string(x.shape()));
  Shape wanted(indices.shape().begin(), indices.shape().end() - 1);
  wanted.insert(wanted.end(), x.shape().begin() + depth, x.shape().end());
  if (!(updates.shape() == wanted))
    op.fail("updates must have the shape " + to_string(wanted) + ", they have " + to_string(updates.shape()));
  return {x.scatter_nd(indices, updates, combine_of(op))};
}

// past (B, ..., S, ...) with update written at write_indices along `axis`, wrapping when circular.
Values tensor_scatter(OpCall& op) {
  const Tensor &past = op.in(0), &update = op.in(1);
  int64_t axis = op.axis("axis", -2, past.rank());
  bool circular = op.node.text("mode", "linear") == "circular";
  bool fits = update.rank() == past.rank() && axis > 0;
  for (int64_t d = 0; fits && d < past.rank(); ++d)
    fits = d == axis ? update.size(d).max() <= past.size(d).max() : update.size(d) == past.size(d);
  if (!fits || (op.has(2) && !(op.in(2).numel() == past.size(0))))
    op.fail("an update " + to_string(update.shape()) + " along axis " + std::to_string(axis) +
            " does not fit the past " + to_string(past.shape()) + " with a position for each batch entry");
  SInt s = past.size(axis), u = update.size(axis);
  Tensor start = op.has(2) ? op.in(2).cast(DType::I64) : Tensor::constant(DType::I64, 0, {past.size(0)});
  Shape batch(past.shape().size(), SInt(1)), line = batch;
  batch[0] = past.size(0), line[size_t(axis)] = s;
  // Position in the update that lands on each place of the past, if any.
  Tensor from = Tensor::arange(s).reshape(line) - start.reshape(batch);
  if (circular) from = from.floormod(Tensor::constant(DType::I64, s.value("TensorScatter")));
  Tensor hit = (from >= 0) & (from < Tensor::constant(DType::I64, u.value("TensorScatter")));
  Tensor index = hit.where(from, Tensor::constant(DType::I64, 0)).expand(past.shape());
  return {hit.where(update.gather_elements(index, axis), past)};
}

Values one_hot(OpCall& op) {
  Tensor indices = op.in(0).cast(DType::I64);
  int64_t depth = op.int_at(1);
  if (depth < 1) op.fail("depth must be positive, it is " + std::to_string(depth));
  if (!(op.in(2).numel() == 2))
    op.fail("values must be two numbers, their shape is " + to_string(op.in(2).shape()));
  Tensor off = op.in(2).narrow(0, 0, 1).reshape({}), on = op.in(2).narrow(0, 1, 1).reshape({});
  return {indices.one_hot(depth, op.node.integer("axis", -1)).where(on, off)};
}

Values top_k(OpCall& op) {
  int64_t k = op.opset < 10 ? op.node.require_integer("k") : op.int_at(1),
          n = op.in(0).size(op.axis("axis", -1, op.in(0).rank())).value("TopK");
  if (k < 0 || k > n)
    op.fail("k is " + std::to_string(k) + ", the axis has " + std::to_string(n) + " elements");
  auto [values, places] = op.in(0).topk(k, op.node.integer("axis", -1), op.node.integer("largest", 1) != 0);
  return {values, places};
}

// The number of results depends on the data: it is read back while importing.
Values non_zero(OpCall& op) {
  const Tensor& x = op.in(0);
  std::vector<int64_t> hit =
      op.importer.ints(not_equal(x.cast(is_bool(x.dtype()) ? DType::U8 : x.dtype()), 0).cast(DType::I64));
  std::vector<int64_t> sizes;
  for (const SInt& d : x.shape()) sizes.push_back(d.value("NonZero"));
  auto rank = int64_t(sizes.size());
  std::vector<std::vector<int64_t>> rows(size_t(std::max<int64_t>(rank, 1)));
  for (size_t i = 0; i < hit.size(); ++i) {
    if (!hit[i]) continue;
    auto rest = int64_t(i);
    if (rank == 0) rows[0].push_back(0);
    for (int64_t d = rank; d-- > 0;)
      rows[size_t(d)].push_back(rest % sizes[size_t(d)]), rest /= sizes[size_t(d)];
  }
  std::vector<int64_t> flat;
  for (const auto& r : rows) flat.insert(flat.end(), r.begin(), r.end());
  auto found = int64_t(rows[0].size());
  if (found == 0) return {Tensor::zeros({int64_t(rows.size()), 0}, DType::I64)};
  return {Tensor::from(flat, {int64_t(rows.size()), found}, op.importer.device())};
}

Values compress(OpCall& op) {
  Tensor x = op.in(0);
  int64_t axis = 0;
  if (op.node.find("axis"))
    axis = op.node.integer("axis", 0);
  else
    x = x.flatten();
  std::vector<int64_t> keep = op.ints(1), pick;
  if (int64_t n = x.size(axis).value("Compress"); int64_t(keep.size()) > n)
    op.fail("the condition has " + std::to_string(keep.size()) + " elements, the axis " + std::to_string(n));
  for (size_t i = 0; i < keep.size(); ++i)
    if (keep[i]) pick.push_back(int64_t(i));
  if (pick.empty()) return {x.narrow(axis, 0, 0)};
  return {x.gather(Tensor::from(pick, {int64_t(pick.size())}, op.importer.device()), axis)};
}

// Lengths that are known while importing lie between 0 and the axis's size.
void check_lengths(OpCall& op, size_t i, const SInt& size) {
  if (!op.value(i).host) return;
  for (int64_t n : op.ints(i))
    if (n < 0 || n > size.max())
      op.fail("input " + std::to_string(i) + " has the length " + std::to_string(n) + ", the axis has " +
              to_string(size));
}

Values reverse_sequence(OpCall& op) {
  const Tensor& x = op.in(0);
  int64_t batch_axis = op.axis("batch_axis", 1, x.rank()), time_axis = op.axis("time_axis", 0, x.rank());
  if (batch_axis == time_axis) op.fail("batch_axis and time_axis are both " + std::to_string(time_axis));
  if (!(op.in(1).numel() == x.size(batch_axis)))
    op.fail("sequence_lens " + to_string(op.in(1).shape()) + " must have a length for each of the " +
            to_string(x.size(batch_axis)) + " batch entries");
  check_lengths(op, 1, x.size(time_axis));
  Shape batch(x.shape().size(), SInt(1)), time = batch;
  batch[size_t(batch_axis)] = x.size(batch_axis), time[size_t(time_axis)] = x.size(time_axis);
  Tensor length = op.in(1).cast(DType::I64).reshape(batch),
         t = Tensor::arange(x.size(time_axis)).reshape(time);
  return {x.gather_elements((t < length).where(length - 1 - t, t).expand(x.shape()), time_axis)};
}

constexpr OpRow kRows[] = {
    {"", "Gather", 1, gather},
    {"", "GatherElements", 11, gather_elements},
    {"", "GatherND", 11, gather_nd},
    {"", "Scatter", 9, scatter_elements},
    {"", "ScatterElements", 11, scatter_elements},
    {"", "ScatterND", 11, scatter_nd},
    {"", "TensorScatter", 24, tensor_scatter},
    {"", "OneHot", 9, one_hot},
    {"", "TopK", 1, top_k},
    {"", "NonZero", 9, non_zero},
    {"", "Compress", 9, compress},
    {"", "ReverseSequence", 10, reverse_sequence},
};

} // namespace

std::span<const OpRow> index_ops() { return kRows; }

} // namespace tolk::onnx
