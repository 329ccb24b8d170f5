// Reading images at computed places: GridSample, AffineGrid, RoiAlign, DeformConv, and Col2Im.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tolk/base/error.h"
#include "tolk/onnx/importer.h"

namespace tolk::onnx {
namespace {

using Values = std::vector<GraphValue>;

Tensor integer(int64_t v) { return Tensor::constant(DType::I64, v); }

int64_t known(const SInt& n) { return n.value("an image"); }

// x (N, C, sizes...) read at one place per (N, O): coordinates are integers, one tensor (N, O) per spatial
// axis; `valid` (N, O), when defined, says where to read, elsewhere gives 0. The result is (N, C, O).
Tensor pixels(const Tensor& x, const std::vector<Tensor>& at, const Tensor& valid) {
  Tensor linear;
  int64_t cells = 1;
  for (size_t d = 0; d < at.size(); ++d) {
    int64_t n = known(x.size(int64_t(2 + d)));
    linear = d ? linear * n + at[d] : at[d];
    cells *= n;
  }
  if (valid.defined()) linear = valid.where(linear, integer(cells)); // past the end reads 0
  Tensor flat = x.reshape({x.size(0), x.size(1), cells});
  return flat.gather_elements(linear.unsqueeze(1).expand({x.size(0), x.size(1), linear.size(-1)}), 2);
}

// A weighted sum of pixels around each place, or the largest weighted pixel. Per spatial axis: the integer
// positions and weights of its taps, each (N, O).
struct Tap {
  Tensor position, weight, valid;
};
Tensor interpolated(const Tensor& x, const std::vector<std::vector<Tap>>& taps, bool largest = false) {
  Tensor sum;
  std::vector<size_t> pick(taps.size(), 0);
  for (;;) {
    std::vector<Tensor> at;
    Tensor weight, valid;
    for (size_t d = 0; d < taps.size(); ++d) {
      const Tap& t = taps[d][pick[d]];
      at.push_back(t.position);
      if (t.weight.defined()) weight = weight.defined() ? weight * t.weight : t.weight;
      if (t.valid.defined()) valid = valid.defined() ? valid & t.valid : t.valid;
    }
    Tensor term = pixels(x, at, valid);
    if (weight.defined()) term = term * weight.unsqueeze(1);
    sum = !sum.defined() ? term : largest ? sum.maximum(term) : sum + term;
    size_t d = taps.size();
    while (d-- > 0 && ++pick[d] == taps[d].size()) pick[d] = 0;
    if (d == size_t(-1)) return sum;
  }
}

Tensor inside(const Tensor& i, int64_t n) { return (i >= 0) & (i < n); }
Tensor limited(const Tensor& i, int64_t n) { return i.clip(integer(0), integer(n - 1)); }

// Mirrored at both borders until it lies between them.
Tensor reflected(const Tensor& x, double low, double high) {
  double span = high - low;
  if (span <= 0) return like(x, 0) * x;
  Tensor beyond = (x - low).abs(), turns = (beyond / span).floor(), rest = beyond - turns * span;
  Tensor odd = not_equal((turns * 0.5).floor() * 2.0, turns);
  return odd.where(like(x, high) - rest, rest + low);
}

struct Sampling {
  std::string mode, padding;
  bool corners;
};

// The taps along one axis of n elements at coordinates x.
std::vector<Tap> taps_along(const Sampling& how, Tensor x, int64_t n) {
  double low = how.corners ? 0 : -0.5, high = double(n - 1) + (how.corners ? 0 : 0.5);
  if (how.mode == "nearest") x = x.round();
  Tensor out = (x < low) | (x > high);
  // The cubic curve runs on past the border, over repeated pixels.
  if (how.padding == "border" && how.mode != "cubic")
    x = out.where(x.clip(like(x, 0), like(x, double(n - 1))), x);
  if (how.padding == "reflection") x = out.where(reflected(x, low, high), x);
  auto tap = [&](const Tensor& position, const Tensor& weight) {
    Tensor i = position.cast(DType::I64);
    if (how.padding == "zeros") return Tap{i, weight, inside(i, n)};
    if (how.padding == "reflection")
      i = inside(i, n).where(i, reflected(position, low, high).cast(DType::I64));
    return Tap{limited(i, n), weight, {}};
  };
  if (how.mode == "nearest") return {tap(x, {})};
  Tensor base = x.floor(), t = x - base;
  if (how.mode == "linear") return {tap(base, like(t, 1) - t), tap(base + 1.0, t)};
  constexpr double a = -0.75;
  auto near = [&](const Tensor& d) { return ((d * (a + 2) - (a + 3)) * d) * d + 1.0; };  // |d| <= 1
  auto far = [&](const Tensor& d) { return ((d * a - 5 * a) * d + 8 * a) * d - 4 * a; }; // 1 .. 2
  return {tap(base - 1.0, far(t + 1.0)), tap(base, near(t)), tap(base + 1.0, near(like(t, 1) - t)),
          tap(base + 2.0, far(like(t, 2) - t))};
}

Values grid_sample(OpCall& op) {
  const Tensor &x = op.in(0), &grid = op.in(1);
  Sampling how{op.node.text("mode", "linear"), op.node.text("padding_mode", "zeros"),
               op.node.integer("align_corners", 0) != 0};
  if (how.mode == "bilinear") how.mode = "linear";
  if (how.mode == "bicubic") how.mode = "cubic";
  if (how.mode != "nearest" && how.mode != "linear" && how.mode != "cubic")
    op.fail("mode \"" + how.mode + "\" is not known");
  if (how.padding != "zeros" && how.padding != "border" && how.padding != "reflection")
    op.fail("padding_mode \"" + how.padding + "\" is not known");
  int64_t dims = x.rank() - 2;
  if (dims < 1 || grid.rank() != x.rank() || !(grid.size(-1) == dims) || !(grid.size(0) == x.size(0)))
    op.fail("a grid of shape " + to_string(grid.shape()) + " does not fit an input of shape " +
            to_string(x.shape()));
  SInt batch = x.size(0), places = 1;
  Shape shape{batch, x.size(1)};
  for (int64_t d = 0; d < dims; ++d) places = places * grid.size(1 + d), shape.push_back(grid.size(1 + d));
  DType wide = sum_dtype(grid.dtype());
  Tensor flat = grid.cast(wide).reshape({batch, places, dims});
  std::vector<std::vector<Tap>> taps;
  for (int64_t d = 0; d < dims; ++d) {
    int64_t n = known(x.size(2 + d));
    // A grid's coordinates go x, y, z: the last axis first.
    Tensor g = flat.narrow(2, dims - 1 - d, 1).squeeze(2) + 1.0;
    Tensor at = how.corners ? g * (double(n - 1) / 2) : (g * double(n) - 1.0) * 0.5;
    taps.push_back(taps_along(how, at, n));
  }
  return {interpolated(x.cast(sum_dtype(x.dtype())), taps).reshape(shape).cast(x.dtype())};
}

// Places of an output image in the input's coordinates of -1 to 1.
Values affine_grid(OpCall& op) {
  const Tensor& theta = op.in(0);
  std::vector<int64_t> size = op.ints(1);
  bool corners = op.node.integer("align_corners", 0) != 0;
  int64_t dims = int64_t(size.size()) - 2;
  if (dims < 1 || theta.rank() != 3 || !(theta.size(1) == dims) || !(theta.size(2) == dims + 1))
    op.fail("theta " + to_string(theta.shape()) + " does not fit an image of " + std::to_string(dims) +
            " axes");
  op.shape(size, "size");
  for (int64_t n : size)
    if (n < 1) op.fail("size " + io::shape_text(size) + " must be positive");
  if (!(theta.size(0) == size[0]))
    op.fail("theta " + to_string(theta.shape()) + " and size " + io::shape_text(size) +
            " differ in the batch");
  DType wide = sum_dtype(theta.dtype());
  Tensor t = theta.cast(wide), sum;
  Shape image(size.begin() + 2, size.end());
  // theta's columns go with x, y, z: the last axis first.
  auto column = [&](int64_t k) {
    Shape line(size_t(dims) + 2, SInt(1));
    line.front() = theta.size(0), line.back() = dims;
    return t.narrow(2, k, 1).squeeze(2).reshape(line);
  };
  for (int64_t k = 0; k < dims; ++k) {
    int64_t axis = dims - 1 - k, n = size[size_t(2 + axis)];
    std::vector<double> line;
    for (int64_t i = 0; i < n; ++i)
      // One element alone stands at the end, as ONNX Runtime has it; the specification divides by zero.
      line.push_back(corners ? (n > 1 ? -1 + 2.0 * double(i) / double(n - 1) : 1)
                             : (2.0 * double(i) + 1) / double(n) - 1);
    Shape shape(size_t(dims) + 2, SInt(1));
    shape[size_t(1 + axis)] = n;
    Tensor term = column(k) * Tensor::from(line, shape, op.importer.device()).cast(wide);
    sum = sum.defined() ? sum + term : term;
  }
  return {(sum + column(dims)).cast(theta.dtype())};
}

// Regions of x (N, C, H, W), averaged or their largest value taken over a grid of samples in every cell of
// the result.
Values roi_align(OpCall& op) {
  const Tensor &x = op.in(0), &rois = op.in(1);
  if (x.rank() != 4 || rois.rank() != 2 || !(rois.size(1) == 4) || op.in(2).rank() != 1 ||
      !(op.in(2).size(0) == rois.size(0)))
    op.fail("regions " + to_string(rois.shape()) + " and their images " + to_string(op.in(2).shape()) +
            " must be (regions, 4) and (regions), the input " + to_string(x.shape()) + " (N, C, H, W)");
  op.check_positions(2, x.size(0));
  std::string mode = op.node.text("mode", "avg");
  bool half = op.opset >= 16 && op.node.text("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  int64_t oh = op.node.integer("output_height", 1), ow = op.node.integer("output_width", 1);
  int64_t ratio = op.node.integer("sampling_ratio", 0), height = known(x.size(2)), width = known(x.size(3));
  double scale = op.node.number("spatial_scale", 1);
  SInt regions = rois.size(0);
  DType wide = sum_dtype(x.dtype());
  // Image of each region: (R, C, H, W) is read, never stored.
  Tensor images = x.cast(wide).gather(op.in(2), 0);

  struct Axis {
    std::vector<Tap> taps; // (R, out * samples)
    Tensor used;           // (R, 1, samples): samples that count
    Tensor count;          // (R, 1)
    int64_t samples;
  };
  auto axis = [&](int64_t low, int64_t high, int64_t n, int64_t out) {
    Tensor begin = rois.narrow(1, low, 1).cast(wide) * scale,
           end = rois.narrow(1, high, 1).cast(wide) * scale; // (R, 1)
    if (half) begin = begin - 0.5, end = end - 0.5;
    Tensor length = end - begin;
    if (!half) length = length.maximum(like(length, 1));
    Tensor cell = length / double(out);
    Axis a;
    a.samples = ratio;
    a.count = like(cell, double(ratio)).expand({regions, 1});
    if (ratio <= 0) {
      // As many samples as the region has elements, which depends on the data.
      a.count = cell.ceil();
      a.samples = 1;
      for (double c : op.importer.floats(a.count)) {
        if (!(c <= 4096)) op.fail("a region is too large to be sampled at every element");
        a.samples = std::max(a.samples, int64_t(c));
      }
    }
    Tensor k = Tensor::arange(a.samples, wide).reshape({1, 1, a.samples}),
           i = Tensor::arange(out, wide).reshape({1, out, 1});
    a.used = k < a.count.unsqueeze(1);
    Tensor at = begin.unsqueeze(1) +
                cell.unsqueeze(1) * (i + (k + 0.5) / a.count.unsqueeze(1).maximum(like(cell, 1)));
    Tensor p = at.reshape({regions, out * a.samples});
    Tensor seen = (p >= -1.0) & (p <= double(n));
    p = p.clip(like(p, 0), like(p, double(n - 1)));
    Tensor base = p.floor(), t = p - base, first = base.cast(DType::I64);
    a.taps = {{first, like(t, 1) - t, seen}, {limited(first + 1, n), t, seen}};
    return a;
  };
  Axis rows = axis(1, 3, height, oh), columns = axis(0, 2, width, ow);
  // Every row sample meets every column sample: (R, oh * sh, ow * sw).
  int64_t down = oh * rows.samples, across = ow * columns.samples;
  auto spread = [&](const Tensor& t, bool row) {
    Tensor wide_one = row ? t.unsqueeze(2) : t.unsqueeze(1);
    return wide_one.expand({regions, down, across}).reshape({regions, down * across});
  };
  std::vector<std::vector<Tap>> taps(2);
  for (const Tap& t : rows.taps)
    taps[0].push_back({spread(t.position, true), spread(t.weight, true), spread(t.valid, true)});
  for (const Tap& t : columns.taps)
    taps[1].push_back({spread(t.position, false), spread(t.weight, false), spread(t.valid, false)});
  // The largest is taken over weighted pixels, not over sums: so the standard's cases have it.
  Tensor samples = interpolated(images, taps, mode == "max")
                       .reshape({regions, x.size(1), oh, rows.samples, ow, columns.samples});
  Tensor used = rows.used.reshape({regions, 1, 1, rows.samples, 1, 1}) &
                columns.used.reshape({regions, 1, 1, 1, 1, columns.samples});
  if (mode == "max") {
    samples = used.where(samples, like(samples, -std::numeric_limits<double>::infinity()));
    return {samples.max({3, 5}).cast(x.dtype())};
  }
  if (mode != "avg") op.fail("mode must be avg or max, not \"" + mode + "\"");
  Tensor count = (rows.count * columns.count).maximum(like(rows.count, 1)).reshape({regions, 1, 1, 1});
  return {(used.where(samples, like(samples, 0)).sum({3, 5}) / count).cast(x.dtype())};
}

// Convolution whose kernel elements read at shifted places: x (N, C, H, W), weight (M, C / group, kh, kw),
// offsets (N, offset groups * kh * kw * 2, oh, ow), bias, mask (N, offset groups * kh * kw, oh, ow).
Values deform_conv(OpCall& op) {
  const Tensor &x = op.in(0), &w = op.in(1), &offset = op.in(2);
  if (x.rank() != 4 || w.rank() != 4 || offset.rank() != 4) op.fail("only images of two axes are supported");
  int64_t kh = known(w.size(2)), kw = known(w.size(3)), taps_count = kh * kw, oh = known(offset.size(2)),
          ow = known(offset.size(3));
  int64_t group = op.node.integer("group", 1), offset_group = op.node.integer("offset_group", 1);
  int64_t channels = known(x.size(1)), results = known(w.size(0));
  std::vector<int64_t> stride = op.node.integers("strides", {1, 1}),
                       dilation = op.node.integers("dilations", {1, 1}),
                       pads = op.node.integers("pads", {0, 0, 0, 0});
  if (channels % offset_group || channels % group || results % group)
    op.fail("groups do not divide the channels of input " + to_string(x.shape()) + " and weight " +
            to_string(w.shape()));
  auto size_after = [&](int64_t n, int64_t k, size_t d) {
    return (n + pads[d] + pads[d + 2] - (k - 1) * dilation[d] - 1) / stride[d] + 1;
  };
  if (oh != size_after(known(x.size(2)), kh, 0) || ow != size_after(known(x.size(3)), kw, 1))
    op.fail("offsets " + to_string(offset.shape()) + " do not fit the input " + to_string(x.shape()) +
            " and the weight " + to_string(w.shape()));
  DType wide = sum_dtype(x.dtype());
  SInt batch = x.size(0), rows = batch * SInt(offset_group);
  int64_t places = taps_count * oh * ow;
  Tensor shift = offset.cast(wide).reshape({rows, taps_count, 2, oh, ow});
  auto along = [&](int64_t axis, int64_t k, int64_t out, int64_t n) {
    // Kernel tap (kh, kw) and place (oh, ow) before shifting.
    auto line = [&](int64_t size, int64_t position) {
      Shape shape(4, SInt(1));
      shape[size_t(position)] = size;
      return Tensor::arange(size, wide).reshape(shape);
    };
    Tensor tap = line(k, axis) * double(dilation[size_t(axis)]);
    Tensor place = line(out, 2 + axis) * double(stride[size_t(axis)]) - double(pads[size_t(axis)]);
    Tensor base = (tap + place).expand({kh, kw, oh, ow}).reshape({1, taps_count, oh, ow});
    Tensor at = (base + shift.narrow(2, axis, 1).squeeze(2)).reshape({rows, places});
    return taps_along({"linear", "zeros", true}, at, n);
  };
  std::vector<std::vector<Tap>> taps{along(0, kh, oh, known(x.size(2))), along(1, kw, ow, known(x.size(3)))};
  Tensor columns =
      interpolated(x.cast(wide).reshape({rows, channels / offset_group, x.size(2), x.size(3)}), taps);
  columns = columns.reshape({rows, channels / offset_group, taps_count, oh * ow});
  if (op.has(4)) columns = columns * op.in(4).cast(wide).reshape({rows, 1, taps_count, oh * ow});
  columns = columns.reshape({batch, group, channels / group * taps_count, oh * ow});
  Tensor weight = w.cast(wide).reshape({1, group, results / group, channels / group * taps_count});
  Tensor y = weight.matmul_as(columns, wide).reshape({batch, results, oh, ow});
  if (op.has(3)) y = y + op.in(3).cast(wide).reshape({1, results, 1, 1});
  return {y.cast(x.dtype())};
}

// Overlapping blocks, the columns of x (N, C * block, L), added up into an image. For every image element and
// block element a table says which column reaches it.
Values col2im(OpCall& op) {
  const Tensor& x = op.in(0);
  std::vector<int64_t> image = op.ints(1), block = op.ints(2);
  size_t dims = image.size();
  if (dims < 1 || x.rank() != 3)
    op.fail("the input must be (N, C * block, columns), its shape is " + to_string(x.shape()));
  std::vector<int64_t> stride = op.node.integers("strides"), dilation = op.node.integers("dilations"),
                       pads = op.node.integers("pads");
  if (stride.empty()) stride.assign(dims, 1);
  if (dilation.empty()) dilation.assign(dims, 1);
  if (pads.empty()) pads.assign(2 * dims, 0);
  if (block.size() != dims || stride.size() != dims || dilation.size() != dims || pads.size() != 2 * dims)
    op.fail("image, block, strides, dilations and pads must agree in their number of axes");
  for (size_t d = 0; d < dims; ++d)
    if (image[d] < 1 || block[d] < 1 || stride[d] < 1 || dilation[d] < 1 || pads[d] < 0 || pads[d + dims] < 0)
      op.fail("image, block, strides and dilations must be positive");
  std::vector<int64_t> steps(dims);
  int64_t cells = 1, taps = 1, columns = 1;
  double entries = 1;
  for (size_t d = 0; d < dims; ++d) entries *= double(image[d]) * double(block[d]);
  op.check_table(entries, "an image");
  for (size_t d = 0; d < dims; ++d) {
    if (image[d] + pads[d] + pads[d + dims] < dilation[d] * (block[d] - 1) + 1)
      op.fail("a block of " + std::to_string(block[d]) + " does not fit an image of " +
              std::to_string(image[d]));
    steps[d] = (image[d] + pads[d] + pads[d + dims] - dilation[d] * (block[d] - 1) - 1) / stride[d] + 1;
    cells *= image[d], taps *= block[d], columns *= steps[d];
  }
  if (!(x.size(2) == columns) || known(x.size(1)) % taps)
    op.fail("columns of shape " + to_string(x.shape()) + " do not fit the image");
  std::vector<int64_t> from;
  from.reserve(size_t(cells * taps));
  for (int64_t c = 0; c < cells; ++c)
    for (int64_t k = 0; k < taps; ++k) {
      int64_t column = 0, cell = c, tap = k, unit = 1;
      bool hit = true;
      for (size_t d = dims; d-- > 0;) {
        int64_t at = cell % image[d] + pads[d] - tap % block[d] * dilation[d];
        cell /= image[d], tap /= block[d];
        hit &= at >= 0 && at % stride[d] == 0 && at / stride[d] < steps[d];
        column += at / stride[d] * unit, unit *= steps[d];
      }
      from.push_back(hit ? k * columns + column : taps * columns); // past the end reads 0
    }
  int64_t channels = known(x.size(1)) / taps;
  Tensor picked = x.reshape({x.size(0), channels, taps * columns})
                      .gather(Tensor::from(from, {cells, taps}, op.importer.device()), 2);
  Shape shape{x.size(0), channels};
  for (int64_t n : image) shape.emplace_back(n);
  return {picked.sum({3}).reshape(shape).cast(x.dtype())};
}

constexpr OpRow kRows[] = {
    {"", "GridSample", 16, grid_sample}, {"", "AffineGrid", 20, affine_grid}, {"", "RoiAlign", 10, roi_align},
    {"", "DeformConv", 19, deform_conv}, {"", "Col2Im", 18, col2im},
};

} // namespace

std::span<const OpRow> image_ops() { return kRows; }

} // namespace tolk::onnx
