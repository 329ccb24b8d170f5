// One step of an optimiser: ai.onnx.preview.training. Inputs are the rate, the step's number, then for n
// tensors all values, all gradients, and all states; outputs the new values and states in the same order.
#include <functional>

#include "tolk/base/error.h"
#include "tolk/onnx/importer.h"

namespace tolk::onnx {
namespace {

using Values = std::vector<GraphValue>;
using Step =
    std::function<std::vector<Tensor>(const Tensor& x, const Tensor& g, const std::vector<Tensor>& states)>;

// Calls the step for every tensor; it gives the new value and the new states.
Values for_each_tensor(OpCall& op, size_t states, const Step& step) {
  size_t kinds = 2 + states, count = op.count() < 2 ? 0 : (op.count() - 2) / kinds;
  if (count == 0 || op.count() != 2 + kinds * count) op.fail("the number of inputs does not fit");
  Values out((1 + states) * count);
  for (size_t i = 0; i < count; ++i) {
    std::vector<Tensor> state;
    for (size_t k = 0; k < states; ++k) state.push_back(op.in(2 + (2 + k) * count + i));
    std::vector<Tensor> next = step(op.in(2 + i), op.in(2 + count + i), state);
    for (size_t k = 0; k < next.size(); ++k) out[k * count + i] = next[k].cast(op.in(2 + i).dtype());
  }
  return out;
}

Values adagrad(OpCall& op) {
  double epsilon = op.node.number("epsilon", 1e-6f), norm = op.node.number("norm_coefficient", 0);
  Tensor rate =
      op.in(0) / (op.in(1).cast(op.in(0).dtype()) * double(op.node.number("decay_factor", 0)) + 1.0);
  return for_each_tensor(op, 1, [&](const Tensor& x, const Tensor& given, const std::vector<Tensor>& s) {
    Tensor g = x * norm + given, h = s[0] + g * g;
    return std::vector<Tensor>{x - rate * g / (h.sqrt() + epsilon), h};
  });
}

Values adam(OpCall& op) {
  double alpha = op.node.number("alpha", 0.9f), beta = op.node.number("beta", 0.999f),
         epsilon = op.node.number("epsilon", 1e-6f);
  double norm = op.node.number("norm_coefficient", 0),
         norm_after = op.node.number("norm_coefficient_post", 0);
  // The moments start at 0, which their first steps make up for.
  Tensor t = op.in(1).cast(DType::F64), one = like(t, 1);
  Tensor correction = (one - like(t, beta).pow(t)).sqrt() / (one - like(t, alpha).pow(t));
  Tensor rate = op.in(0) * (t > 0).where(correction, one).cast(op.in(0).dtype());
  return for_each_tensor(op, 2, [&](const Tensor& x, const Tensor& given, const std::vector<Tensor>& s) {
    Tensor g = x * norm + given;
    Tensor v = s[0] * alpha + g * (1 - alpha), h = s[1] * beta + g * g * (1 - beta);
    return std::vector<Tensor>{(x - rate * (v / (h.sqrt() + epsilon))) * (1 - norm_after), v, h};
  });
}

Values momentum(OpCall& op) {
  double alpha = op.node.number("alpha", 0), beta = op.node.number("beta", 0),
         norm = op.node.number("norm_coefficient", 0);
  std::string mode = op.node.text("mode", "standard");
  if (mode != "standard" && mode != "nesterov")
    op.fail("mode must be standard or nesterov, not \"" + mode + "\"");
  return for_each_tensor(op, 1, [&](const Tensor& x, const Tensor& given, const std::vector<Tensor>& s) {
    Tensor g = x * norm + given;
    Tensor v = s[0] * alpha + (op.in(1) > 0).where(like(x, beta), like(x, 1)) * g;
    return std::vector<Tensor>{x - op.in(0) * (mode == "nesterov" ? g + v * alpha : v), v};
  });
}

constexpr OpRow kRows[] = {
    {"ai.onnx.preview.training", "Adagrad", 1, adagrad},
    {"ai.onnx.preview.training", "Adam", 1, adam},
    {"ai.onnx.preview.training", "Momentum", 1, momentum},
};

} // namespace

std::span<const OpRow> training_ops() { return kRows; }

} // namespace tolk::onnx
