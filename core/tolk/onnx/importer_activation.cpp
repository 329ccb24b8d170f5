// Activations that other operators apply, by name.
#include "tolk/onnx/ops_activation.h"

#include <cctype>

namespace tolk::onnx {
namespace {

constexpr ActivationRow kActivations[] = {
    {"sigmoid", false, false, 0, 0, [](const Tensor& x, double, double) { return x.sigmoid(); }},
    {"tanh", false, false, 0, 0, [](const Tensor& x, double, double) { return x.tanh(); }},
    {"relu", false, false, 0, 0, [](const Tensor& x, double, double) { return x.relu(); }},
    {"softsign", false, false, 0, 0, [](const Tensor& x, double, double) { return x / (x.abs() + 1.0); }},
    {"softplus", false, false, 0, 0, [](const Tensor& x, double, double) { return x.softplus(); }},
    {"affine", true, true, 1, 0, [](const Tensor& x, double a, double b) { return x * a + b; }},
    {"leakyrelu", true, false, 0.01f, 0,
     [](const Tensor& x, double a, double) { return (x < 0).where(x * a, x); }},
    {"thresholdedrelu", true, false, 1, 0,
     [](const Tensor& x, double a, double) { return (x > a).where(x, like(x, 0)); }},
    {"scaledtanh", true, true, 1, 1, [](const Tensor& x, double a, double b) { return (x * b).tanh() * a; }},
    {"hardsigmoid", true, true, 0.2f, 0.5,
     [](const Tensor& x, double a, double b) { return (x * a + b).clip(like(x, 0), like(x, 1)); }},
    {"elu", true, false, 1, 0,
     [](const Tensor& x, double a, double) { return (x < 0).where(x.expm1() * a, x); }},
};

} // namespace

const ActivationRow& activation_row(OpCall& op, const std::string& name) {
  std::string key;
  for (char c : name) key += char(std::tolower(static_cast<unsigned char>(c)));
  for (const ActivationRow& row : kActivations)
    if (key == row.name) return row;
  op.fail("activation \"" + name + "\" is not known");
}

Activation activation_of(const ActivationRow& row, double alpha, double beta) {
  return [=, function = row.function](const Tensor& x) { return function(x, alpha, beta); };
}

} // namespace tolk::onnx
