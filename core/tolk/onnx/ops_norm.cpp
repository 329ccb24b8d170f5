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

Values batch_norm(OpCall& op) {
  const Tensor& x = op.in(0);
  double epsilon = op.node.number("epsilon", 1e-5f), momentum = op.node.number("momentum", 0.9f);
  DType wide = sum_dtype(x.dtype());
  Tensor t = x.cast(wide), scale = op.in(1).cast(wide), bias = op.in(2).cast(wide),
         mean = op.in(3).cast(wide), var = op.in(4).cast(wide);
  auto normalised = [&](const Tensor& m, const Tensor& v) {
    Tensor factor = per_channel(scale, x) / (per_channel(v, x) + epsilon).sqrt();
    return ((t - per_channel(m, x)) * factor + per_channel(bias, x)).cast(x.dtype());
  };
  if (!op.node.integer("training_mode", 0)) return {normalised(mean, var)};
  Axes axes{0};
  for (int64_t i = 2; i < x.rank(); ++i) axes.push_back(i);
  Tensor m = t.mean(axes), v = t.var(axes);
  return {normalised(m, v), (mean * momentum + m * (1 - momentum)).cast(op.in(3).dtype()),
          (var * momentum + v * (1 - momentum)).cast(op.in(4).dtype())};
}

Values instance_norm(OpCall& op) {
  const Tensor& x = op.in(0);
  Axes axes;
  for (int64_t i = 2; i < x.rank(); ++i) axes.push_back(i);
  Tensor y = x.cast(sum_dtype(x.dtype())).layer_norm(axes, op.node.number("epsilon", 1e-5f));
  return {(y * per_channel(op.in(1), x) + per_channel(op.in(2), x)).cast(x.dtype())};
}

Values group_norm(OpCall& op) {
  const Tensor& x = op.in(0);
  int64_t groups = op.node.require_integer("num_groups");
  int64_t channels = x.size(1).value("GroupNormalization");
  if (groups < 1 || channels % groups)
    op.fail("num_groups must divide the " + std::to_string(channels) + " channels");
  Shape split{x.size(0), groups, channels / groups};
  split.insert(split.end(), x.shape().begin() + 2, x.shape().end());
  Tensor y = x.cast(sum_dtype(x.dtype())).reshape(split);
  y = y.layer_norm(from_axis(y, 2), op.node.number("epsilon", 1e-5f));
  // Until opset 21 scale and bias belonged to groups.
  bool by_group = op.in(1).numel() == groups && groups != channels;
  auto spread = [&](const Tensor& v) {
    Shape line(y.shape().size() - 1, SInt(1));
    line[0] = groups;
    if (!by_group) line[1] = channels / groups;
    return v.reshape(line);
  };
  y = y * spread(op.in(1)) + spread(op.in(2));
  return {y.reshape(x.shape()).cast(x.dtype())};
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

// com.microsoft: input + skip [+ bias], normalised over the last axis; output 3 is the sum.
Values skip_layer_norm(OpCall& op) {
  Tensor sum = op.in(0) + op.in(1);
  if (op.has(4)) sum = sum + op.in(4);
  Tensor y = sum.cast(sum_dtype(sum.dtype())).layer_norm({-1}, op.node.number("epsilon", 1e-5f)) * op.in(2);
  if (op.has(3)) y = y + op.in(3);
  return {y.cast(op.in(0).dtype()), GraphValue(), GraphValue(), sum};
}
Values skip_rms_norm(OpCall& op) {
  Tensor sum = op.in(0) + op.in(1);
  if (op.has(3)) sum = sum + op.in(3);
  return {(rms(sum, {-1}, op.node.number("epsilon", 1e-5f)) * op.in(2)).cast(op.in(0).dtype()), GraphValue(),
          GraphValue(), sum};
}

Values lp_norm(OpCall& op) {
  const Tensor& x = op.in(0);
  int64_t axis = op.node.integer("axis", -1);
  Tensor norm = op.node.integer("p", 2) == 1 ? x.abs().sum({axis}, true) : (x * x).sum({axis}, true).sqrt();
  return {equal(norm, 0.0).where(like(x, 0), x / norm)};
}

Values mean_variance_norm(OpCall& op) {
  const Tensor& x = op.in(0);
  Axes axes = op.node.integers("axes", {0, 2, 3});
  Tensor centred = x - x.mean(axes, true);
  return {centred / ((centred * centred).mean(axes, true).sqrt() + 1e-9)};
}

Values lrn(OpCall& op) {
  const Tensor& x = op.in(0);
  int64_t size = op.node.require_integer("size");
  double alpha = op.node.number("alpha", 1e-4f), beta = op.node.number("beta", 0.75f),
         bias = op.node.number("bias", 1);
  if (size < 1) op.fail("size must be positive, not " + std::to_string(size));
  std::vector<std::pair<int64_t, int64_t>> around(size_t(x.rank()), {0, 0});
  // Beyond all channels a window holds nothing more.
  int64_t channels = x.size(1).value("LRN"), before = std::min((size - 1) / 2, channels),
          after = std::min(size - 1 - (size - 1) / 2, channels);
  around[1] = {before, after};
  Tensor squares = (x * x).pad(around).window(1, x.size(1), before + after + 1, 1, 1).sum({2});
  return {x / (squares * (alpha / double(size)) + bias).pow(like(x, beta))};
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
