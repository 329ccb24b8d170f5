// Tensors are lazy: operations build a graph, and reading a value compiles and runs it.
#include <tolk/tolk.h>

#include <cstdio>

using namespace tolk;

int main() {
  std::printf("Tolk %s on %s\n", TOLK_VERSION_STRING, default_device().c_str());
  Tensor x = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  Tensor y = (x * 2.0 + 1.0).relu().sum({1});    // nothing has run yet
  std::vector<float> values = y.values<float>(); // one kernel
  std::printf("%g %g\n", values[0], values[1]);
  try {
    x.matmul(x);
  } catch (const InvalidArgument& error) {
    std::printf("a mistake is an exception: %s\n", error.what());
  }
  return values == std::vector<float>{15, 33} ? 0 : 1;
}
