// Quantised operators of com.microsoft, as the optimisers and quantisation tools of ONNX Runtime write them.
#include <algorithm>

#include "tolk/base/error.h"
#include "tolk/onnx/importer.h"
#include "tolk/onnx/ops_quant.h"
#include "tolk/onnx/ops_window.h"

namespace tolk::onnx {
namespace {

using Values = std::vector<GraphValue>;

// A scale or zero point of one element meets everything; others broadcast along the last axis.
Tensor flat(const Tensor& t) { return t.numel() == 1 ? t.reshape({}) : t; }

// A scale or zero point of a whole tensor.
Tensor single(OpCall& op, size_t i) {
  if (!(op.in(i).numel() == 1))
    op.fail("input " + std::to_string(i) + " must be one number, its shape is " +
            to_string(op.in(i).shape()));
  return op.in(i).reshape({});
}

// Input i with the scale and zero point behind it, as f32.
Tensor real_input(OpCall& op, size_t i) {
  return dequantised(op.in(i), single(op, i + 1), op.has(i + 2) ? single(op, i + 2) : Tensor(), DType::F32);
}
// y in the type of input 0, with the scale and zero point that are inputs i and i + 1.
Values quantised_result(OpCall& op, const Tensor& y, size_t i) {
  return {quantised(y, single(op, i), op.has(i + 1) ? single(op, i + 1) : Tensor(), op.in(0).dtype())};
}

// As quantised_result, but the zero point is added before rounding: ONNX Runtime, whose operators these are, rounds
// ties so in QLinearAdd, QLinearMul and QLinearAveragePool.
Values quantised_after_zero(OpCall& op, const Tensor& y, size_t i) {
  Tensor q = y / single(op, i).cast(DType::F32);
  if (op.has(i + 1)) q = q + single(op, i + 1).cast(DType::F32);
  return {quantised(q, like(q, 1), Tensor(), op.in(0).dtype())};
}

Values qlinear_add(OpCall& op) { return quantised_after_zero(op, real_input(op, 0) + real_input(op, 3), 6); }
Values qlinear_mul(OpCall& op) { return quantised_after_zero(op, real_input(op, 0) * real_input(op, 3), 6); }
Values qlinear_sigmoid(OpCall& op) { return quantised_result(op, real_input(op, 0).sigmoid(), 3); }
Values qlinear_leaky_relu(OpCall& op) {
  Tensor x = real_input(op, 0);
  return quantised_result(op, (x < 0).where(x * double(op.node.number("alpha", 0.01f)), x), 3);
}
Values qlinear_softmax(OpCall& op) {
  Tensor x = real_input(op, 0);
  int64_t axis = op.axis("axis", -1, x.rank());
  if (op.node.require_integer("opset") >= 13) return quantised_result(op, x.softmax(axis), 3);
  // Before version 13 the axes from `axis` on form one.
  SInt rest = 1;
  Shape shape;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (d < axis)
      shape.push_back(x.size(d));
    else
      rest = rest * x.size(d);
  }
  shape.push_back(rest);
  return quantised_result(op, x.reshape(shape).softmax(-1).reshape(x.shape()), 3);
}
Values qlinear_average_pool(OpCall& op) {
  Tensor x = real_input(op, 0);
  Tensor::Pool how = pool_of(op, x);
  if (Shape none; pool_is_empty(x, how, none)) return {Tensor::zeros(none, op.in(0).dtype())};
  return quantised_after_zero(op, x.avg_pool(how, op.node.integer("count_include_pad", 0) != 0), 3);
}
Values qlinear_global_average_pool(OpCall& op) {
  Tensor x = real_input(op, 0);
  bool last = op.node.integer("channels_last", 0) != 0;
  if (x.rank() < 3) op.fail("the input " + to_string(x.shape()) + " has no spatial axes");
  Axes axes;
  for (int64_t i = 2; i < x.rank(); ++i) axes.push_back(last ? i - 1 : i);
  return quantised_result(op, x.mean(axes, true), 3);
}
Values qlinear_reduce_mean(OpCall& op) {
  return quantised_result(
      op, real_input(op, 0).mean(op.node.require_integers("axes"), op.node.require_integer("keepdims") != 0),
      3);
}

// Inputs: scale and zero point of the result, then tensor, scale and zero point of each part.
Values qlinear_concat(OpCall& op) {
  if (op.count() < 5 || (op.count() - 2) % 3)
    op.fail("its inputs are a scale, a zero point, and three for each part; there are " +
            std::to_string(op.count()));
  std::vector<Tensor> parts;
  for (size_t i = 2; i < op.count(); i += 3) parts.push_back(real_input(op, i));
  Tensor joined = Tensor::concat(parts, op.node.require_integer("axis"));
  return {quantised(joined, single(op, 0), single(op, 1), op.in(1).dtype())};
}

Values qlinear_where(OpCall& op) {
  Tensor y = op.in(0).where(real_input(op, 1), real_input(op, 4));
  return {quantised(y, single(op, 7), single(op, 8), op.in(8).dtype())};
}

// alpha * A * B + C, C in the scale of the product; without a scale of its own the result is f32.
Values qgemm(OpCall& op) {
  Tensor a = centred(op.in(0), flat(op.in(2)), true), b = op.in(3);
  bool turned = op.node.integer("transB", 0) != 0;
  if (a.rank() != 2 || b.rank() != 2)
    op.fail("A " + to_string(a.shape()) + " and B " + to_string(b.shape()) + " must be matrices");
  if (op.node.integer("transA", 0)) a = a.transpose(0, 1);
  if (turned) b = b.transpose(0, 1);
  Tensor sum = a.matmul(centred(b, op.in(5), false));
  if (op.has(6)) sum = sum + op.in(6);
  Tensor scale = flat(op.in(1)) * flat(op.in(4)) * double(op.node.number("alpha", 1)),
         y = sum.cast(DType::F32) * scale;
  if (!op.has(7)) return {y};
  if (!op.has(8)) op.fail("y_scale comes with y_zero_point");
  return {quantised(y, flat(op.in(7)), flat(op.in(8)), op.in(8).dtype())};
}

// The product of integers in f32, with a bias.
Tensor scaled_product(OpCall& op, const Tensor& a, const Tensor& b, const Tensor& scale, size_t bias) {
  Tensor y = a.matmul(b).cast(DType::F32) * scale.cast(DType::F32);
  return op.has(bias) ? y + op.in(bias).cast(DType::F32) : y;
}

Values matmul_integer_to_float(OpCall& op) {
  Tensor a = centred(op.in(0), op.in_or(4, Tensor()), true),
         b = centred(op.in(1), op.in_or(5, Tensor()), false);
  Tensor rows = flat(op.in(2));
  if (rows.rank() == 1) rows = rows.unsqueeze(1); // one for each row
  return {scaled_product(op, a, b, rows * flat(op.in(3)), 6).cast(op.in(2).dtype())};
}

Values dynamic_quantize_matmul(OpCall& op) {
  DynamicallyQuantised q = dynamically_quantised(op.in(0));
  Tensor a = centred(q.values, q.zero, true), b = centred(op.in(1), op.in_or(3, Tensor()), false);
  return {scaled_product(op, a, b, q.scale * flat(op.in(2)), 4).cast(op.in(0).dtype())};
}

// u8 (..., n) as (..., n * 8 / bits): each row is a string of bits, lowest first.
Tensor unpacked(const Tensor& bytes, int64_t bits) {
  if (bits == 8) return bytes;
  if (8 % bits) { // numbers that cross bytes; a byte past the end reads 0
    Tensor bit = Tensor::arange(floordiv(bytes.size(-1) * SInt(8), SInt(bits))) * bits,
           byte = bit.floordiv(Tensor::constant(DType::I64, 8));
    Tensor word = bytes.gather(byte, -1).cast(DType::I32) + bytes.gather(byte + 1, -1).cast(DType::I32) * 256;
    Tensor shift = (bit - byte * 8).cast(DType::I32);
    return (word.shr(shift) & Tensor::constant(DType::I32, (int64_t(1) << bits) - 1)).cast(DType::U8);
  }
  int64_t count = 8 / bits;
  Tensor shift = (Tensor::arange(count, DType::I32) * bits).cast(DType::U8),
         mask = Tensor::constant(DType::U8, (int64_t(1) << bits) - 1);
  Shape shape = bytes.shape();
  shape.back() = shape.back() * SInt(count);
  return (bytes.unsqueeze(-1).shr(shift) & mask).reshape(shape);
}

// x (..., K) times a weight of N rows that is stored in blocks of packed numbers, each block with its scale and zero
// point. Inputs: x, numbers (N, blocks, bytes), scales (N, blocks), zero points (packed as the numbers, or as
// scales are), the block of each k, bias.
Values matmul_nbits(OpCall& op) {
  const Tensor& x = op.in(0);
  int64_t k = op.node.require_integer("K"), n = op.node.require_integer("N"),
          block = op.node.require_integer("block_size"), bits = op.node.integer("bits", 4);
  if (block * bits % 8) op.fail("block_size " + std::to_string(block) + " does not fill whole bytes");
  int64_t blocks = (k + block - 1) / block, bytes = block * bits / 8;
  auto require = [&](size_t i, int64_t count) {
    if (!(op.in(i).numel() == count))
      op.fail("input " + std::to_string(i) + " " + to_string(op.in(i).shape()) + " must have " +
              std::to_string(count) + " elements for N " + std::to_string(n) + ", K " + std::to_string(k) +
              " and blocks of " + std::to_string(block));
  };
  require(1, n * blocks * bytes), require(2, n * blocks);
  if (x.rank() < 1 || !(x.size(-1) == k))
    op.fail("the last axis of the input " + to_string(x.shape()) + " must be K, " + std::to_string(k));
  DType wide = sum_dtype(x.dtype());
  Tensor number =
      unpacked(op.in(1).reshape({n, blocks, bytes}), bits).reshape({n, blocks * block}).narrow(1, 0, k);
  Tensor scale = op.in(2).reshape({n, blocks}).cast(wide),
         zero = Tensor::constant(wide, double(1 << (bits - 1)), {n, blocks});
  if (op.has(3) && is_float(op.in(3).dtype())) {
    require(3, n * blocks);
    zero = op.in(3).reshape({n, blocks}).cast(wide);
  } else if (op.has(3)) {
    int64_t row = (blocks * bits + 7) / 8;
    require(3, n * row);
    zero = unpacked(op.in(3).reshape({n, row}), bits).narrow(1, 0, blocks).cast(wide);
  }
  // The block that each k belongs to.
  Tensor of = Tensor::arange(k).floordiv(Tensor::constant(DType::I64, block));
  if (op.has(4)) {
    if (op.in(4).rank() != 1 || op.in(4).size(0).max() < k)
      op.fail("g_idx " + to_string(op.in(4).shape()) + " must name a block for each of the " +
              std::to_string(k) + " columns");
    op.check_positions(4, blocks);
    of = op.in(4).narrow(0, 0, k);
  }
  Tensor weight = (number.cast(wide) - zero.gather(of, 1)) * scale.gather(of, 1);
  Tensor y = x.cast(wide).matmul_as(weight.transpose(0, 1), wide);
  if (op.has(5)) y = y + op.in(5).cast(wide);
  return {y.cast(x.dtype())};
}

constexpr OpRow kRows[] = {
    {"com.microsoft", "MatMulNBits", 1, matmul_nbits},
    {"com.microsoft", "DynamicQuantizeMatMul", 1, dynamic_quantize_matmul},
    {"com.microsoft", "MatMulIntegerToFloat", 1, matmul_integer_to_float},
    {"com.microsoft", "QLinearAdd", 1, qlinear_add},
    {"com.microsoft", "QLinearMul", 1, qlinear_mul},
    {"com.microsoft", "QLinearSigmoid", 1, qlinear_sigmoid},
    {"com.microsoft", "QLinearLeakyRelu", 1, qlinear_leaky_relu},
    {"com.microsoft", "QLinearSoftmax", 1, qlinear_softmax},
    {"com.microsoft", "QLinearAveragePool", 1, qlinear_average_pool},
    {"com.microsoft", "QLinearGlobalAveragePool", 1, qlinear_global_average_pool},
    {"com.microsoft", "QLinearReduceMean", 1, qlinear_reduce_mean},
    {"com.microsoft", "QLinearConcat", 1, qlinear_concat},
    {"com.microsoft", "QLinearWhere", 1, qlinear_where},
    {"com.microsoft", "QGemm", 1, qgemm},
};

} // namespace

std::span<const OpRow> quant_fused_ops() { return kRows; }

} // namespace tolk::onnx
