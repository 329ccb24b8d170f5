// Trains a network with one hidden layer on XOR: gradients, random numbers, and one captured training step.
#include <cstdio>
#include <vector>

#include "tolk/tensor/gradient.h"
#include "tolk/tensor/jit.h"
#include "tolk/tensor/random.h"
#include "tolk/tensor/saved_jit.h"
#include "tolk/tensor/tensor.h"

using namespace tolk;

int main() {
  manual_seed(1);
  Tensor x = Tensor::from(std::vector<float>{0, 0, 0, 1, 1, 0, 1, 1}, {4, 2}).realize();
  Tensor y = Tensor::from(std::vector<float>{0, 1, 1, 0}, {4, 1}).realize();
  std::vector<Tensor> parameters = {randn({2, 8}).realize(), Tensor::zeros({8}).clone().realize(),
                                    randn({8, 1}).realize(), Tensor::zeros({1}).clone().realize()};

  auto network = [&](const Tensor& in) {
    Tensor hidden = (in.matmul(parameters[0]) + parameters[1]).tanh();
    return hidden.matmul(parameters[2]) + parameters[3];
  };
  Jit step([&](Tensor in, Tensor expected) {
    Tensor loss = (network(in) - expected).square().mean();
    std::vector<Tensor> g = gradient(loss, parameters);
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i].assign(parameters[i] - g[i] * 0.2);
    return loss;
  });
  for (int i = 0; i < 2000; ++i) { // calls 1 and 2 run the function, the others only its kernels
    Tensor loss = step(x, y);
    if (i % 500 == 0) std::printf("step %4d  loss %.6f\n", i, loss.item());
  }

  // The trained network as a file: a captured function with its weights.
  Jit predict([&](Tensor in) { return network(in); });
  predict(x), predict(x);
  LoadedJit loaded = load_jit(save_jit(predict, {.weights = true}));
  std::vector<float> values = loaded(x).at(0).values<float>();
  std::printf("xor: %.3f %.3f %.3f %.3f\n", values[0], values[1], values[2], values[3]);
  bool right = values[0] < 0.2 && values[1] > 0.8 && values[2] > 0.8 && values[3] < 0.2;
  return right ? 0 : 1;
}
