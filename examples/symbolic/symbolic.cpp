// One captured function for all lengths: the length is a variable whose value comes with each call.
#include <cstdio>
#include <vector>

#include "tolk/tensor/jit.h"
#include "tolk/tensor/tensor.h"

using namespace tolk;

int main() {
  Tensor table = Tensor::arange(100).reshape({10, 10}).cast(DType::F32).contiguous().realize();
  Variable length("length", 1, 10);
  Jit total([&](SInt n) { return table.narrow(0, 0, n).sum(); });
  for (int64_t n : {3, 5, 10, 1}) {
    double sum = total(length.bind(n)).item(); // compiled once, for every length
    double expected = double(10 * n) * double(10 * n - 1) / 2;
    std::printf("first %2lld rows: %g\n", (long long)n, sum);
    if (sum != expected) return 1;
  }
  return total.captured() ? 0 : 1;
}
