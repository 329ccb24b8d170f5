// Data-dependent indexing. A gather is one GATHER over a flattened source. A scatter tests, for every result
// element, which update reaches it, so that it runs in any order and on any device. Large scatter-adds sort
// their indices first.
#include <bit>
#include <functional>
#include <limits>

#include "tolk/tensor/tensor_internal.h"

namespace tolk {
namespace {

using detail::normal_axis;

Tensor integer(int64_t value) { return Tensor::constant(DType::I64, value); }

// Indices in i64. Values above INT64_MAX, which are out of range in any case, become INT64_MAX.
Tensor in_i64(const Tensor& indices) {
  if (indices.dtype() != DType::U64) return indices.cast(DType::I64);
  return indices.minimum(Tensor::constant(DType::U64, INT64_MAX)).cast(DType::I64);
}

// Indices in i64, negative ones counted from the end once.
Tensor wrapped(const Tensor& indices, const SInt& size) {
  Tensor i = in_i64(indices);
  return (i < 0).where(i + Tensor(cast(size.uop(), DType::I64)), i);
}

// The indices where they are inside 0..size-1, elsewhere `outside`.
Tensor inside_or(const Tensor& indices, const SInt& size, const Tensor& value, const Tensor& outside) {
  Tensor n(cast(size.uop(), DType::I64));
  return ((indices >= 0) & (indices < n)).where(value, outside);
}

void require_integers(const Tensor& indices, const char* what) {
  if (!is_int(indices.dtype()))
    throw InvalidArgument(std::string(what) + ": indices must be integers, got " + name(indices.dtype()));
}

// Positions 0..n-1 along `axis` of a shape, broadcastable to it.
Tensor position_along(const Shape& shape, size_t axis) {
  Shape line(shape.size(), SInt(1));
  line[axis] = shape[axis];
  return Tensor::arange(shape[axis]).reshape(line);
}

} // namespace

Tensor Tensor::gather(const Tensor& indices, int64_t axis) const {
  require_integers(indices, "gather");
  Tensor i = indices.dtype() == DType::U64 ? in_i64(indices) : indices;
  return Tensor(tolk::gather(node(), i.node(), int(normal_axis(axis, rank(), "gather"))));
}

Tensor Tensor::gather_elements(const Tensor& indices, int64_t axis) const {
  require_integers(indices, "gather_elements");
  if (indices.rank() != rank())
    throw InvalidArgument("gather_elements: indices " + to_string(indices.shape()) +
                          " need the rank of the data " + to_string(shape()));
  axis = normal_axis(axis, rank(), "gather_elements");
  Tensor along = wrapped(indices, size(axis));
  Tensor linear, stride = integer(1);
  for (int64_t d = rank() - 1; d >= 0; --d) {
    Tensor part = (d == axis ? along : position_along(indices.shape(), size_t(d))) * stride;
    linear = linear.defined() ? linear + part : part;
    stride = stride * Tensor(tolk::cast(size(d).uop(), DType::I64));
  }
  // One past the end reads 0; -1 would wrap.
  linear = inside_or(along, size(axis), linear, Tensor(tolk::cast(numel().uop(), DType::I64)));
  return detail::named("gather_elements", flatten().gather(linear, 0), {*this, indices}, {axis});
}

Tensor Tensor::gather_nd(const Tensor& indices, int64_t batch_axes) const {
  require_integers(indices, "gather_nd");
  int64_t depth = indices.size(-1).value("gather_nd");
  if (batch_axes < 0 || batch_axes + depth > rank() || batch_axes >= indices.rank())
    throw InvalidArgument("gather_nd: indices " + to_string(indices.shape()) + " with " +
                          std::to_string(batch_axes) + " batch axes do not fit the data " +
                          to_string(shape()));
  Shape where_shape(indices.shape().begin(), indices.shape().end() - 1);
  Tensor linear = integer(0), valid = constant(DType::BOOL, 1);
  SInt cells = 1;
  for (int64_t b = 0; b < batch_axes; ++b) {
    linear = linear * Tensor(tolk::cast(size(b).uop(), DType::I64)) + position_along(where_shape, size_t(b));
    cells = cells * size(b);
  }
  for (int64_t d = 0; d < depth; ++d) {
    SInt n = size(batch_axes + d);
    Tensor i = wrapped(indices.narrow(-1, d, 1).squeeze(-1), n), bound(tolk::cast(n.uop(), DType::I64));
    valid = valid & (i >= 0) & (i < bound);
    linear = linear * bound + i;
    cells = cells * n;
  }
  linear = valid.where(linear, Tensor(tolk::cast(cells.uop(), DType::I64)));
  Shape flat{cells};
  flat.insert(flat.end(), shape().begin() + batch_axes + depth, shape().end());
  return reshape(flat).gather(linear.expand(where_shape), 0);
}

namespace {

int64_t ceildiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Chunk length of a sum by index, whose chunks are sorted on their own. 0 when comparing every row with every
// index is cheaper.
int64_t chunk_of_sum(int64_t rows, int64_t count, int64_t width) {
  double asked = double(rows) * double(count) * double(width), best = asked / 4;
  if (asked < 4e6) return 0; // the number of kernels counts
  int64_t chunk = 0;
  for (int64_t length = 64;; length *= 2) {
    auto chunks = double(ceildiv(count, length));
    double sorting = 2 * chunks * double(length) * double(length), summing = 24.0 * double(count * width);
    double cost = sorting + summing + chunks * double(rows) * double(width + 16);
    if (cost < best) best = cost, chunk = length;
    if (length >= count) return std::min(chunk, count);
  }
}

} // namespace

Tensor detail::sum_by_index(const Tensor& values, const Tensor& indices, const SInt& n) {
  if (!n.is_const() || !values.size(0).is_const() || !values.size(1).is_const()) return {};
  int64_t count = values.size(0).value(), width = values.size(1).value();
  int64_t length = chunk_of_sum(n.value(), count, width);
  if (length == 0) return {};
  int64_t chunks = ceildiv(count, length), all = chunks * length;
  // Each chunk in the order of its rows; those of no row at the end.
  Tensor none(tolk::cast(n.uop(), DType::I64)), row = inside_or(indices, n, indices, none);
  row = row.pad({{0, all - count}}, n.value()).reshape({chunks, length});
  Tensor first = (Tensor::arange(chunks) * length).unsqueeze(1); // of each chunk
  auto [key, order] = row.sort(1);
  key = key.contiguous();
  Tensor sum = values.gather(order + first, 0); // (chunks, length, width)
  // After each step an element has the sum of up to `reach` of its row that end with it, the last of the row
  // all of them.
  constexpr int64_t kWindow = 8;
  for (int64_t reach = 1; reach < length; reach *= kWindow) {
    int64_t before = (kWindow - 1) * reach;
    Tensor ending = sum.pad({{0, 0}, {before, 0}, {0, 0}}).window(1, length, kWindow, 1, reach);
    Tensor keys = key.pad({{0, 0}, {before, 0}}, -1).window(1, length, kWindow, 1, reach);
    sum = equal(keys, key.unsqueeze(2)).unsqueeze(3).where(ending, Tensor::constant(values.dtype(), 0));
    sum = sum.sum_as(values.dtype(), {2}, false).contiguous();
  }
  // How many of a chunk's keys are up to each row, by bisection; the last of them has the row's sum, if it is
  // the row's.
  Tensor rows = Tensor::arange(n).unsqueeze(0), upto = integer(0).expand({SInt(chunks), n}),
         keys = key.flatten();
  for (auto step = int64_t(std::bit_floor(uint64_t(length))); step > 0; step /= 2) {
    Tensor more = upto + step;
    upto = ((more <= length) & (keys.gather(first + (more - 1), 0) <= rows)).where(more, upto);
  }
  Tensor last = first + upto - 1;
  Tensor met = (upto > 0) & equal(keys.gather((upto > 0).where(last, integer(0)), 0), rows);
  last = met.where(last, integer(all)).contiguous(); // one past the end reads 0
  Tensor parts = sum.reshape({all, width}).gather(last, 0);
  return named("sum_by_index", parts.sum_as(values.dtype(), {0}, false), {values, indices});
}

Tensor Tensor::one_hot(int64_t classes, int64_t axis) const {
  require_integers(*this, "one_hot");
  axis = normal_axis(axis, rank() + 1, "one_hot");
  detail::check_sizes({classes}, "one_hot");
  Tensor spread = wrapped(*this, classes).unsqueeze(axis);
  Shape line(spread.shape().size(), SInt(1));
  line[size_t(axis)] = classes;
  return equal(spread, arange(classes).reshape(line));
}

namespace {

// Combines updates (..., m) into x (..., n) where hit (..., n, m) is true. Rows may have further trailing
// axes through `take`, which reads the update with the given number for every element.
Tensor combined(const Tensor& x, const Tensor& hit, const Tensor& updates, Tensor::Combine how, int64_t axis,
                const std::function<Tensor(const Tensor&)>& take) {
  using Combine = Tensor::Combine;
  DType dtype = x.dtype();
  switch (how) {
  case Combine::Add:
    return x + hit.where(updates, Tensor::constant(dtype, 0)).sum_as(dtype, {axis}, false);
  case Combine::Mul:
    return x * Tensor(reduce_axis(Op::MUL, hit.where(updates, Tensor::constant(dtype, 1)).node(),
                                  uint64_t(1) << axis))
                   .squeeze(axis);
  case Combine::Max:
    return x.maximum(hit.where(updates, Tensor(reduce_identity(Op::MAX, dtype))).max({axis}));
  case Combine::Min: {
    UOp most = is_float(dtype) ? constant(dtype, std::numeric_limits<double>::infinity())
                               : Tensor(reduce_identity(Op::MAX, dtype)).logical_not().node();
    return x.minimum(hit.where(updates, Tensor(most)).min({axis}));
  }
  case Combine::Replace:
    break;
  }
  Shape line(hit.shape().size(), SInt(1));
  line[size_t(axis)] = hit.shape()[size_t(axis)];
  Tensor number = Tensor::arange(hit.size(axis)).reshape(line);
  Tensor last = hit.where(number, integer(-1)).max({axis});
  Tensor none = last < 0;
  Tensor value = take(none.where(integer(0), last));
  while (none.rank() < x.rank()) none = none.unsqueeze(-1);
  return none.where(x, value);
}

} // namespace

Tensor Tensor::scatter_elements(const Tensor& indices, const Tensor& updates, int64_t axis,
                                Combine how) const {
  require_integers(indices, "scatter_elements");
  if (indices.rank() != rank() || !(indices.shape() == updates.shape()))
    throw InvalidArgument("scatter_elements: indices " + to_string(indices.shape()) + " and updates " +
                          to_string(updates.shape()) + " must share a shape of the data's rank " +
                          std::to_string(rank()));
  axis = normal_axis(axis, rank(), "scatter_elements");
  if (indices.numel() == 0 || numel() == 0) return detail::value_of(*this);
  // The updates may cover only a corner off the axis: pad them with an index that hits nothing.
  Tensor i = wrapped(indices, size(axis)).transpose(axis, -1), u = updates.cast(dtype()).transpose(axis, -1),
         x = transpose(axis, -1);
  std::vector<std::pair<int64_t, int64_t>> grow(size_t(rank()), {0, 0});
  for (int64_t d = 0; d + 1 < rank(); ++d) {
    int64_t missing = (x.size(d) - i.size(d)).value("scatter_elements");
    if (missing < 0)
      throw InvalidArgument("scatter_elements: indices " + to_string(indices.shape()) + " exceed the data " +
                            to_string(shape()));
    grow[size_t(d)] = {0, missing};
  }
  i = i.pad(grow, -1), u = u.pad(grow);
  Tensor hit = equal(i.unsqueeze(-2), arange(x.size(-1)).unsqueeze(-1));
  Tensor out = combined(x, hit, u.unsqueeze(-2), how, hit.rank() - 1,
                        [&](const Tensor& p) { return u.gather_elements(p, -1); });
  return out.transpose(axis, -1);
}

Tensor Tensor::scatter_nd(const Tensor& indices, const Tensor& updates, Combine how) const {
  require_integers(indices, "scatter_nd");
  int64_t depth = indices.size(-1).value("scatter_nd");
  if (depth > rank())
    throw InvalidArgument("scatter_nd: indices of depth " + std::to_string(depth) + " exceed the data " +
                          to_string(shape()));
  if (indices.numel() == 0 || numel() == 0) return detail::value_of(*this);
  Tensor linear = integer(0), valid = constant(DType::BOOL, 1);
  SInt cells = 1, rest = 1;
  for (int64_t d = 0; d < depth; ++d) {
    Tensor i = wrapped(indices.narrow(-1, d, 1).squeeze(-1), size(d)),
           bound(tolk::cast(size(d).uop(), DType::I64));
    valid = valid & (i >= 0) & (i < bound);
    linear = linear * bound + i;
    cells = cells * size(d);
  }
  for (int64_t d = depth; d < rank(); ++d) rest = rest * size(d);
  linear = valid.where(linear, integer(-1)).flatten();
  Tensor rows = reshape({cells, rest}), u = updates.cast(dtype()).reshape({linear.numel(), rest});
  if (how == Combine::Add)
    if (Tensor sums = detail::sum_by_index(u, linear, cells); sums.defined())
      return (rows + sums).reshape(shape());
  Tensor hit = equal(linear.unsqueeze(0), arange(cells).unsqueeze(1)); // (cells, updates)
  Tensor out;
  if (how == Combine::Replace)
    out = combined(rows, hit, u, how, 1, [&](const Tensor& p) { return u.gather(p, 0); });
  else
    out = combined(rows, hit.unsqueeze(-1), u.unsqueeze(0), how, 1, {});
  return out.reshape(shape());
}

} // namespace tolk
