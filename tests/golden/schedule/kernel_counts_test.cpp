// Every forward, single-device program of the design with a kernel count: at or under it. Each program also
// runs, and its values are compared with those of the tensor graph computed node by node.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <random>

#include "host_graph.h"
#include "programs.h"
#include "tolk/uop/print.h"
#include "tolk/uop/traverse.h"

using namespace mini;
using programs::schedule;

namespace {

struct Program {
  const char* name;
  size_t kernels;
  std::vector<T> roots;
};

std::string listing(const UOp& linear) {
  std::string text;
  for (const UOp& call : linear.src())
    text += call.src(0).is(Op::SINK) ? tolk::print_kernel(call.src(0)) : tolk::print_line(call.src(0)) + "\n";
  return text;
}

void fill_inputs(const std::vector<T>& roots, host::Memory& memory, uint32_t seed) {
  std::vector<UOp> nodes;
  for (const T& t : roots) nodes.push_back(t.u);
  std::mt19937 random(seed);
  for (const UOp& u : tolk::toposort(nodes)) {
    if (!u.is(Op::BUFFER)) continue;
    std::vector<double> values;
    for (int64_t i = 0; i < tolk::elements_of(u); ++i)
      values.push_back(is_float(u.dtype()) ? double(random() % 2001) / 1000 - 1 + (random() % 3 == 0)
                                           : double(random() % 4));
    memory.fill(u, values);
  }
}

void check(const Program& program, bool values = true) {
  auto s = schedule(program.roots);
  BOOST_CHECK_MESSAGE(s.linear.nsrc() <= program.kernels, program.name << ": " << s.linear.nsrc()
                                                                       << " kernels, " << program.kernels
                                                                       << " allowed\n"
                                                                       << listing(s.linear));
  if (!values) return;
  host::Memory memory;
  fill_inputs(program.roots, memory, 7);
  std::vector<host::Values> expected;
  for (const T& root : program.roots) expected.push_back(host::value_of(root.u, memory));
  BOOST_REQUIRE_NO_THROW(host::run_linear(s.linear, memory, s.vars));
  for (size_t r = 0; r < program.roots.size(); ++r) {
    host::Values got = host::value_of(s.results[r], memory);
    DType dtype = program.roots[r].dtype();
    auto want = host::as_doubles(expected[r], dtype), have = host::as_doubles(got, dtype);
    BOOST_REQUIRE_EQUAL(want.size(), have.size());
    for (size_t i = 0; i < want.size(); ++i)
      BOOST_REQUIRE_MESSAGE(std::abs(want[i] - have[i]) <= 1e-5 * (1 + std::abs(want[i])) ||
                                (std::isnan(want[i]) && std::isnan(have[i])),
                            program.name << " element " << i << ": " << have[i] << ", expected " << want[i]
                                         << "\n"
                                         << listing(s.linear));
  }
}

T in(const Shape& shape, DType dtype = DType::F32) { return buffer(shape, dtype); }

} // namespace

BOOST_AUTO_TEST_SUITE(kernel_counts)

BOOST_AUTO_TEST_CASE(views_of_storage_need_no_kernel) {
  T a = in({16}), m = in({4, 4});
  check({"a[4:8]", 0, {shrink(a, {4}, {4})}});
  check({"a.bitcast", 0, {T{tolk::bitcast(a.u, DType::I32)}}});
  check({"a.T", 0, {transpose(m)}});
  check({"contiguous a[4:8]", 0, {contiguous(shrink(a, {4}, {4}))}});
  check({"reshape", 0, {mini::reshape(a, {2, 8})}});
}

BOOST_AUTO_TEST_CASE(results_are_shared_between_roots) {
  T x = in({64}), y = x + 1;
  check({"y, y.sum()", 2, {y, sum(y)}});
}

BOOST_AUTO_TEST_CASE(virtual_constants_need_no_kernel) {
  T one = full({4}, 1), other = full({4}, 1);
  check({"ones+ones, virtual", 1, {one + other}});
  check({"ones+ones, stored", 3, {contiguous(one) + contiguous(full({4}, 1, DType::F32) * 1.0)}});
  check({"arange", 1, {arange(10)}});
}

BOOST_AUTO_TEST_CASE(normalisations_take_a_kernel_for_each_reduction) {
  check({"softmax", 3, {softmax(in({4, 8}))}});
  check({"softmax, large", 3, {softmax(in({512, 1024}))}}, false);
  check({"log_softmax", 3, {log_softmax(in({4, 8}))}});
  check({"layernorm", 3, {layer_norm(in({4, 8}))}});
  check({"layernorm, affine", 3, {layer_norm(in({4, 8})) * in({8}) + in({8})}});
  check({"layernorm, large", 3, {layer_norm(in({256, 768})) * in({768}) + in({768})}}, false);
  check({"rmsnorm", 2, {rms_norm(in({4, 8}))}});
  check({"batchnorm", 1, {batch_norm(in({2, 3, 4, 4}), in({3}), in({3}), in({3}), in({3}) * 0.0 + 2.0)}});
  check({"batchnorm, large", 1, {batch_norm(in({8, 64, 56, 56}), in({64}), in({64}), in({64}), in({64}))}},
        false);
  check({"mean", 1, {mean(in({4, 8}), {1})}});
  check({"var", 2, {var(in({4, 8}), {1})}});
  check({"mean of all", 1, {mean(in({4, 8}))}});
  check({"var of all", 2, {var(in({4, 8}))}});
}

BOOST_AUTO_TEST_CASE(products_fuse_what_follows_them) {
  T x = in({4, 8}), w = in({8, 5}), v = in({5, 6});
  check({"matmul", 1, {matmul(x, w)}});
  check({"matmul+bias+relu", 1, {relu(matmul(x, w) + in({5}))}});
  check({"matmul of matmul", 2, {matmul(matmul(x, w), v)}});
  check({"batched matmul", 1, {matmul(in({2, 3, 4}), in({2, 4, 5}))}});
  check({"arange@x", 1, {matmul(cast(mini::reshape(arange(4), {1, 4}), DType::F32), x)}});
  T y = relu(matmul(x, w) + in({5}));
  check({"relu(matmul+bias) into layernorm", 4, {layer_norm(y)}});
  check({"attention", 4, {attention(in({6, 4}), in({6, 4}), in({6, 4}))}});
  check({"attention with heads", 4, {attention(in({2, 3, 6, 4}), in({2, 3, 6, 4}), in({2, 3, 6, 4}))}});
}

BOOST_AUTO_TEST_CASE(convolutions_and_pools_are_one_kernel) {
  T x = in({1, 2, 5, 5}), w = in({3, 2, 3, 3});
  check({"conv", 1, {conv2d(x, w, 1)}});
  check({"conv+bias+relu", 1, {relu(conv2d(x, w, 1) + in({3, 1, 1}))}});
  check({"conv of conv", 2, {conv2d(conv2d(x, w, 1), in({2, 3, 3, 3}), 1)}});
  check({"conv with stride", 1, {conv2d(in({1, 2, 7, 7}), w, 0, 2)}});
  check({"grouped conv", 1, {conv2d(in({1, 4, 5, 5}), in({4, 2, 3, 3}), 1, 1, 2)}});
  check({"dilated conv", 1, {conv2d(in({1, 2, 7, 7}), w, 2, 1, 1, 2)}});
  check({"conv+batchnorm+relu",
         1,
         {relu(batch_norm(conv2d(x, w, 1), in({3}), in({3}), in({3}), in({3}) * 0.0 + 1.0))}});
  check({"maxpool", 1, {max_pool2d(in({1, 2, 6, 6}), 2, 2)}});
  check({"maxpool, padded", 1, {max_pool2d(in({1, 2, 6, 6}), 3, 2, 1)}});
  check({"avgpool", 1, {avg_pool2d(in({1, 2, 6, 6}), 3, 2, 1)}});
  // The weight's gradient is a convolution too.
  T up = in({1, 3, 5, 5});
  T windows = window(window(pad(x, {0, 0, 1, 1}, {0, 0, 1, 1}), 2, 3, 5), 4, 3, 5); // n c kh oh kw ow
  T gradient = sum(mini::reshape(permute(windows, {0, 1, 2, 4, 3, 5}), {1, 1, 2, 3, 3, 5, 5}) *
                       mini::reshape(up, {1, 3, 1, 1, 1, 5, 5}),
                   {0, 5, 6});
  check({"conv weight gradient", 1, {gradient}});
  check({"matmul, both gradients",
         2,
         {matmul(in({4, 5}), transpose(in({8, 5}))), matmul(transpose(in({4, 8})), in({4, 5}))}});
}

BOOST_AUTO_TEST_CASE(indexing_fuses_into_its_reader) {
  check({"gather", 1, {gather(in({100, 16}), in({5}, DType::I32), 0)}});
  check({"embedding", 1, {gather(in({10, 4}), in({2, 3}, DType::I64), 0)}});
  check({"one_hot", 1, {one_hot(in({5}, DType::I32), 10)}});
  check({"cat", 1, {concat({in({4, 4}), in({4, 4})}, 0)}});
  check({"stack", 1, {stack({in({4, 4}), in({4, 4})})}});
  check({"pad", 1, {pad(in({4, 4}), {1, 1}, {1, 1})}});
  check({"triu", 1, {triu(in({4, 4}))}});
  check({"argmax", 2, {argmax(in({4, 8}))}});
  check(
      {"gather of gather", 1, {gather(gather(in({6, 4}), in({5}, DType::I32), 0), in({3}, DType::I32), 0)}});
  check(
      {"gathered indices", 1, {gather(in({6, 4}), gather(in({5}, DType::I32), in({3}, DType::I32), 0), 0)}});
  check({"gather of a computed value", 1, {gather(in({6, 4}) * 2.0, in({5}, DType::I32), 0)}});
}

BOOST_AUTO_TEST_CASE(reductions_are_stored_only_where_they_are_read_again) {
  T x = in({4, 8});
  check({"sum(2).sum(1)", 1, {sum(sum(in({3, 8, 16}), {2}), {1})}});
  check({"x + x.sum(1)", 2, {x + sum(x, {1}, true)}});
  check({"x.sum(0)+x.sum(1)", 3, {sum(x, {0}, true) + sum(x, {1}, true)}});
  check({"x/x.sum()", 2, {x / sum(x)}});
  check({"x/x.sum(), large", 2, {in({128, 64}) / sum(in({128, 64}))}});
  check({"(x.sum(1)+1).sum()", 1, {sum(sum(x, {1}) + 1)}});
  check({"cumsum 100", 1, {cumsum(in({100}))}});
  check({"cumsum 1000", 3, {cumsum(in({1000}))}});
  T y = exp(x + 1);
  check({"y.sum(0), y.sum(1)", 2, {sum(y, {0}), sum(y, {1})}});
  T stored = contiguous(exp(x + 2));
  check({"stored y, y.sum(0), y.sum(1)", 3, {sum(stored, {0}), sum(stored, {1})}});
  check({"y = x + f(sum(x))", 2, {x + exp(sum(x, {1}, true) * 0.1)}});
  check({"sum of 256x256", 2, {sum(in({256, 256}))}}, false);
  check({"sum of 32767", 1, {sum(in({32767}))}}, false);
  check({"sum of 32768", 2, {sum(in({32768}))}}, false);
  check({"max of 256x256", 2, {max(in({256, 256}))}}, false);
}

BOOST_AUTO_TEST_CASE(stores_copy_only_what_they_overwrite_before_it_is_read) {
  T a = in({4, 4}), v = in({16});
  check({"a.assign(a+1)", 1, {assign(a, a + 1)}}, false);
  check({"a.assign(a.T+1)", 2, {assign(a, transpose(a) + 1)}}, false);
  check({"a.assign(a.flip(0))", 2, {assign(a, flip(a, {0}))}}, false);
  T part = shrink(v, {2}, {4});
  check({"a[2:6].assign(a[3:7])", 2, {assign(part, shrink(v, {3}, {4}))}}, false);
  check({"a[2:6].assign(b)", 1, {assign(part, in({4}))}}, false);
  check({"a[0:4].assign(a[4:8]+1)", 1, {assign(shrink(v, {0}, {4}), shrink(v, {4}, {4}) + 1)}}, false);
}

BOOST_AUTO_TEST_CASE(copies_move_views_without_a_kernel) {
  T x = in({16});
  check({"copy", 1, {T{tolk::copy_to(x.u, "CPU:1")}}});
  check({"copy of a view", 1, {T{tolk::copy_to(shrink(x, {4}, {4}).u, "CPU:1")}}});
  check({"copy of a value", 2, {T{tolk::copy_to((x + 1).u, "CPU:1")}}});
  check({"copy to the same device", 0, {T{tolk::copy_to(x.u, "CPU")}}});
  check({"copy of x.T", 1, {T{tolk::copy_to(transpose(in({4, 4})).u, "CPU:1")}}});
}

BOOST_AUTO_TEST_SUITE_END()
