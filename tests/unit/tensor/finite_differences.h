// Gradients against central differences of the same function, in f64 on the interpreter.
#pragma once

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "device_runs.h"
#include "tolk/tensor/tensor.h"

namespace gradients {

struct Input {
  std::vector<double> values;
  tolk::Shape shape;
  tolk::Tensor tensor() const { return tolk::Tensor::from(values, shape, "INTERP"); }
};
using Function = std::function<tolk::Tensor(const std::vector<tolk::Tensor>&)>;

// Values in [low, high) that are at least 0.01 apart, so that no step crosses a tie or a kink on the grid.
Input numbers(const tolk::Shape& shape, unsigned seed, double low = -2, double high = 2);

// The gradients of sum(w * f(inputs)), w fixed random weights, must equal central differences element by
// element, within 2e-6 of the largest.
void check(const std::string& what, const Function& f, const std::vector<Input>& inputs);

// The gradient of a second function of the gradient: differentiates check's loss twice.
void check_second(const std::string& what, const Function& f, const std::vector<Input>& inputs);

} // namespace gradients
