// Reductions over axes, arg-reductions, cumulative operations, softmax.
#include "tolk/base/error.h"
#include "tolk/onnx/importer.h"

namespace tolk::onnx {
namespace {

using Values = std::vector<GraphValue>;

struct Reduction {
  Axes axes; // empty: all
  bool keep = true, nothing = false;
};

Reduction reduction(OpCall& op) {
  Reduction r;
  r.axes = op.axes(op.ints_either("axes", 1).value_or(Axes()), op.in(0).rank(), "axes");
  r.keep = op.node.integer("keepdims", 1) != 0;
  r.nothing = r.axes.empty() && op.node.integer("noop_with_empty_axes", 0) != 0;
  return r;
}

// The reduction in a wide float type for floats, in the type itself for integers.
template <typename F> Values reduced(OpCall& op, F f) {
  const Tensor& x = op.in(0);
  Reduction r = reduction(op);
  DType wide = is_float(x.dtype()) ? sum_dtype(x.dtype()) : x.dtype();
  return {f(x.cast(wide), r, wide).cast(x.dtype())};
}

Tensor sum(const Tensor& x, const Reduction& r, DType wide) {
  return r.nothing ? x : x.sum_as(wide, r.axes, r.keep);
}

Values reduce_sum(OpCall& op) { return reduced(op, sum); }
Values reduce_sum_square(OpCall& op) {
  return reduced(op, [](const Tensor& x, const Reduction& r, DType wide) { return sum(x * x, r, wide); });
}
Values reduce_l1(OpCall& op) {
  return reduced(op, [](const Tensor& x, const Reduction& r, DType wide) { return sum(x.abs(), r, wide); });
}
Values reduce_l2(OpCall& op) {
  return reduced(op, [](const Tensor& x, const Reduction& r, DType wide) {
    Tensor s = sum(x * x, r, wide);
    return s.cast(is_float(wide) ? wide : DType::F64).sqrt();
  });
}
Values reduce_log_sum(OpCall& op) {
  return reduced(op, [](const Tensor& x, const Reduction& r, DType wide) {
    return sum(x, r, wide).cast(is_float(wide) ? wide : DType::F64).log();
  });
}
Values reduce_log_sum_exp(OpCall& op) {
  return reduced(op, [](const Tensor& x, const Reduction& r, DType wide) {
    Tensor f = x.cast(is_float(wide) ? wide : DType::F64);
    return r.nothing ? f : f.logsumexp(r.axes, r.keep);
  });
}
Values reduce_mean(OpCall& op) {
  const Tensor& x = op.in(0);
  Reduction r = reduction(op);
  if (r.nothing) return {x};
  if (is_float(x.dtype())) return {x.mean(r.axes, r.keep)};
  SInt n = 1;
  for (size_t i = 0; i < x.shape().size(); ++i) {
    bool in = r.axes.empty();
    for (int64_t a : r.axes) in |= (a < 0 ? a + x.rank() : a) == int64_t(i);
    if (in) n = n * x.shape()[i];
  }
  return {x.sum_as(x.dtype(), r.axes, r.keep).cdiv(Tensor::constant(x.dtype(), n.value("ReduceMean")))};
}
Values reduce_prod(OpCall& op) {
  const Tensor& x = op.in(0);
  Reduction r = reduction(op);
  DType wide = is_float(x.dtype()) ? sum_dtype(x.dtype()) : x.dtype();
  return {r.nothing ? x : x.cast(wide).prod(r.axes, r.keep).cast(x.dtype())};
}
Values reduce_max(OpCall& op) {
  Reduction r = reduction(op);
  return {r.nothing ? op.in(0) : op.in(0).max(r.axes, r.keep)};
}
Values reduce_min(OpCall& op) {
  Reduction r = reduction(op);
  return {r.nothing ? op.in(0) : op.in(0).min(r.axes, r.keep)};
}

Values arg_max(OpCall& op) {
  return {op.in(0).argmax(op.node.integer("axis", 0), op.node.integer("keepdims", 1) != 0,
                          op.node.integer("select_last_index", 0) != 0)};
}
Values arg_min(OpCall& op) {
  return {op.in(0).argmin(op.node.integer("axis", 0), op.node.integer("keepdims", 1) != 0,
                          op.node.integer("select_last_index", 0) != 0)};
}

Values cumsum(OpCall& op) {
  return {op.in(0).cumsum(op.int_at(1), op.node.integer("exclusive", 0) != 0,
                          op.node.integer("reverse", 0) != 0)};
}
Values cumprod(OpCall& op) {
  return {op.in(0).cumprod(op.int_at(1), op.node.integer("exclusive", 0) != 0,
                           op.node.integer("reverse", 0) != 0)};
}

// Before opset 13 the axes from `axis` on form one.
template <typename F> Values along_axis(OpCall& op, F f) {
  const Tensor& x = op.in(0);
  if (op.opset >= 13) return {f(x, op.axis("axis", -1, x.rank()))};
  int64_t axis = op.node.integer("axis", 1);
  if (axis < -x.rank() || axis > x.rank())
    op.fail("axis is " + std::to_string(axis) + ", the input has " + std::to_string(x.rank()) + " axes");
  if (axis < 0) axis += x.rank();
  SInt before = 1, after = 1;
  for (int64_t i = 0; i < x.rank(); ++i)
    (i < axis ? before : after) = (i < axis ? before : after) * x.shape()[size_t(i)];
  return {f(x.reshape({before, after}), 1).reshape(x.shape())};
}

Values softmax(OpCall& op) {
  return along_axis(op, [](const Tensor& x, int64_t axis) { return x.softmax(axis); });
}
Values log_softmax(OpCall& op) {
  return along_axis(op, [](const Tensor& x, int64_t axis) { return x.log_softmax(axis); });
}
Values hardmax(OpCall& op) {
  return along_axis(op, [](const Tensor& x, int64_t axis) {
    Tensor first = x.argmax(axis, true);
    Shape line(x.shape().size(), SInt(1));
    line[size_t(axis)] = x.size(axis);
    return equal(Tensor::arange(x.size(axis)).reshape(line), first).cast(x.dtype());
  });
}

constexpr OpRow kRows[] = {
    {"", "ReduceSum", 1, reduce_sum},
    {"", "ReduceSumSquare", 1, reduce_sum_square},
    {"", "ReduceL1", 1, reduce_l1},
    {"", "ReduceL2", 1, reduce_l2},
    {"", "ReduceLogSum", 1, reduce_log_sum},
    {"", "ReduceLogSumExp", 1, reduce_log_sum_exp},
    {"", "ReduceMean", 1, reduce_mean},
    {"", "ReduceProd", 1, reduce_prod},
    {"", "ReduceMax", 1, reduce_max},
    {"", "ReduceMin", 1, reduce_min},
    {"", "ArgMax", 1, arg_max},
    {"", "ArgMin", 1, arg_min},
    {"", "CumSum", 11, cumsum},
    {"", "CumProd", 26, cumprod},
    {"", "Softmax", 1, softmax},
    {"", "LogSoftmax", 1, log_softmax},
    {"", "Hardmax", 1, hardmax},
};

} // namespace

std::span<const OpRow> reduce_ops() { return kRows; }

} // namespace tolk::onnx
