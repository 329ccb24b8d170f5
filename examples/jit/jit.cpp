// A captured function: gradient descent on a line, 1000 steps of which only the first two run the function.
#include <cstdio>
#include <vector>

#include "tolk/engine/capture/capture.h"
#include "tolk/tensor/gradient.h"
#include "tolk/tensor/jit.h"

using namespace tolk;

int main() {
  Tensor slope = Tensor::zeros({1}).clone().realize(), offset = Tensor::zeros({1}).clone().realize();
  int runs = 0;
  Jit step([&](Tensor x, Tensor y) {
    ++runs;
    Tensor loss = (x * slope + offset - y).square().mean();
    std::vector<Tensor> values = gradient(loss, std::vector<Tensor>{slope, offset});
    values.push_back(loss);
    Tensor::realize(values); // before what they depend on changes
    slope.assign(slope - values[0] * 0.1).realize();
    offset.assign(offset - values[1] * 0.1).realize();
    return values[2];
  });
  for (int i = 0; i < 1000; ++i) {
    // Points of y = 3x - 1; other ones at every step.
    float a = float(i % 7) / 7, b = float(i % 5) / 5 - 1;
    Tensor x = Tensor::from(std::vector<float>{a, b}, {2}),
           y = Tensor::from(std::vector<float>{3 * a - 1, 3 * b - 1}, {2});
    step(x, y);
  }
  std::printf("y = %.4f x + %.4f, after %d runs of the function\n", slope.item(), offset.item(), runs);
  // A function may take its inputs by position and by name.
  Jit line([&](const Arguments& in) { return (in[0] * slope + in["offset"]).realize(); });
  Tensor two = Tensor::from(std::vector<float>{2}, {1});
  std::printf("at 2: %.4f\n", line(Arguments{two}.with("offset", offset)).item());
  if (!step.captured()) { // JIT=0
    std::printf("nothing was captured: JIT=0 is set\n");
    return 0;
  }
  std::printf("a step is %zu kernels in %zu calls\n", step.captured()->num_kernels(),
              step.captured()->num_calls());
  return runs == 2 ? 0 : 1;
}
