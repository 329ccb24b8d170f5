// Quantisation and integer products.
#include <algorithm>
#include <cmath>

#include "tolk/base/error.h"
#include "tolk/dtype/scalar.h"
#include "tolk/onnx/importer.h"

namespace tolk::onnx {
namespace {

using Values = std::vector<GraphValue>;

// Scale or zero point stretched to x: one value, one per index of `axis`, or one per block of it.
Tensor stretched(OpCall& op, const Tensor& v, const Tensor& x, int64_t axis, int64_t block) {
  if (v.rank() == 0 || (v.rank() == 1 && v.numel() == 1)) return v.reshape({});
  if (axis < 0) axis += x.rank();
  if (axis < 0 || axis >= x.rank()) op.fail("axis is out of range");
  if (v.rank() == 1) {
    Shape line(x.shape().size(), SInt(1));
    line[size_t(axis)] = v.size(0);
    return v.reshape(line);
  }
  if (block < 1) op.fail("a scale of shape " + to_string(v.shape()) + " needs block_size");
  std::vector<int64_t> pick;
  int64_t n = x.size(axis).value("blocked quantisation");
  for (int64_t i = 0; i < n; ++i) pick.push_back(i / block);
  return v.gather(Tensor::from(pick, {n}, op.importer.device()), axis);
}

// Rounds x / scale to nearest even, adds the zero point and saturates to the integer type; floats saturate by
// the cast.
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

Values quantize_linear(OpCall& op) {
  const Tensor& x = op.in(0);
  int64_t axis = op.node.integer("axis", 1), block = op.node.integer("block_size", 0);
  DType to = op.has(2) ? op.type(2)
             : op.node.integer("output_dtype", 0)
                 ? dtype_from_code(op, op.node.integer("output_dtype", 0), true)
                 : DType::U8;
  Tensor zero = op.has(2) ? stretched(op, op.in(2), x, axis, block) : Tensor();
  return {narrow_value(quantised(x, stretched(op, op.in(1), x, axis, block), zero, to), to)};
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

Values dequantize_linear(OpCall& op) {
  const Tensor& x = op.in(0);
  int64_t axis = op.node.integer("axis", 1), block = op.node.integer("block_size", 0);
  DType to = op.node.integer("output_dtype", 0) ? dtype_from_code(op, op.node.integer("output_dtype", 0))
                                                : op.in(1).dtype();
  Tensor zero = op.has(2) ? stretched(op, op.in(2), x, axis, block) : Tensor();
  return {dequantised(x, stretched(op, op.in(1), x, axis, block), zero, to)};
}

Values dynamic_quantize_linear(OpCall& op) {
  const Tensor& x = op.in(0);
  Tensor low = x.min().minimum(like(x, 0)), high = x.max().maximum(like(x, 0));
  Tensor scale = (high - low) / 255.0;
  Tensor zero = (like(x, 0) - low / scale).clip(like(x, 0), like(x, 255)).round().cast(DType::U8);
  return {quantised(x, scale, zero, DType::U8), scale, zero};
}

// x minus its zero point, in 32-bit integers. A zero point per row (of the first) or column (of the second)
// is 1-D.
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

Values matmul_integer(OpCall& op) {
  return {
      centred(op.in(0), op.in_or(2, Tensor()), true).matmul(centred(op.in(1), op.in_or(3, Tensor()), false))};
}

Tensor::Conv conv_of(OpCall& op, const Tensor& x, const Tensor& w) {
  size_t dims = size_t(w.rank()) - 2;
  Tensor::Conv how;
  how.stride = op.node.integers("strides"), how.dilation = op.node.integers("dilations"),
  how.groups = op.node.integer("group", 1);
  how.stride.resize(dims, 1), how.dilation.resize(dims, 1);
  std::vector<int64_t> flat = op.node.integers("pads");
  flat.resize(2 * dims, 0);
  std::string automatic = op.node.text("auto_pad", "NOTSET");
  for (size_t i = 0; i < dims; ++i) {
    std::pair<int64_t, int64_t> pad{flat[i], flat[i + dims]};
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      int64_t n = x.size(int64_t(2 + i)).value("ConvInteger"), s = how.stride[i];
      int64_t total = std::max<int64_t>(
          0, ((n + s - 1) / s - 1) * s + (w.size(int64_t(2 + i)).value("ConvInteger") - 1) * how.dilation[i] +
                 1 - n);
      pad = automatic == "SAME_UPPER" ? std::pair{total / 2, total - total / 2}
                                      : std::pair{total - total / 2, total / 2};
    } else if (automatic == "VALID") {
      pad = {0, 0};
    }
    how.padding.push_back(pad);
  }
  return how;
}

// (M) as (M, 1, 1, ...): one value per output channel of a weight.
Tensor per_output(const Tensor& v, const Tensor& w) {
  if (v.rank() == 0 || v.numel() == 1) return v.reshape({});
  Shape shape(size_t(w.rank()), SInt(1));
  shape[0] = v.numel();
  return v.reshape(shape);
}

Values conv_integer(OpCall& op) {
  Tensor x = op.in(0).cast(DType::I32), w = op.in(1).cast(DType::I32);
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
