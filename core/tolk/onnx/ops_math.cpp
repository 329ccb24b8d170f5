// Elementwise arithmetic, logic, comparison and activations.
#include <cmath>
#include <limits>

#include "tolk/base/error.h"
#include "tolk/onnx/importer.h"
#include "tolk/onnx/ops_text.h"

namespace tolk::onnx {
namespace {

using Values = std::vector<GraphValue>;

// Opset 6 and older align the second operand at `axis` instead of at the end.
Tensor legacy_aligned(OpCall& op, const Tensor& a, const Tensor& b) {
  if (op.opset >= 7 || !op.node.integer("broadcast", 0)) return b;
  if (b.rank() == 0) return b;
  int64_t axis = op.axis("axis", a.rank() - b.rank(), a.rank());
  Shape shape = b.shape();
  for (int64_t i = axis + b.rank(); i < a.rank(); ++i) shape.emplace_back(1);
  return b.reshape(shape);
}

template <Tensor (*F)(const Tensor&, const Tensor&)> Values binary(OpCall& op) {
  const Tensor& a = op.in(0);
  return {F(a, legacy_aligned(op, a, op.in(1)))};
}
template <Tensor (Tensor::*F)() const> Values unary(OpCall& op) { return {(op.in(0).*F)()}; }

Tensor add(const Tensor& a, const Tensor& b) { return a + b; }
Tensor sub(const Tensor& a, const Tensor& b) { return a - b; }
Tensor mul(const Tensor& a, const Tensor& b) { return a * b; }
Tensor divide(const Tensor& a, const Tensor& b) { return is_float(a.dtype()) ? a / b : a.cdiv(b); }
Tensor less_than(const Tensor& a, const Tensor& b) { return a < b; }
Tensor greater_than(const Tensor& a, const Tensor& b) { return a > b; }
Tensor at_most(const Tensor& a, const Tensor& b) { return a <= b; }
Tensor at_least(const Tensor& a, const Tensor& b) { return a >= b; }
Tensor both(const Tensor& a, const Tensor& b) { return a & b; }
Tensor either(const Tensor& a, const Tensor& b) { return a | b; }
Tensor differ(const Tensor& a, const Tensor& b) { return a ^ b; }
Tensor same(const Tensor& a, const Tensor& b) { return equal(a, b); }

Values equals(OpCall& op) {
  if (op.value(0).is_string()) return {equal_text(op)};
  return binary<same>(op);
}

Values power(OpCall& op) {
  // The result has the base's type, whatever the exponent's.
  const Tensor &x = op.in(0), y = legacy_aligned(op, x, op.in(1));
  if (is_bool(x.dtype()) || is_bool(y.dtype()))
    op.fail("powers of bool do not exist, cast base and exponent to numbers");
  if (is_float(x.dtype()) || !is_float(y.dtype())) {
    if (is_float(x.dtype()) && is_int(y.dtype()))
      return {x.pow(y.cast(bits(y.dtype()) > 16 ? DType::F64 : DType::F32)).cast(x.dtype())};
    return {x.pow(y).cast(x.dtype())};
  }
  return {x.cast(DType::F64).pow(y.cast(DType::F64)).cast(x.dtype())};
}

Values modulo(OpCall& op) {
  if (op.node.integer("fmod", 0)) return {op.in(0).fmod(op.in(1))};
  return {op.in(0).floormod(op.in(1))};
}

Values bit_shift(OpCall& op) {
  return {op.node.text("direction", "") == "LEFT" ? op.in(0).shl(op.in(1)) : op.in(0).shr(op.in(1))};
}

// Max, Min, Sum, Mean take any number of inputs.
template <Tensor (*F)(const Tensor&, const Tensor&)> Tensor folded(std::vector<Tensor> all) {
  Tensor out = all[0];
  for (size_t i = 1; i < all.size(); ++i) out = F(out, all[i]);
  return out;
}
Tensor larger(const Tensor& a, const Tensor& b) { return a.maximum(b); }
Tensor smaller(const Tensor& a, const Tensor& b) { return a.minimum(b); }
Values max_of(OpCall& op) { return {folded<larger>(op.all())}; }
Values min_of(OpCall& op) { return {folded<smaller>(op.all())}; }
// Partial sums of small floats may leave their range where the result does not.
Tensor wide_sum(OpCall& op) {
  std::vector<Tensor> all = op.all();
  for (Tensor& t : all)
    if (is_float(t.dtype())) t = t.cast(sum_dtype(t.dtype()));
  return folded<add>(all);
}
Values sum_of(OpCall& op) { return {wide_sum(op).cast(op.in(0).dtype())}; }
Values mean_of(OpCall& op) { return {(wide_sum(op) / double(op.all().size())).cast(op.in(0).dtype())}; }

Values clip(OpCall& op) {
  Tensor x = op.in(0), low, high;
  if (op.opset < 11) {
    if (op.node.find("min")) low = like(x, op.node.number("min", 0));
    if (op.node.find("max")) high = like(x, op.node.number("max", 0));
  } else {
    // Bounds are single numbers, which must not add axes to the result.
    auto bound = [&](size_t i) {
      if (!op.has(i)) return Tensor();
      if (!(op.in(i).numel() == 1))
        op.fail("input " + std::to_string(i) + " must be one number, its shape is " +
                to_string(op.in(i).shape()));
      return op.in(i).reshape({});
    };
    low = bound(1), high = bound(2);
  }
  return {x.clip(low, high)};
}

Values is_inf(OpCall& op) {
  return {
      op.in(0).isinf(op.node.integer("detect_positive", 1) != 0, op.node.integer("detect_negative", 1) != 0)};
}

Values where(OpCall& op) { return {op.in(0).where(op.in(1), op.in(2))}; }
Values identity(OpCall& op) { return {op.value(0)}; }

// ---- activations; small floats are computed in f32
Tensor wide(const Tensor& x) { return x.cast(sum_dtype(least_float(x.dtype()))); }
template <typename F> Values activation(OpCall& op, F f) {
  const Tensor& x = op.in(0);
  return {f(wide(x)).cast(x.dtype())};
}

Values leaky_relu(OpCall& op) {
  double alpha = op.node.number("alpha", 0.01f);
  return activation(op, [&](const Tensor& x) { return (x < 0).where(x * alpha, x); });
}
// y, for which input i has stretched to input 0; it must not stretch input 0.
Tensor of_input_shape(OpCall& op, const Tensor& y, size_t i) {
  if (!(y.shape() == op.in(0).shape()))
    op.fail("input " + std::to_string(i) + " " + to_string(op.in(i).shape()) +
            " does not broadcast to the input " + to_string(op.in(0).shape()));
  return y;
}
Values prelu(OpCall& op) {
  const Tensor& x = op.in(0);
  Tensor slope = op.in(1);
  if (op.opset < 7 && slope.rank() == 1 && x.rank() > 1) {
    Shape shape(size_t(x.rank()) - 1, SInt(1));
    shape[0] = slope.size(0);
    slope = slope.reshape(shape);
  }
  return {of_input_shape(op, (x < 0).where(x * slope, x), 1)};
}
Values elu(OpCall& op) {
  double alpha = op.node.number("alpha", 1.0f);
  return activation(op, [&](const Tensor& x) { return (x < 0).where(x.expm1() * alpha, x); });
}
Values celu(OpCall& op) {
  double alpha = op.node.number("alpha", 1.0f);
  return activation(op, [&](const Tensor& x) {
    return x.maximum(like(x, 0)) + ((x / alpha).expm1() * alpha).minimum(like(x, 0));
  });
}
Values selu(OpCall& op) {
  double alpha = op.node.number("alpha", 1.67326319217681884765625f),
         gamma = op.node.number("gamma", 1.05070102214813232421875f);
  return activation(op, [&](const Tensor& x) { return (x <= 0).where(x.expm1() * alpha, x) * gamma; });
}
Values hard_sigmoid(OpCall& op) {
  double alpha = op.node.number("alpha", 0.2f), beta = op.node.number("beta", 0.5f);
  return activation(op, [&](const Tensor& x) { return (x * alpha + beta).clip(like(x, 0), like(x, 1)); });
}
Values hard_swish(OpCall& op) {
  return activation(op, [](const Tensor& x) { return x * (x / 6.0 + 0.5).clip(like(x, 0), like(x, 1)); });
}
Values softsign(OpCall& op) {
  return activation(op, [](const Tensor& x) { return x / (x.abs() + 1.0); });
}
Values thresholded_relu(OpCall& op) {
  double alpha = op.node.number("alpha", 1.0f);
  return activation(op, [&](const Tensor& x) { return (x > alpha).where(x, like(x, 0)); });
}
Values shrink(OpCall& op) {
  double lambd = op.node.number("lambd", 0.5f), bias = op.node.number("bias", 0.0f);
  const Tensor& x = op.in(0);
  if (!is_float(x.dtype())) {
    Tensor f = x.cast(DType::F32);
    Tensor y = (f < -lambd).where(f + bias, (f > lambd).where(f - bias, like(f, 0)));
    return {
        y.cast(DType::I64).cast(x.dtype())}; // what the type does not hold wraps, as integer arithmetic does
  }
  return activation(op, [&](const Tensor& t) {
    return (t < -lambd).where(t + bias, (t > lambd).where(t - bias, like(t, 0)));
  });
}
Tensor gelu_erf(const Tensor& x) { return x * 0.5 * ((x * std::sqrt(0.5)).erf() + 1.0); }
Tensor gelu_tanh(const Tensor& x) {
  return x * 0.5 * (((x + x * x * x * 0.044715) * std::sqrt(2 / 3.14159265358979323846)).tanh() + 1.0);
}
Values gelu(OpCall& op) {
  return activation(op, op.node.text("approximate", "none") == "tanh" ? gelu_tanh : gelu_erf);
}
Values fast_gelu(OpCall& op) { // com.microsoft: an optional bias is added first
  const Tensor& x = op.in(0);
  return {gelu_tanh(op.has(1) ? of_input_shape(op, wide(x) + wide(op.in(1)), 1) : wide(x)).cast(x.dtype())};
}
Values bias_gelu(OpCall& op) {
  const Tensor& x = op.in(0);
  return {gelu_erf(of_input_shape(op, wide(x) + wide(op.in(1)), 1)).cast(x.dtype())};
}
Values quick_gelu(OpCall& op) {
  double alpha = op.node.number("alpha", 1.702f);
  return activation(op, [&](const Tensor& x) { return x * (x * alpha).sigmoid(); });
}
Values mish(OpCall& op) {
  return activation(op, [](const Tensor& x) { return x * x.softplus().tanh(); });
}
Values swish(OpCall& op) {
  double alpha = op.node.number("alpha", 1.0f);
  return activation(op, [&](const Tensor& x) { return x * (x * alpha).sigmoid(); });
}
Values relu(OpCall& op) { return {op.in(0).relu()}; }
Values bitwise_not(OpCall& op) { return {op.in(0).logical_not()}; }

constexpr OpRow kRows[] = {
    {"", "Add", 1, binary<add>},
    {"", "Sub", 1, binary<sub>},
    {"", "Mul", 1, binary<mul>},
    {"", "Div", 1, binary<divide>},
    {"", "Pow", 1, power},
    {"", "Mod", 10, modulo},
    {"", "Less", 1, binary<less_than>},
    {"", "Greater", 1, binary<greater_than>},
    {"", "LessOrEqual", 12, binary<at_most>},
    {"", "GreaterOrEqual", 12, binary<at_least>},
    {"", "Equal", 1, equals},
    {"", "And", 1, binary<both>},
    {"", "Or", 1, binary<either>},
    {"", "Xor", 1, binary<differ>},
    {"", "Not", 1, bitwise_not},
    {"", "BitwiseAnd", 18, binary<both>},
    {"", "BitwiseOr", 18, binary<either>},
    {"", "BitwiseXor", 18, binary<differ>},
    {"", "BitwiseNot", 18, bitwise_not},
    {"", "BitShift", 11, bit_shift},
    {"", "Max", 1, max_of},
    {"", "Min", 1, min_of},
    {"", "Sum", 1, sum_of},
    {"", "Mean", 1, mean_of},
    {"", "Clip", 1, clip},
    {"", "Where", 9, where},
    {"", "Identity", 1, identity},
    {"", "IsNaN", 9, unary<&Tensor::isnan>},
    {"", "IsInf", 10, is_inf},
    {"", "Neg", 1, unary<&Tensor::neg>},
    {"", "Abs", 1, unary<&Tensor::abs>},
    {"", "Sign", 9, unary<&Tensor::sign>},
    {"", "Floor", 1, unary<&Tensor::floor>},
    {"", "Ceil", 1, unary<&Tensor::ceil>},
    {"", "Round", 11, unary<&Tensor::round>},
    {"", "Sqrt", 1, unary<&Tensor::sqrt>},
    {"", "Reciprocal", 1, unary<&Tensor::reciprocal>},
    {"", "Exp", 1, unary<&Tensor::exp>},
    {"", "Log", 1, unary<&Tensor::log>},
    {"", "Sin", 7, unary<&Tensor::sin>},
    {"", "Cos", 7, unary<&Tensor::cos>},
    {"", "Tan", 7, unary<&Tensor::tan>},
    {"", "Asin", 7, unary<&Tensor::asin>},
    {"", "Acos", 7, unary<&Tensor::acos>},
    {"", "Atan", 7, unary<&Tensor::atan>},
    {"", "Sinh", 9, unary<&Tensor::sinh>},
    {"", "Cosh", 9, unary<&Tensor::cosh>},
    {"", "Tanh", 1, unary<&Tensor::tanh>},
    {"", "Asinh", 9, unary<&Tensor::asinh>},
    {"", "Acosh", 9, unary<&Tensor::acosh>},
    {"", "Atanh", 9, unary<&Tensor::atanh>},
    {"", "Erf", 9, unary<&Tensor::erf>},
    {"", "Sigmoid", 1, unary<&Tensor::sigmoid>},
    {"", "Softplus", 1, unary<&Tensor::softplus>},
    {"", "Relu", 1, relu},
    {"", "LeakyRelu", 1, leaky_relu},
    {"", "PRelu", 1, prelu},
    {"", "Elu", 1, elu},
    {"", "Celu", 12, celu},
    {"", "Selu", 1, selu},
    {"", "HardSigmoid", 1, hard_sigmoid},
    {"", "HardSwish", 14, hard_swish},
    {"", "Softsign", 1, softsign},
    {"", "ThresholdedRelu", 1, thresholded_relu},
    {"", "Shrink", 9, shrink},
    {"", "Gelu", 20, gelu},
    {"", "Mish", 18, mish},
    {"", "Swish", 24, swish},
    {"com.microsoft", "Gelu", 1, gelu},
    {"com.microsoft", "FastGelu", 1, fast_gelu},
    {"com.microsoft", "BiasGelu", 1, bias_gelu},
    {"com.microsoft", "QuickGelu", 1, quick_gelu},
};

} // namespace

std::span<const OpRow> math_ops() { return kRows; }

} // namespace tolk::onnx
