// Resize and Upsample: axis by axis, as a sum over a few taps whose positions and weights depend on sizes
// only and are computed here, in tables.
#include <algorithm>
#include <cmath>

#include "tolk/base/error.h"
#include "tolk/onnx/importer.h"

namespace tolk::onnx {
namespace {

using Values = std::vector<GraphValue>;

// How one axis is resampled. For a result element, `taps` source positions in a row, from `first`, with
// weights; positions outside read the edge.
struct AxisTable {
  int64_t axis = 0, in = 0, out = 0, taps = 0;
  std::vector<int64_t> positions; // out * taps, inside 0 .. in-1
  std::vector<double> weights;    // out * taps; empty: 1 each
  std::vector<bool> outside;      // out: gets the extrapolation value; empty: none
};

struct Method {
  std::string mode, transform, nearest;
  double cubic_a = -0.75;
  bool exclude_outside = false, antialias = false;
};

double cubic(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// The source coordinate of result element i. In f32 as everybody computes it: which neighbour is nearest
// hangs on its rounding.
float source_of(OpCall& op, const Method& m, const AxisTable& t, float scale, float roi_begin, float roi_end,
                int64_t i) {
  auto x = float(i), in = float(t.in), out = float(t.out);
  if (m.transform == "asymmetric") return x / scale;
  if (m.transform == "half_pixel") return (x + 0.5f) / scale - 0.5f;
  if (m.transform == "pytorch_half_pixel") return t.out > 1 ? (x + 0.5f) / scale - 0.5f : 0;
  if (m.transform == "align_corners") return t.out > 1 ? x * (in - 1) / (out - 1) : 0;
  if (m.transform == "half_pixel_symmetric") {
    float adjustment = out / (scale * in);
    return in / 2 * (1 - adjustment) + (x + 0.5f) / scale - 0.5f;
  }
  if (m.transform == "tf_half_pixel_for_nn") return (x + 0.5f) / scale;
  if (m.transform == "tf_crop_and_resize")
    return t.out > 1 ? roi_begin * (in - 1) + x * (roi_end - roi_begin) * (in - 1) / (out - 1)
                     : 0.5f * (roi_begin + roi_end) * (in - 1);
  op.fail("coordinate_transformation_mode \"" + m.transform + "\" is not known");
}

int64_t nearest_of(OpCall& op, const Method& m, double x, double scale) {
  if (m.nearest == "round_prefer_floor") return int64_t(std::ceil(x - 0.5));
  if (m.nearest == "round_prefer_ceil") return int64_t(std::floor(x + 0.5));
  if (m.nearest == "floor") return int64_t(std::floor(x));
  if (m.nearest == "ceil") return int64_t(std::ceil(x));
  // Before version 11 the choice was not an attribute.
  if (m.nearest == "by scale") return int64_t(scale < 1 ? std::ceil(x) : std::floor(x));
  op.fail("nearest_mode \"" + m.nearest + "\" is not known");
}

AxisTable table_of(OpCall& op, const Method& m, int64_t axis, int64_t in, int64_t out, double scale,
                   double roi_begin, double roi_end) {
  AxisTable t;
  t.axis = axis, t.in = in, t.out = out;
  bool crop = m.transform == "tf_crop_and_resize";
  // The kernel's half width in source elements; antialiasing widens it when shrinking.
  double squeeze = m.antialias ? std::min(scale, 1.0) : 1.0;
  int64_t half = m.mode == "nearest" ? 0 : m.mode == "cubic" ? 2 : 1;
  if (half && m.antialias) half = int64_t(std::ceil(double(half) / squeeze));
  t.taps = half ? 2 * half : 1;
  op.check_table(double(out) * double(t.taps), "a result");
  for (int64_t i = 0; i < out; ++i) {
    double x = source_of(op, m, t, float(scale), float(roi_begin), float(roi_end), i);
    if (!(std::abs(x) < 1e9)) op.fail("scales or roi lead outside of the input");
    if (crop) t.outside.push_back(x < 0 || x > double(in - 1));
    if (!half) {
      t.positions.push_back(std::clamp<int64_t>(nearest_of(op, m, x, scale), 0, in - 1));
      continue;
    }
    int64_t first = int64_t(std::ceil(x)) - half;
    double total = 0;
    size_t row = t.weights.size();
    for (int64_t k = 0; k < t.taps; ++k) {
      double distance = (double(first + k) - x) * squeeze;
      double w = m.mode == "cubic" ? cubic(distance, m.cubic_a) : std::max(0.0, 1 - std::abs(distance));
      if (m.exclude_outside && (first + k < 0 || first + k >= in)) w = 0;
      total += w;
      t.weights.push_back(w);
      t.positions.push_back(std::clamp<int64_t>(first + k, 0, in - 1));
    }
    if (m.exclude_outside || m.antialias)
      for (size_t k = row; k < t.weights.size(); ++k) t.weights[k] /= total;
  }
  return t;
}

// Every element repeated a whole number of times: a view.
bool repeats(const AxisTable& t) {
  if (t.taps != 1 || t.in == 0 || t.out % t.in) return false;
  int64_t times = t.out / t.in;
  for (int64_t i = 0; i < t.out; ++i)
    if (t.positions[size_t(i)] != i / times) return false;
  return true;
}

Tensor resampled(const Tensor& x, const AxisTable& t, const std::string& device) {
  if (repeats(t)) {
    Shape wide = x.shape(), joined = wide;
    wide.insert(wide.begin() + t.axis + 1, SInt(t.out / t.in));
    joined[size_t(t.axis)] = t.out;
    return x.unsqueeze(t.axis + 1).expand(wide).reshape(joined);
  }
  if (t.taps == 1) return x.gather(Tensor::from(t.positions, {t.out}, device), t.axis);
  Tensor taps = x.gather(Tensor::from(t.positions, {t.out, t.taps}, device), t.axis); // (..., out, taps, ...)
  Shape line(taps.shape().size(), SInt(1));
  line[size_t(t.axis)] = t.out, line[size_t(t.axis) + 1] = t.taps;
  Tensor weights = x.dtype() == DType::F64
                       ? Tensor::from(t.weights, line, device)
                       : Tensor::from(std::vector<float>(t.weights.begin(), t.weights.end()), line, device);
  return (taps * weights.cast(x.dtype())).sum_as(x.dtype(), {t.axis + 1}, false);
}

Values resize_by(OpCall& op, const Method& m, const std::vector<int64_t>& axes,
                 const std::vector<double>& scales, const std::vector<int64_t>& sizes,
                 const std::vector<double>& roi, double extrapolation) {
  const Tensor& x = op.in(0);
  if (m.mode != "nearest" && m.mode != "linear" && m.mode != "cubic")
    op.fail("mode \"" + m.mode + "\" is not known");
  std::vector<AxisTable> tables;
  for (size_t k = 0; k < axes.size(); ++k) {
    int64_t axis = axes[k] < 0 ? axes[k] + x.rank() : axes[k], in = x.size(axis).value("Resize");
    if (!(scales[k] > 0) || sizes[k] < 0) op.fail("scales must be positive");
    if (in == 0 || sizes[k] == 0) op.fail("an axis of size 0 cannot be resized");
    double begin = roi.empty() ? 0 : roi[k], end = roi.empty() ? 1 : roi[k + axes.size()];
    bool same =
        sizes[k] == in && scales[k] == 1 && (m.transform != "tf_crop_and_resize" || (begin == 0 && end == 1));
    if (!same) tables.push_back(table_of(op, m, axis, in, sizes[k], scales[k], begin, end));
  }
  // What shrinks goes first: fewer elements for the rest.
  std::sort(tables.begin(), tables.end(), [](const AxisTable& a, const AxisTable& b) {
    int64_t x = a.out * b.in, y = b.out * a.in;
    return x != y ? x < y : a.axis < b.axis;
  });
  bool sums = m.mode != "nearest";
  Tensor y = sums ? x.cast(sum_dtype(least_float(x.dtype()))) : x;
  for (const AxisTable& t : tables) y = resampled(y, t, op.importer.device());
  for (const AxisTable& t : tables) {
    if (std::find(t.outside.begin(), t.outside.end(), true) == t.outside.end()) continue;
    Shape line(y.shape().size(), SInt(1));
    line[size_t(t.axis)] = t.out;
    y = Tensor::from(t.outside, line, op.importer.device()).where(like(y, extrapolation), y);
  }
  return {y.cast(x.dtype())};
}

// Elements of a resized axis. The product is taken in f32, the type of the scales: 10 times 0.7 are 7, though the
// f32 next to 0.7 is below it.
int64_t scaled_size(OpCall& op, int64_t in, double scale) {
  float size = std::floor(float(in) * float(scale));
  if (!(scale > 0) || !(size < 0x1p60f)) op.fail("a scale of " + std::to_string(scale) + " makes no size");
  return int64_t(size);
}

// Versions 7 to 10: scales for every axis, no attributes but the mode.
Values upsample(OpCall& op) {
  const Tensor& x = op.in(0);
  std::vector<double> scales;
  if (op.node.find("scales")) {
    for (float s : op.node.numbers("scales")) scales.push_back(s);
  } else if (op.count() > 1) {
    scales = op.floats(1);
  } else { // version 1
    scales = {1, 1, op.node.number("height_scale", 1), op.node.number("width_scale", 1)};
  }
  if (int64_t(scales.size()) != x.rank())
    op.fail("a scale for each of the " + std::to_string(x.rank()) + " axes is needed");
  Method m;
  m.mode = op.node.text("mode", "nearest"), m.transform = "asymmetric", m.nearest = "by scale";
  if (m.mode == "bilinear") m.mode = "linear";
  std::vector<int64_t> axes, sizes;
  for (int64_t a = 0; a < x.rank(); ++a) {
    axes.push_back(a);
    sizes.push_back(scaled_size(op, x.size(a).value("Resize"), scales[size_t(a)]));
  }
  return resize_by(op, m, axes, scales, sizes, {}, 0);
}

Values resize(OpCall& op) {
  const Tensor& x = op.in(0);
  Method m;
  m.mode = op.node.text("mode", "nearest");
  m.transform = op.node.text("coordinate_transformation_mode", "half_pixel");
  m.nearest = op.node.text("nearest_mode", "round_prefer_floor");
  m.cubic_a = op.node.number("cubic_coeff_a", -0.75f);
  m.exclude_outside = op.node.integer("exclude_outside", 0) != 0,
  m.antialias = op.node.integer("antialias", 0) != 0;
  std::vector<int64_t> axes = op.axes(op.node.integers("axes"), x.rank(), "axes"), sizes;
  if (axes.empty())
    for (int64_t a = 0; a < x.rank(); ++a) axes.push_back(a);
  std::vector<double> scales, roi;
  auto given = [&](size_t i) { return op.has(i) && !(op.in(i).numel() == 0); };
  if (m.transform == "tf_crop_and_resize") {
    if (!given(1)) op.fail("tf_crop_and_resize needs the input roi");
    roi = op.floats(1);
    if (roi.size() != 2 * axes.size())
      op.fail("roi must have " + std::to_string(2 * axes.size()) + " entries");
  }
  if (given(3)) {
    sizes = op.ints(3);
    if (sizes.size() != axes.size()) op.fail("sizes must have " + std::to_string(axes.size()) + " entries");
    for (int64_t n : sizes)
      if (n < 1 || n > int64_t(1) << 60) op.fail("a size of " + std::to_string(n) + " is not possible");
    for (size_t k = 0; k < axes.size(); ++k)
      scales.push_back(float(sizes[k]) / float(x.size(axes[k]).value("Resize")));
    std::string policy = op.node.text("keep_aspect_ratio_policy", "stretch");
    if (policy != "stretch") {
      double s = policy == "not_larger" ? *std::min_element(scales.begin(), scales.end())
                                        : *std::max_element(scales.begin(), scales.end());
      for (size_t k = 0; k < axes.size(); ++k) {
        scales[k] = s;
        sizes[k] = int64_t(std::floor(float(s) * float(x.size(axes[k]).value("Resize")) + 0.5f));
      }
    }
  } else if (given(2)) {
    scales = op.floats(2);
    if (scales.size() != axes.size()) op.fail("scales must have " + std::to_string(axes.size()) + " entries");
    for (size_t k = 0; k < axes.size(); ++k)
      sizes.push_back(scaled_size(op, x.size(axes[k]).value("Resize"), scales[k]));
  } else {
    op.fail("one of scales and sizes is needed");
  }
  return resize_by(op, m, axes, scales, sizes, roi, op.node.number("extrapolation_value", 0));
}

constexpr OpRow kRows[] = {
    {"", "Upsample", 1, upsample},
    {"", "Resize", 10, upsample},
    {"", "Resize", 11, resize},
};

} // namespace

std::span<const OpRow> resize_ops() { return kRows; }

} // namespace tolk::onnx
