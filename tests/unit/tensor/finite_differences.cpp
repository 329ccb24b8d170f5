#include "finite_differences.h"

#include <algorithm>
#include <cmath>

#include <boost/test/unit_test.hpp>

#include "tolk/tensor/gradient.h"

using namespace tolk;

namespace gradients {
namespace {

// A scalar that depends on every element of y differently.
Tensor weighted(const Tensor& y) {
  int64_t n = y.numel().value();
  std::mt19937 random(99);
  std::vector<double> w;
  for (int64_t i = 0; i < n; ++i) w.push_back(0.5 + double(random() % 1000) / 1000);
  return (y.cast(DType::F64) * Tensor::from(w, y.shape(), "INTERP")).sum();
}

std::vector<Tensor> tensors(const std::vector<Input>& inputs) {
  std::vector<Tensor> out;
  for (const Input& i : inputs) out.push_back(i.tensor());
  return out;
}

void compare(const std::string& what, const Function& loss, const std::vector<Input>& inputs) {
  DeviceScope scope("INTERP");
  std::vector<Tensor> x = tensors(inputs);
  std::vector<Tensor> g = gradient(loss(x), x);
  Tensor::realize(g);
  for (size_t k = 0; k < inputs.size(); ++k) {
    BOOST_TEST((g[k].dtype() == x[k].dtype()), what);
    BOOST_TEST((g[k].shape() == x[k].shape()), what);
    std::vector<double> got = g[k].values<double>(), want;
    for (size_t i = 0; i < inputs[k].values.size(); ++i) {
      constexpr double h = 1e-5;
      double side[2];
      for (int s = 0; s < 2; ++s) {
        std::vector<Input> moved = inputs;
        moved[k].values[i] += s ? -h : h;
        side[s] = loss(tensors(moved)).item();
      }
      want.push_back((side[0] - side[1]) / (2 * h));
    }
    double scale = 1;
    for (double v : want) scale = std::max(scale, std::abs(v));
    for (size_t i = 0; i < want.size(); ++i)
      BOOST_CHECK_MESSAGE(std::abs(got[i] - want[i]) <= 2e-6 * scale,
                          what << ": input " << k << " element " << i << " is " << got[i]
                               << ", differences give " << want[i]);
  }
}

} // namespace

Input numbers(const Shape& shape, unsigned seed, double low, double high) {
  auto n = size_t(numel(shape).value());
  std::vector<size_t> order(n);
  for (size_t i = 0; i < n; ++i) order[i] = i;
  std::mt19937 random(seed);
  std::shuffle(order.begin(), order.end(), random);
  Input out{std::vector<double>(n), shape};
  // One number in the middle half of each of n equal parts of the interval.
  for (size_t i = 0; i < n; ++i)
    out.values[i] =
        low + (high - low) * (double(order[i]) + 0.25 + double(random() % 1000) / 2000) / double(n);
  return out;
}

void check(const std::string& what, const Function& f, const std::vector<Input>& inputs) {
  compare(what, [&](const std::vector<Tensor>& x) { return weighted(f(x)); }, inputs);
}

void check_second(const std::string& what, const Function& f, const std::vector<Input>& inputs) {
  compare(
      what + ", twice",
      [&](const std::vector<Tensor>& x) {
        Tensor total;
        for (const Tensor& g : gradient(weighted(f(x)), x)) {
          Tensor part = weighted(g);
          total = total.defined() ? total + part : part;
        }
        return total;
      },
      inputs);
}

} // namespace gradients
