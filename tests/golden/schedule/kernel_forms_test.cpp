#include "programs.h"
#include "tolk/uop/print.h"
#include <boost/test/unit_test.hpp>
#include <iostream>
using namespace mini;
BOOST_AUTO_TEST_CASE(show) {
  auto show = [](const char* n, const T& t) {
    std::cout << "== " << n << "\n";
    auto s = programs::schedule({t});
    for (auto& c : s.linear.src())
      std::cout << (c.src(0).is(Op::SINK) ? tolk::print_kernel(c.src(0)) : tolk::print_line(c.src(0)) + "\n");
  };
  show("sum(a*b)", sum(buffer({4, 8}) * buffer({4, 8}), {1}));
  show("softmax", softmax(buffer({4, 8})));
  show("layernorm", layer_norm(buffer({4, 8})));
  show("matmul", matmul(buffer({4, 8}), buffer({8, 5})));
  show("conv", conv2d(buffer({1, 2, 5, 5}), buffer({3, 2, 3, 3}), 1));
  show("conv stride", conv2d(buffer({1, 2, 7, 7}), buffer({3, 2, 3, 3}), 0, 2));
  show("pad(exp)", pad(exp(buffer({4})), {1}, {1}));
  show("exp(pad)", exp(pad(buffer({4}), {1}, {1})));
  show("cat", concat({buffer({4, 4}), buffer({4, 4})}, 0));
  show("stack", stack({buffer({4, 4}), buffer({4, 4})}));
  show("reshape/permute",
       contiguous(mini::reshape(permute(mini::reshape(buffer({4, 6}), {2, 2, 6}), {1, 0, 2}), {4, 6})));
  show("cumsum 8", cumsum(buffer({8})));
  show("arange", arange(10));
  show("one_hot", one_hot(buffer({5}, DType::I32), 10));
  show("gather", gather(buffer({100, 16}), buffer({5}, DType::I32), 0));
  T a = buffer({4, 4});
  show("assign T", assign(a, transpose(a) + 1));
  T v = buffer({4});
  show("assign part", assign(shrink(v, {2}, {2}), buffer({2})));
  show("sum sum", sum(sum(buffer({3, 8, 16}), {2}), {1}));
  show("attention", attention(buffer({6, 4}), buffer({6, 4}), buffer({6, 4})));
  show("argmax", argmax(buffer({4, 8})));
  show("maxpool", max_pool2d(buffer({1, 2, 6, 6}), 3, 2, 1));
}
