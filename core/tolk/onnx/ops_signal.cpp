// Transforms of signals: DFT, STFT, windows, mel weights. A transform is a product with a table of sines and
// cosines in f64, so its error does not grow with the length.
#include <cmath>

#include "tolk/base/error.h"
#include "tolk/io/tensor_proto.h"
#include "tolk/onnx/importer.h"

namespace tolk::onnx {
namespace {

using Values = std::vector<GraphValue>;

constexpr double kPi = 3.14159265358979323846;

struct Transform {
  int64_t length = 0; // of the transform; the signal is cut or padded to it
  bool inverse = false, onesided = false;
};

// x (..., n, 1 or 2) -> (..., out, 2), or (..., out, 1) when a one-sided spectrum is turned back into real
// values.
Tensor transformed(OpCall& op, const Tensor& x, const Transform& t) {
  int64_t parts = x.size(-1).value("DFT"), given = x.size(-2).value("DFT"), n = t.length;
  if (parts != 1 && parts != 2)
    op.fail("the last axis must have one (real) or two (complex) elements, it has " + std::to_string(parts));
  if (n < 1) op.fail("the transform's length must be positive");
  op.check_table(double(n) * double(n), "a transform");
  bool halved = t.inverse && t.onesided; // the other half of the spectrum is its mirror
  int64_t in = std::min(given, halved ? n / 2 + 1 : n), out = t.onesided && !t.inverse ? n / 2 + 1 : n;
  // Angles are reduced before they become floats.
  std::vector<double> cosines, sines;
  for (int64_t k = 0; k < out; ++k)
    for (int64_t i = 0; i < in; ++i) {
      double angle = 2 * kPi * double(k * i % n) / double(n);
      double factor = t.inverse ? 1 / double(n) : 1;
      if (halved && i > 0 && 2 * i != n) factor *= 2;
      cosines.push_back(std::cos(angle) * factor);
      sines.push_back(std::sin(angle) * (t.inverse ? factor : -factor));
    }
  Tensor c = Tensor::from(cosines, {out, in}, op.importer.device()),
         s = Tensor::from(sines, {out, in}, op.importer.device());
  Tensor cut = x.cast(DType::F64).narrow(-2, 0, in);
  auto part = [&](int64_t p) { return cut.narrow(-1, p, 1).squeeze(-1).unsqueeze(-2); };      // (..., 1, in)
  auto product = [&](const Tensor& a, const Tensor& table) { return (a * table).sum({-1}); }; // (..., out)
  Tensor re = part(0);
  if (halved) {
    Tensor y = parts == 2 ? product(re, c) - product(part(1), s) : product(re, c);
    return y.unsqueeze(-1).cast(x.dtype());
  }
  Tensor real = product(re, c), imaginary = product(re, s);
  if (parts == 2) real = real - product(part(1), s), imaginary = imaginary + product(part(1), c);
  return Tensor::stack({real, imaginary}, -1).cast(x.dtype());
}

Values dft(OpCall& op) {
  const Tensor& x = op.in(0);
  int64_t axis = op.opset >= 20 ? (op.has(2) ? op.int_at(2) : -2) : op.node.integer("axis", 1);
  if (axis < 0) axis += x.rank();
  if (axis < 0 || axis >= x.rank() - 1) op.fail("axis must name a dimension of the signal");
  Transform t;
  t.inverse = op.node.integer("inverse", 0) != 0, t.onesided = op.node.integer("onesided", 0) != 0;
  int64_t n = x.size(axis).value("DFT");
  t.length = op.has(1) ? op.int_at(1) : t.inverse && t.onesided ? 2 * (n - 1) : n;
  return {transformed(op, x.transpose(axis, -2), t).transpose(axis, -2)};
}

Values stft(OpCall& op) {
  Tensor x = op.in(0);
  if (x.rank() == 2) x = x.unsqueeze(-1);
  if (op.has(2) && op.in(2).rank() != 1)
    op.fail("the window must have one axis, its shape is " + to_string(op.in(2).shape()));
  if (x.rank() != 3)
    op.fail("the signal must have the axes batch, length and parts, its shape is " + to_string(x.shape()));
  int64_t step = op.int_at(1), n = x.size(1).value("STFT"), frame = n;
  if (op.has(3))
    frame = op.int_at(3);
  else if (op.has(2))
    frame = op.in(2).size(0).value("STFT");
  if (op.has(2) && !(op.in(2).size(0) == frame))
    op.fail("the window has " + to_string(op.in(2).size(0)) + " elements, the frames " +
            std::to_string(frame));
  if (step < 1 || frame < 1 || frame > n)
    op.fail("frames of " + std::to_string(frame) + " do not fit a signal of " + std::to_string(n));
  Tensor frames =
      x.cast(DType::F64).window(1, (n - frame) / step + 1, frame, step, 1); // (B, frames, frame, parts)
  if (op.has(2)) frames = frames * op.in(2).cast(DType::F64).unsqueeze(-1);
  Transform t;
  t.length = frame, t.onesided = op.node.integer("onesided", 1) != 0 && x.size(2) == 1;
  return {transformed(op, frames, t).cast(x.dtype())};
}

DType output_type(OpCall& op) { return dtype_from_code(op, op.node.integer("output_datatype", 1)); }

// a - b cos(2 pi i / n) + c cos(4 pi i / n)
Values window(OpCall& op, double a, double b, double c) {
  int64_t size = op.int_at(0);
  if (size < 0) op.fail("the size must not be negative");
  op.check_table(double(size), "a window");
  double n = double(op.node.integer("periodic", 1) ? size : size - 1);
  std::vector<double> values;
  for (int64_t i = 0; i < size; ++i) {
    double angle = n > 0 ? 2 * kPi * double(i) / n : kPi; // a single element is the window's middle
    values.push_back(a - b * std::cos(angle) + c * std::cos(2 * angle));
  }
  if (values.empty()) return {Tensor::zeros({0}, output_type(op))};
  return {Tensor::from(values, {size}, op.importer.device()).cast(output_type(op))};
}
Values hann(OpCall& op) { return window(op, 0.5, 0.5, 0); }
Values hamming(OpCall& op) { return window(op, 25.0 / 46, 21.0 / 46, 0); }
Values blackman(OpCall& op) { return window(op, 0.42, 0.5, 0.08); }

// Triangles over the bins of a spectrum, their corners evenly spaced in mel.
Values mel_weight_matrix(OpCall& op) {
  int64_t bands = op.int_at(0), length = op.int_at(1), rate = op.int_at(2), bins = length / 2 + 1;
  double low = op.float_at(3), high = op.float_at(4);
  if (bands < 1 || length < 1 || rate < 1) op.fail("bins, length and rate must be positive");
  op.check_table(double(bands) + 2, "a matrix");
  op.check_table(double(bands + 2) * double(bins), "a matrix");
  if (!(low >= 0 && high >= low && high <= rate))
    op.fail("the edges " + std::to_string(low) + " and " + std::to_string(high) +
            " must be in order, between 0 and the rate of " + std::to_string(rate));
  auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  auto hertz = [](double m) { return 700 * (std::pow(10, m / 2595) - 1); };
  double step = (mel(high) - mel(low)) / double(bands + 2);
  std::vector<int64_t> corner;
  for (int64_t i = 0; i < bands + 2; ++i)
    corner.push_back(
        int64_t(std::floor(double(length + 1) * hertz(mel(low) + double(i) * step) / double(rate))));
  std::vector<double> weights(size_t(bins * bands), 0);
  auto set = [&](int64_t bin, int64_t band, double w) {
    if (bin >= 0 && bin < bins) weights[size_t(bin * bands + band)] = w;
  };
  for (int64_t b = 0; b < bands; ++b) {
    int64_t left = corner[size_t(b)], middle = corner[size_t(b) + 1], right = corner[size_t(b) + 2];
    if (left == middle)
      set(middle, b, 1);
    else
      for (int64_t i = left; i <= middle; ++i) set(i, b, double(i - left) / double(middle - left));
    for (int64_t i = middle; i < right; ++i) set(i, b, double(right - i) / double(right - middle));
  }
  return {Tensor::from(weights, {bins, bands}, op.importer.device()).cast(output_type(op))};
}

// Elimination with the largest pivot of each column.
Values det(OpCall& op) {
  const Tensor& x = op.in(0);
  if (x.rank() < 2 || !(x.size(-1) == x.size(-2)))
    op.fail("square matrices are needed, the shape is " + to_string(x.shape()));
  int64_t n = x.size(-1).value("Det");
  SInt count = 1;
  Shape batch(x.shape().begin(), x.shape().end() - 2);
  for (const SInt& s : batch) count = count * s;
  Tensor m = x.cast(sum_dtype(x.dtype())).reshape({count, n, n}), product = Tensor::ones({count}, m.dtype());
  for (int64_t k = 0; k < n; ++k) {
    int64_t left = n - k;
    Tensor pivot = m.narrow(2, 0, 1).abs().argmax(1, true); // (count, 1, 1)
    Tensor row = m.gather_elements(pivot.expand({count, 1, left}), 1);
    Tensor head = row.narrow(2, 0, 1);
    Tensor swapped = equal(pivot, 0).reshape({count});
    product = (product * head.reshape({count}) * swapped.where(like(m, 1), like(m, -1))).contiguous();
    if (left == 1) break;
    // The first row takes the pivot's place.
    Tensor at = Tensor::arange(left).reshape({1, left, 1});
    Tensor rest = equal(at, pivot).where(m.narrow(1, 0, 1), m).narrow(1, 1, left - 1);
    Tensor factor = equal(head, 0.0).where(like(m, 0), rest.narrow(2, 0, 1) / head);
    m = (rest.narrow(2, 1, left - 1) - factor * row.narrow(2, 1, left - 1)).contiguous();
  }
  return {product.reshape(batch).cast(x.dtype())};
}

constexpr OpRow kRows[] = {
    {"", "DFT", 17, dft},
    {"", "STFT", 17, stft},
    {"", "HannWindow", 17, hann},
    {"", "HammingWindow", 17, hamming},
    {"", "BlackmanWindow", 17, blackman},
    {"", "MelWeightMatrix", 17, mel_weight_matrix},
    {"", "Det", 11, det},
};

} // namespace

std::span<const OpRow> signal_ops() { return kRows; }

} // namespace tolk::onnx
