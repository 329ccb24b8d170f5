// Normalisation.
#include <algorithm>
#include <cmath>

#include "tolk/base/error.h"
#include "tolk/onnx/importer.h"

namespace tolk::onnx {
namespace {

using Values = std::vector<GraphValue>;

// (C) as (C, 1, 1 ...) for an input (N, C, ...).
Tensor per_channel(const Tensor& v, const Tensor& x) {
  Shape shape(size_t(std::max<int64_t>(x.rank() - 1, 1)), SInt(1));
  shape[0] = v.numel();
  return v.reshape(shape);
}

Axes from_axis(const Tensor& x, int64_t axis) {
  Axes axes;
  for (int64_t i = axis; i < x.rank(); ++i) axes.push_back(i);
  return axes;
}

// Statistics of channels, or of every cell of an image before version 9 with spatial = 0. What training alone
// puts out (running and saved statistics) is computed in training mode, which older versions do not have here.
Values batch_norm(OpCall& op) {
  const Tensor& x = op.in(0);
  double epsilon = op.node.number("epsilon", 1e-5f), momentum = op.node.number("momentum", 0.9f);
  bool per_cell = op.opset < 9 && op.node.integer("spatial", 1) == 0;
  if (x.rank() < (per_cell ? 2 : 1))
    op.fail("the input has no channels, its shape is " + to_string(x.shape()));
  Shape cells(x.shape().begin() + 1, x.shape().end());
  SInt wanted = per_cell ? numel(cells) : x.rank() > 1 ? x.size(1) : SInt(1);
  for (size_t i = 1; i <= 4; ++i)
    if (!(op.in(i).numel() == wanted))
      op.fail("input " + std::to_string(i) + " " + to_string(op.in(i).shape()) + " must have " +
              to_string(wanted) + (per_cell ? " elements, one a cell" : " elements, one a channel"));
  DType wide = sum_dtype(x.dtype());
  auto spread = [&](const Tensor& v) { return per_cell ? v.reshape(cells) : per_channel(v, x); };
  Tensor t = x.cast(wide), scale = op.in(1).cast(wide), bias = op.in(2).cast(wide),
         mean = op.in(3).cast(wide), var = op.in(4).cast(wide);
  auto normalised = [&](const Tensor& m, const Tensor& v) {
    Tensor factor = spread(scale) / (spread(v) + epsilon).sqrt();
    return ((t - spread(m)) * factor + spread(bias)).cast(x.dtype());
  };
  if (!op.node.integer("training_mode", 0))
    return {normalised(mean, var), GraphValue(), GraphValue(), GraphValue(), GraphValue()};
  Axes axes{0};
  for (int64_t i = 2; i < x.rank(); ++i) axes.push_back(i);
  Tensor m = t.mean(axes), v = t.var(axes);
  return {normalised(m, v), (mean * momentum + m * (1 - momentum)).cast(op.in(3).dtype()),
          (var * momentum + v * (1 - momentum)).cast(op.in(4).dtype())};
}

Values instance_norm(OpCall& op) {
  const Tensor& x = op.in(0);
  if (x.rank() < 3 || !(op.in(1).numel() == x.size(1)) || !(op.in(2).numel() == x.size(1)))
    op.fail("input " + to_string(x.shape()) +
            " needs spatial axes, and a scale and a bias for each channel, not " +
            to_string(op.in(1).shape()) + " and " + to_string(op.in(2).shape()));
  Axes axes;
  for (int64_t i = 2; i < x.rank(); ++i) axes.push_back(i);
  Tensor y = x.cast(sum_dtype(x.dtype())).layer_norm(axes, op.node.number("epsilon", 1e-5f));
  return {(y * per_channel(op.in(1), x) + per_channel(op.in(2), x)).cast(x.dtype())};
}

Values group_norm(OpCall& op) {
  const Tensor& x = op.in(0);
  int64_t groups = op.node.require_integer("num_groups");
  if (x.rank() < 3) op.fail("the input " + to_string(x.shape()) + " has no spatial axes");
  int64_t channels = x.size(1).value("GroupNormalization");
  if (channels % groups) op.fail("num_groups must divide the " + std::to_string(channels) + " channels");
  Shape split{x.size(0), groups, channels / groups};
  split.insert(split.end(), x.shape().begin() + 2, x.shape().end());
  Tensor y = x.cast(sum_dtype(x.dtype())).reshape(split);
  y = y.layer_norm(from_axis(y, 2), op.node.number("epsilon", 1e-5f));
  // Until opset 21 scale and bias belonged to groups.
  bool by_group = op.in(1).numel() == groups && groups != channels;
  for (size_t i : {1, 2})
    if (!(op.in(i).numel() == (by_group ? groups : channels)))
      op.fail("input " + std::to_string(i) + " " + to_string(op.in(i).shape()) + " must have " +
              std::to_string(by_group ? groups : channels) +
              (by_group ? " elements, one a group" : " elements, one a channel"));
  auto spread = [&](const Tensor& v) {
    Shape line(y.shape().size() - 1, SInt(1));
    line[0] = groups;
    if (!by_group) line[1] = channels / groups;
    return v.reshape(line);
  };
  y = y * spread(op.in(1)) + spread(op.in(2));
  return {y.reshape(x.shape()).cast(x.dtype())};
}

// Scales and biases stretch to the input, never the input to them.
void require_shape(OpCall& op, const Tensor& y, const Tensor& x) {
  if (!(y.shape() == x.shape()))
    op.fail("scale or bias do not fit the input " + to_string(x.shape()) + ": together they are " +
            to_string(y.shape()));
}

Values layer_norm(OpCall& op) {
  const Tensor& x = op.in(0);
  Axes axes = from_axis(x, op.axis("axis", -1, x.rank()));
  double epsilon = op.node.number("epsilon", 1e-5f);
  DType wide = sum_dtype(x.dtype());
  Tensor t = x.cast(wide), mean = t.mean(axes, true), centred = t - mean;
  Tensor inverse = ((centred * centred).mean(axes, true) + epsilon).sqrt().reciprocal();
  Tensor y = (centred * inverse).cast(x.dtype()) * op.in(1);
  if (op.has(2)) y = y + op.in(2);
  require_shape(op, y, x);
  return {y.cast(x.dtype()), mean, inverse};
}

Tensor rms(const Tensor& x, const Axes& axes, double epsilon) {
  Tensor t = x.cast(sum_dtype(x.dtype()));
  return t / ((t * t).mean(axes, true) + epsilon).sqrt();
}
Values rms_norm(OpCall& op) {
  const Tensor& x = op.in(0);
  Tensor y = rms(x, from_axis(x, op.axis("axis", -1, x.rank())), op.node.number("epsilon", 1e-5f));
  return {(y.cast(x.dtype()) * op.in(1)).cast(op.in(1).dtype())};
}

// com.microsoft: input + skip [+ bias], normalised over the last axis; output 3 is the sum. All of it is computed
// in a type that holds the sum.
template <typename F> Values normalised_sum(OpCall& op, size_t bias, F normalise) {
  const Tensor& x = op.in(0);
  DType wide = sum_dtype(x.dtype());
  Tensor sum = x.cast(wide) + op.in(1).cast(wide);
  if (op.has(bias)) sum = sum + op.in(bias).cast(wide);
  Tensor y = normalise(sum, wide);
  require_shape(op, y, x);
  return {y.cast(x.dtype()), GraphValue(), GraphValue(), sum.cast(x.dtype())};
}
Values skip_layer_norm(OpCall& op) {
  return normalised_sum(op, 4, [&](const Tensor& sum, DType wide) {
    Tensor y = sum.layer_norm({-1}, op.node.number("epsilon", 1e-5f)) * op.in(2).cast(wide);
    return op.has(3) ? y + op.in(3).cast(wide) : y;
  });
}
Values skip_rms_norm(OpCall& op) {
  return normalised_sum(op, 3, [&](const Tensor& sum, DType wide) {
    return rms(sum, {-1}, op.node.number("epsilon", 1e-5f)) * op.in(2).cast(wide);
  });
}

// Squares and sums of small floats are taken in f32 from here on: they leave the range of f16 early.
Values lp_norm(OpCall& op) {
  const Tensor& given = op.in(0);
  Tensor x = given.cast(sum_dtype(given.dtype()));
  int64_t axis = op.axis("axis", -1, x.rank());
  Tensor norm = op.node.integer("p", 2) == 1 ? x.abs().sum({axis}, true) : (x * x).sum({axis}, true).sqrt();
  return {equal(norm, 0.0).where(like(x, 0), x / norm).cast(given.dtype())};
}

Values mean_variance_norm(OpCall& op) {
  const Tensor& given = op.in(0);
  Tensor x = given.cast(sum_dtype(given.dtype()));
  Axes axes = op.axes(op.node.integers("axes", {0, 2, 3}), x.rank(), "axes");
  Tensor centred = x - x.mean(axes, true);
  return {(centred / ((centred * centred).mean(axes, true).sqrt() + 1e-9)).cast(given.dtype())};
}

Values lrn(OpCall& op) {
  const Tensor& given = op.in(0);
  if (given.rank() < 2) op.fail("the input has no channels, its shape is " + to_string(given.shape()));
  Tensor x = given.cast(sum_dtype(given.dtype()));
  int64_t size = op.node.require_integer("size");
  double alpha = op.node.number("alpha", 1e-4f), beta = op.node.number("beta", 0.75f),
         bias = op.node.number("bias", 1);
  std::vector<std::pair<int64_t, int64_t>> around(size_t(x.rank()), {0, 0});
  // Beyond all channels a window holds nothing more.
  int64_t channels = x.size(1).value("LRN"), before = std::min((size - 1) / 2, channels),
          after = std::min(size - 1 - (size - 1) / 2, channels);
  around[1] = {before, after};
  Tensor squares = (x * x).pad(around).window(1, x.size(1), before + after + 1, 1, 1).sum({2});
  return {(x / (squares * (alpha / double(size)) + bias).pow(like(x, beta))).cast(given.dtype())};
}

constexpr OpRow kRows[] = {
    {"", "BatchNormalization", 1, batch_norm},
    {"", "InstanceNormalization", 1, instance_norm},
    {"", "GroupNormalization", 18, group_norm},
    {"", "LayerNormalization", 1, layer_norm},
    {"", "RMSNormalization", 23, rms_norm},
    {"", "SimplifiedLayerNormalization", 1, rms_norm},
    {"com.microsoft", "SkipLayerNormalization", 1, skip_layer_norm},
    {"com.microsoft", "SimplifiedLayerNormalization", 1, rms_norm},
    {"com.microsoft", "SkipSimplifiedLayerNormalization", 1, skip_rms_norm},
    {"", "LpNormalization", 1, lp_norm},
    {"", "MeanVarianceNormalization", 9, mean_variance_norm},
    {"", "LRN", 1, lrn},
};

} // namespace

std::span<const OpRow> norm_ops() { return kRows; }

} // namespace tolk::onnx
