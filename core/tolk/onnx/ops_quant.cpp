// Quantisation and integer products.
#include <algorithm>
#include <cmath>

#include "tolk/base/error.h"
#include "tolk/dtype/scalar.h"
#include "tolk/onnx/importer.h"
#include "tolk/onnx/ops_quant.h"
#include "tolk/onnx/ops_window.h"

namespace tolk::onnx {
namespace {

using Values = std::vector<GraphValue>;

// Scale or zero point stretched to x: one value, one per index of `axis`, or one per block of it.
Tensor stretched(OpCall& op, const Tensor& v, const Tensor& x, int64_t block) {
  if (v.rank() == 0 || (v.rank() == 1 && v.numel() == 1 && block == 0)) return v.reshape({});
  int64_t axis = op.axis("axis", 1, x.rank());
  auto misfit = [&](const std::string& wanted) {
    op.fail("a scale or zero point of shape " + to_string(v.shape()) + " does not fit the input " +
            to_string(x.shape()) + ": " + wanted);
  };
  if (v.rank() == 1 && block == 0) {
    if (!(v.size(0) == x.size(axis)))
      misfit("one for each index of axis " + std::to_string(axis) + " is needed");
    Shape line(x.shape().size(), SInt(1));
    line[size_t(axis)] = v.size(0);
    return v.reshape(line);
  }
  if (block < 1) misfit("more than one axis needs block_size");
  int64_t n = x.size(axis).value("blocked quantisation");
  bool fits = v.rank() == x.rank() && v.size(axis) == (n + block - 1) / block;
  for (int64_t d = 0; fits && d < x.rank(); ++d) fits = d == axis || v.size(d) == x.size(d);
  if (!fits)
    misfit("one for each block of " + std::to_string(block) + " along axis " + std::to_string(axis) +
           " is needed");
  std::vector<int64_t> pick;
  for (int64_t i = 0; i < n; ++i) pick.push_back(i / block);
  return v.gather(Tensor::from(pick, {n}, op.importer.device()), axis);
}

// The zero point, input 2, stretched to x; undefined when it is left out.
Tensor stretched_zero(OpCall& op, const Tensor& x, int64_t block) {
  if (!op.has(2)) return {};
  if (!(op.in(2).shape() == op.in(1).shape()) && !(op.in(1).numel() == 1 && op.in(2).numel() == 1))
    op.fail("scale " + to_string(op.in(1).shape()) + " and zero point " + to_string(op.in(2).shape()) +
            " must have one shape");
  return stretched(op, op.in(2), x, block);
}

} // namespace

Tensor quantised(const Tensor& x, const Tensor& scale, const Tensor& zero, DType to) {
  DType wide = promote(promote(x.dtype(), scale.dtype()), DType::F32);
  Tensor q = x.cast(wide) / scale.cast(wide);
  if (is_float(to)) {
    if (bits(to) < 8) return narrowed(zero.defined() ? q + zero.cast(wide) : q, to);
    if (zero.defined()) q = q + zero.cast(wide);
    double most = to == DType::F8E4M3 ? 448 : to == DType::F8E4M3FNUZ ? 240 : 57344;
    return q.isnan().where(q, q.clip(like(q, -most), like(q, most))).cast(to);
  }
  q = q.round();
  if (zero.defined()) q = q + zero.cast(wide);
  return q.clip(like(q, double(int_min(to))), like(q, double(int_max(to)))).cast(carrier_of(to));
}

Tensor dequantised(const Tensor& x, const Tensor& scale, const Tensor& zero, DType to) {
  if (is_float(x.dtype())) {
    Tensor f = x.cast(DType::F32);
    return ((zero.defined() ? f - zero.cast(DType::F32) : f) * scale.cast(DType::F32)).cast(to);
  }
  Tensor i = x.cast(DType::I32);
  if (zero.defined()) i = i - zero.cast(DType::I32);
  return (i.cast(DType::F32) * scale.cast(DType::F32)).cast(to);
}

namespace {

Values quantize_linear(OpCall& op) {
  const Tensor& x = op.in(0);
  int64_t block = op.node.integer("block_size", 0);
  DType to = op.has(2) ? op.type(2)
             : op.node.integer("output_dtype", 0)
                 ? dtype_from_code(op, op.node.integer("output_dtype", 0), true)
                 : DType::U8;
  Tensor zero = stretched_zero(op, x, block);
  return {narrow_value(quantised(x, stretched(op, op.in(1), x, block), zero, to), to)};
}

Values dequantize_linear(OpCall& op) {
  const Tensor& x = op.in(0);
  int64_t block = op.node.integer("block_size", 0);
  DType to = op.node.integer("output_dtype", 0) ? dtype_from_code(op, op.node.integer("output_dtype", 0))
                                                : op.in(1).dtype();
  Tensor zero = stretched_zero(op, x, block);
  return {dequantised(x, stretched(op, op.in(1), x, block), zero, to)};
}

Values dynamic_quantize_linear(OpCall& op) {
  DynamicallyQuantised q = dynamically_quantised(op.in(0));
  return {q.values, q.scale, q.zero};
}

} // namespace

DynamicallyQuantised dynamically_quantised(const Tensor& x) {
  Tensor low = x.min().minimum(like(x, 0)), high = x.max().maximum(like(x, 0));
  // A tensor of zeros would divide by zero.
  Tensor scale = equal(high, low).where(like(x, 1), (high - low) / 255.0);
  Tensor zero = (like(x, 0) - low / scale).clip(like(x, 0), like(x, 255)).round().cast(DType::U8);
  return {quantised(x, scale, zero, DType::U8), scale, zero};
}

Tensor centred(const Tensor& x, const Tensor& zero, bool rows) {
  Tensor i = x.cast(DType::I32);
  if (!zero.defined()) return i;
  Tensor z = zero.cast(DType::I32);
  if (z.rank() == 1 && !(z.numel() == 1))
    z = rows ? z.unsqueeze(1) : z.unsqueeze(0);
  else if (z.rank() <= 1)
    z = z.reshape({});
  return i - z;
}

namespace {

Values matmul_integer(OpCall& op) {
  return {
      centred(op.in(0), op.in_or(2, Tensor()), true).matmul(centred(op.in(1), op.in_or(3, Tensor()), false))};
}

// (M) as (M, 1, 1, ...): one value per output channel of a weight.
Tensor per_output(const Tensor& v, const Tensor& w) {
  if (v.rank() == 0 || v.numel() == 1) return v.reshape({});
  Shape shape(size_t(w.rank()), SInt(1));
  shape[0] = v.numel();
  return v.reshape(shape);
}

// A scale or zero point of the weight w is one number, or one for each output channel.
void check_outputs(OpCall& op, size_t i, const Tensor& w) {
  if (!op.has(i) || op.in(i).numel() == 1 || (w.rank() > 0 && op.in(i).numel() == w.size(0))) return;
  op.fail("input " + std::to_string(i) + " " + to_string(op.in(i).shape()) +
          " must be one number, or one for each of the outputs of the weight " + to_string(w.shape()));
}

Values conv_integer(OpCall& op) {
  Tensor x = op.in(0).cast(DType::I32), w = op.in(1).cast(DType::I32);
  check_outputs(op, 3, w);
  if (op.has(2)) x = x - op.in(2).cast(DType::I32).reshape({});
  if (op.has(3)) w = w - per_output(op.in(3).cast(DType::I32), w);
  return {x.conv(w, Tensor(), conv_of(op, x, w))};
}

Values qlinear_matmul(OpCall& op) {
  Tensor product = centred(op.in(0), op.in(2), true).matmul(centred(op.in(3), op.in(5), false));
  auto per_axis = [](const Tensor& s, bool rows) {
    if (s.rank() == 1 && !(s.numel() == 1)) return rows ? s.unsqueeze(1) : s.unsqueeze(0);
    return s.rank() <= 1 ? s.reshape({}) : s;
  };
  Tensor scale = per_axis(op.in(1), true).cast(DType::F32) * per_axis(op.in(4), false).cast(DType::F32);
  Tensor y = product.cast(DType::F32) * scale;
  return {quantised(y, op.in(6).rank() == 1 && op.in(6).numel() == 1 ? op.in(6).reshape({}) : op.in(6),
                    op.in(7).rank() == 1 && op.in(7).numel() == 1 ? op.in(7).reshape({}) : op.in(7),
                    op.in(7).dtype())};
}

Values qlinear_conv(OpCall& op) {
  check_outputs(op, 4, op.in(3));
  check_outputs(op, 5, op.in(3));
  Tensor x = op.in(0).cast(DType::I32) - op.in(2).cast(DType::I32).reshape({});
  Tensor w = op.in(3).cast(DType::I32) - per_output(op.in(5).cast(DType::I32), op.in(3));
  Tensor sum = x.conv(w, op.in_or(8, Tensor()), conv_of(op, x, w));
  Tensor w_scale = op.in(4);
  if (!(w_scale.numel() == 1)) {
    Shape line(size_t(x.rank()) - 1, SInt(1));
    line[0] = w_scale.numel();
    w_scale = w_scale.reshape(line);
  } else {
    w_scale = w_scale.reshape({});
  }
  Tensor y = sum.cast(DType::F32) * (op.in(1).reshape({}) * w_scale);
  return {quantised(y, op.in(6).reshape({}), op.in(7).reshape({}), op.in(7).dtype())};
}

constexpr OpRow kRows[] = {
    {"", "QuantizeLinear", 10, quantize_linear},
    {"", "DequantizeLinear", 10, dequantize_linear},
    {"", "DynamicQuantizeLinear", 11, dynamic_quantize_linear},
    {"", "MatMulInteger", 10, matmul_integer},
    {"", "ConvInteger", 10, conv_integer},
    {"", "QLinearMatMul", 10, qlinear_matmul},
    {"", "QLinearConv", 10, qlinear_conv},
    {"com.microsoft", "QuantizeLinear", 1, quantize_linear},
    {"com.microsoft", "DequantizeLinear", 1, dequantize_linear},
};

} // namespace

std::span<const OpRow> quant_ops() { return kRows; }

} // namespace tolk::onnx
