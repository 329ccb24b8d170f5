// Gradients of whole computations, what stops them, what is refused, and how many kernels they take.
#include <cmath>
#include <string>

#include <boost/test/unit_test.hpp>

#include "finite_differences.h"
#include "tolk/base/error.h"
#include "tolk/device/registry.h"
#include "tolk/schedule/schedule.h"
#include "tolk/tensor/gradient.h"
#include "tolk/uop/build.h"

using namespace tolk;
using gradients::check;
using gradients::check_second;
using gradients::Input;
using gradients::numbers;

namespace {

using X = const std::vector<Tensor>&;
using Doubles = std::vector<double>;

Tensor whole(std::vector<int64_t> v, const Shape& shape) { return Tensor::from(v, shape, "INTERP"); }
Tensor real(Doubles v, const Shape& shape) { return Tensor::from(v, shape, "INTERP"); }
std::vector<Tensor> gradient_of(const Tensor& loss, std::vector<Tensor> wrt) { return gradient(loss, wrt); }

template <typename F> std::string refusal(F f) {
  try {
    f();
  } catch (const InvalidArgument& e) {
    return e.what();
  }
  return "not refused";
}

// Kernels that computing the tensors takes, from storage.
size_t kernels(std::vector<Tensor> results) {
  std::vector<UOp> roots;
  for (const Tensor& t : results) roots.push_back(t.node());
  schedule::Options options;
  options.default_device = "NULL";
  size_t count = 0;
  schedule::Schedule made = schedule::create_schedule(roots, options);
  for (const UOp& call : made.linear.src()) count += call.src(0).is(Op::SINK);
  return count;
}

// Storage with nothing in it, for counting.
Tensor weight(const Shape& shape) {
  return Tensor(buffer_node(fresh_user_slot(), DType::F32, numel(shape).value(), "NULL")).reshape(shape);
}

} // namespace

BOOST_AUTO_TEST_SUITE(gradient_of_computations)

BOOST_AUTO_TEST_CASE(products_have_the_gradient_of_finite_differences) {
  check("matmul", [](X x) { return x[0].matmul(x[1]); }, {numbers({3, 4}, 1), numbers({4, 2}, 2)});
  check("batched matmul", [](X x) { return x[0].matmul(x[1]); }, {numbers({2, 3, 4}, 1), numbers({4, 2}, 2)});
  check("vector times matrix", [](X x) { return x[0].matmul(x[1]); }, {numbers({4}, 1), numbers({4, 2}, 2)});
  check("mlp", [](X x) { return (x[0].matmul(x[1]) + x[2]).tanh().matmul(x[3]).square().mean(); },
        {numbers({3, 4}, 1), numbers({4, 5}, 2), numbers({5}, 3), numbers({5, 2}, 4)});
}

BOOST_AUTO_TEST_CASE(convolutions_and_pools_have_the_gradient_of_finite_differences) {
  for (int64_t stride : {1, 2})
    for (int64_t dilation : {1, 2}) {
      Tensor::Conv how{{stride, stride}, {dilation, dilation}, {{1, 2}, {0, 1}}, 1};
      check("conv stride " + std::to_string(stride) + " dilation " + std::to_string(dilation),
            [&](X x) { return x[0].conv(x[1], x[2], how); },
            {numbers({1, 2, 5, 6}, 1), numbers({2, 2, 2, 3}, 2), numbers({2}, 3)});
    }
  check("grouped conv", [](X x) { return x[0].conv(x[1], {}, {{}, {}, {}, 2}); },
        {numbers({2, 4, 5}, 1), numbers({4, 2, 3}, 2)});
  check("conv_transpose", [](X x) { return x[0].conv_transpose(x[1], {}, {{2}, {}, {{1, 0}}, 1}, {1}); },
        {numbers({1, 2, 4}, 1), numbers({2, 3, 3}, 2)});
  check("max_pool", [](X x) { return x[0].max_pool({{2, 2}, {2, 2}, {}, {}, false}); },
        {numbers({1, 1, 4, 5}, 4)});
  check("overlapping max_pool", [](X x) { return x[0].max_pool({{3}, {1}, {}, {{1, 1}}, false}); },
        {numbers({1, 2, 6}, 5)});
  check("avg_pool", [](X x) { return x[0].avg_pool({{3, 2}, {2, 1}, {}, {{1, 0}, {0, 1}}, false}, false); },
        {numbers({1, 1, 5, 4}, 6)});
}

BOOST_AUTO_TEST_CASE(normalisations_have_the_gradient_of_finite_differences) {
  for (int64_t axis : {0, -1}) {
    check("softmax", [&](X x) { return x[0].softmax(axis); }, {numbers({3, 4}, 1)});
    check("log_softmax", [&](X x) { return x[0].log_softmax(axis); }, {numbers({3, 4}, 1)});
    check("logsumexp", [&](X x) { return x[0].logsumexp({axis}); }, {numbers({3, 4}, 1)});
    check("layer_norm", [&](X x) { return x[0].layer_norm({axis}, 1e-3) * x[1]; },
          {numbers({3, 4}, 1), numbers({3, 4}, 2)});
    check("variance", [&](X x) { return x[0].var({axis}, 1); }, {numbers({3, 4}, 1)});
  }
  check("mean", [](X x) { return x[0].mean({0}).square(); }, {numbers({3, 4}, 1)});
  check_second("softmax", [](X x) { return x[0].softmax(); }, {numbers({2, 3}, 1)});
}

BOOST_AUTO_TEST_CASE(running_sums_and_sorts_have_the_gradient_of_finite_differences) {
  for (bool exclusive : {false, true})
    for (bool reverse : {false, true})
      check("cumsum", [&](X x) { return x[0].cumsum(1, exclusive, reverse).square(); }, {numbers({2, 5}, 1)});
  check("cumprod", [](X x) { return x[0].cumprod(0); }, {numbers({5, 2}, 1)});
  check("sort", [](X x) { return x[0].sort(1).first * real({1, 2, 3, 4, 5}, {5}); }, {numbers({2, 5}, 2)});
  check("largest three", [](X x) { return x[0].topk(3, 0).first.square(); }, {numbers({6, 2}, 3)});
  check("smallest", [](X x) { return x[0].min({1}).square(); }, {numbers({3, 4}, 4)});
  check("clip", [](X x) { return x[0].clip(x[1], Tensor::constant(DType::F64, 1.0)).square(); },
        {numbers({9}, 5), numbers({1}, 6, -1, -0.5)});
}

BOOST_AUTO_TEST_CASE(indexing_has_the_gradient_of_finite_differences) {
  check("concat", [](X x) { return Tensor::concat({x[0], x[1].square(), x[0]}, 1).square(); },
        {numbers({2, 3}, 1), numbers({2, 2}, 2)});
  check("stack", [](X x) { return Tensor::stack({x[0], x[1]}, 1).square(); },
        {numbers({3}, 1), numbers({3}, 2)});
  check("strided slice", [](X x) { return x[0].slice(0, 7, 0, -3).square(); }, {numbers({9, 2}, 3)});
  check("repeat", [](X x) { return x[0].repeat({2, 3}).square() * x[0].repeat({2, 3}); },
        {numbers({2, 2}, 4)});
  check("gather_elements",
        [](X x) { return x[0].gather_elements(whole({0, 2, 1, 1, 2, 2}, {2, 3}), 1).square(); },
        {numbers({2, 3}, 5)});
  check("gather_nd", [](X x) { return x[0].gather_nd(whole({0, 1, 1, 2, 0, 1}, {3, 2})).square(); },
        {numbers({2, 3, 2}, 6)});
  for (Tensor::Combine how : {Tensor::Combine::Replace, Tensor::Combine::Add, Tensor::Combine::Mul,
                              Tensor::Combine::Max, Tensor::Combine::Min}) {
    check("scatter_elements " + std::to_string(int(how)),
          [&](X x) { return x[0].scatter_elements(whole({1, 3, 1}, {3}), x[1], 0, how).square(); },
          {numbers({5}, 7), numbers({3}, 8)});
    check("scatter_nd " + std::to_string(int(how)),
          [&](X x) { return x[0].scatter_nd(whole({1, 3, 1}, {3, 1}), x[1], how).square(); },
          {numbers({5, 2}, 9), numbers({3, 2}, 10)});
  }
  check("cross entropy",
        [](X x) { return x[0].log_softmax().gather_elements(whole({2, 0, 1}, {3, 1}), 1).neg().mean(); },
        {numbers({3, 4}, 11)});
}

BOOST_AUTO_TEST_CASE(a_value_used_twice_collects_both) {
  check("shared",
        [](X x) {
          Tensor y = x[0].exp();
          return y * y.sum() + y.sin();
        },
        {numbers({4}, 1)});
  check_second("cube", [](X x) { return x[0].pow(Tensor::constant(DType::F64, 3)); }, {numbers({4}, 2)});
  check_second("seventh root", [](X x) { return x[0].pow(Tensor::constant(DType::F64, 1.0 / 7)); },
               {numbers({4}, 2, 0.2, 3)});
}

BOOST_AUTO_TEST_CASE(x_to_the_third_twice_and_thrice) {
  DeviceScope scope("INTERP");
  Tensor x = real({2, -1}, {2});
  Tensor first = gradient_of((x * x * x).sum(), {x})[0], second = gradient_of(first.sum(), {x})[0],
         third = gradient_of(second.sum(), {x})[0], fourth = gradient_of(third.sum(), {x})[0];
  BOOST_TEST((first.values<double>() == Doubles{12, 3}));
  BOOST_TEST((second.values<double>() == Doubles{12, -6}));
  BOOST_TEST((third.values<double>() == Doubles{6, 6}));
  BOOST_TEST((fourth.values<double>() == Doubles{0, 0}));
}

BOOST_AUTO_TEST_CASE(jumps_share_as_documented) {
  DeviceScope scope("INTERP");
  Tensor x = real({1, 3, 3, -2, 3}, {5});
  BOOST_TEST((gradient_of(x.max() * 6, {x})[0].values<double>() == Doubles{0, 2, 2, 0, 2}));
  Tensor a = real({1, 2, 3}, {3}), b = real({2, 2, 2}, {3});
  auto g = gradient_of(a.maximum(b).sum(), {a, b});
  BOOST_TEST((g[0].values<double>() == Doubles{0, 0.5, 1}));
  BOOST_TEST((g[1].values<double>() == Doubles{1, 0.5, 0}));
  Tensor z = real({-1, 0, 2}, {3});
  BOOST_TEST((gradient_of(z.relu().sum(), {z})[0].values<double>() == Doubles{0, 0, 1}));
  BOOST_TEST((gradient_of(z.abs().sum(), {z})[0].values<double>() == Doubles{-1, 0, 1}));
}

BOOST_AUTO_TEST_CASE(products_with_zeros) {
  DeviceScope scope("INTERP");
  Tensor x = real({2, 3, 4, 2, 0, 4, 0, 3, 0}, {3, 3});
  BOOST_TEST(
      (gradient_of(x.prod({1}).sum(), {x})[0].values<double>() == Doubles{12, 8, 6, 0, 8, 0, 0, 0, 0}));
}

BOOST_AUTO_TEST_CASE(powers_at_the_edges) {
  DeviceScope scope("INTERP");
  Tensor x = real({0, 0, 2, -2, 3}, {5}), e = real({0, 2, 0, 3, -1}, {5});
  auto g = gradient_of(x.pow(e).sum(), {x, e});
  Doubles by_base = g[0].values<double>(), by_exponent = g[1].values<double>();
  Doubles want = {0, 0, 0, 12, -1.0 / 9};
  for (size_t i = 0; i < want.size(); ++i) BOOST_TEST(std::abs(by_base[i] - want[i]) < 1e-12, i);
  BOOST_TEST((by_exponent[0] == 0 && by_exponent[1] == 0));
  BOOST_TEST(std::abs(by_exponent[2] - std::log(2.0)) < 1e-12);
  BOOST_TEST(std::isnan(by_exponent[3])); // (-2)^e is no number beside whole e
}

// What compositions of branches get wrong: infinity times zero in the branch that is not taken.
BOOST_AUTO_TEST_CASE(functions_stay_finite_where_their_parts_do_not) {
  DeviceScope scope("INTERP");
  Tensor x = real({-800, -40, 0, 40, 800}, {5});
  auto at = [&](const Tensor& y) { return gradient_of(y.sum(), {x})[0].values<double>(); };
  auto near = [](const Doubles& got, const Doubles& want) {
    for (size_t i = 0; i < want.size(); ++i)
      BOOST_TEST(std::abs(got[i] - want[i]) <= 1e-12, i << ": " << got[i] << " for " << want[i]);
  };
  near(at(x.tanh()), {0, 0, 1, 0, 0});
  near(at(x.sigmoid()), {0, 0, 0.25, 0, 0});
  near(at(x.softplus()), {0, std::exp(-40), 0.5, 1, 1});
  near(at(x.erf()), {0, 0, 2 / std::sqrt(M_PI), 0, 0});
  near(at(x.atan()), {1 / 640001.0, 1 / 1601.0, 1, 1 / 1601.0, 1 / 640001.0});
  near(at((x * 1e-3).log1p()), {1e-3 / 0.2, 1e-3 / 0.96, 1e-3, 1e-3 / 1.04, 1e-3 / 1.8});
}

BOOST_AUTO_TEST_CASE(what_no_gradient_passes_gives_zeros) {
  DeviceScope scope("INTERP");
  Tensor x = real({1.5, -2.5}, {2}), other = real({1, 2}, {2});
  Doubles none = {0, 0};
  for (const Tensor& y :
       {x.detach(), x.trunc(), x.floor(), x.ceil(), x.round(), x.sign(), x.cast(DType::I32).cast(DType::F64),
        (x < other).cast(DType::F64), x.bitcast(DType::I64).bitcast(DType::F64), other})
    BOOST_TEST((gradient_of((y * other).sum(), {x})[0].values<double>() == none));
  // Only the other path counts.
  BOOST_TEST((gradient_of((x.detach() * x).sum(), {x})[0].values<double>() == Doubles{1.5, -2.5}));
  Tensor g = gradient_of(other.sum(), {x})[0];
  BOOST_TEST((g.shape() == x.shape() && g.dtype() == DType::F64));
}

BOOST_AUTO_TEST_CASE(a_seed_weighs_the_elements) {
  DeviceScope scope("INTERP");
  Tensor x = real({1, 2, 3}, {3}), y = x.square();
  std::vector<Tensor> wrt{x};
  BOOST_TEST((gradient(y, wrt, real({1, 10, 100}, {3}))[0].values<double>() == Doubles{2, 40, 600}));
  // A seed of another float dtype is converted.
  BOOST_TEST((gradient(y, wrt, Tensor::ones({3}))[0].values<double>() == Doubles{2, 4, 6}));
  // One element is a scalar in any shape.
  BOOST_TEST((gradient_of(y.sum({0}, true), {x})[0].values<double>() == Doubles{2, 4, 6}));
}

BOOST_AUTO_TEST_CASE(the_loss_itself_and_values_on_the_way_are_targets) {
  DeviceScope scope("INTERP");
  Tensor x = real({1, 2}, {2}), y = x.square(), loss = y.sum();
  auto g = gradient_of(loss * 3, {loss, y, x, x});
  BOOST_TEST(g[0].item() == 3);
  BOOST_TEST((g[1].values<double>() == Doubles{3, 3}));
  BOOST_TEST((g[2].values<double>() == Doubles{6, 12}));
  BOOST_TEST((g[3].values<double>() == Doubles{6, 12}));
}

BOOST_AUTO_TEST_CASE(reordered_variables_are_the_same_variable) {
  DeviceScope scope("INTERP");
  Tensor w = real({1, 2, 3, 4, 5, 6}, {6}), m = w.reshape({2, 3}), t = m.permute({1, 0});
  Tensor loss = (m.reshape({3, 2}) * real({1, 2, 3, 4, 5, 6}, {3, 2})).sum(); // the graph skips m
  auto g = gradient_of(loss, {w, m, t});
  BOOST_TEST((g[0].values<double>() == Doubles{1, 2, 3, 4, 5, 6}));
  BOOST_TEST((g[1].shape() == Shape{2, 3}));
  BOOST_TEST((g[1].values<double>() == Doubles{1, 2, 3, 4, 5, 6}));
  BOOST_TEST((g[2].values<double>() == Doubles{1, 4, 2, 5, 3, 6}));
}

BOOST_AUTO_TEST_CASE(variables_may_be_realised_at_any_time) {
  DeviceScope scope("INTERP");
  Doubles want = {2, 4, 6, 8};
  for (int when : {0, 1, 2}) {
    Tensor x = real({1, 2, 3, 4}, {4}).reshape({2, 2}) + 0.0;
    if (when == 0) x.realize();
    Tensor loss = x.square().sum(), kept = x;
    if (when == 1) x.realize();    // the graph has the node from before
    if (when == 2) kept.realize(); // through another handle; x still denotes the node from before
    BOOST_TEST((gradient_of(loss, {x})[0].values<double>() == want), when);
    BOOST_TEST((gradient_of(loss, {kept})[0].values<double>() == want), when);
    // Both forms in one loss.
    Tensor both = loss + (kept * x).sum();
    BOOST_TEST((gradient_of(both, {x})[0].values<double>() == Doubles{4, 8, 12, 16}), when);
  }
}

BOOST_AUTO_TEST_CASE(an_assigned_value_hands_its_gradient_to_what_was_assigned) {
  DeviceScope scope("INTERP");
  Tensor x = real({1, 2}, {2}), store = real({7, 7}, {2}).realize();
  store.assign(x.square());
  BOOST_TEST((gradient_of((store * 3).sum(), {x})[0].values<double>() == Doubles{6, 12}));
}

BOOST_AUTO_TEST_CASE(clipped_assignment_in_a_training_step) {
  DeviceScope scope("INTERP");
  // Least squares by gradient descent: w goes to (2, -1).
  Tensor x = real({1, 0, 0, 1, 1, 1, 2, 1}, {4, 2}), y = real({2, -1, 1, 3}, {4}),
         w = real({0, 0}, {2}).realize();
  for (int step = 0; step < 200; ++step) {
    Tensor loss = (x.matmul(w) - y).square().mean();
    w.assign(w - gradient_of(loss, {w})[0] * 0.2).realize();
  }
  Doubles found = w.values<double>();
  BOOST_TEST(std::abs(found[0] - 2) < 1e-9);
  BOOST_TEST(std::abs(found[1] + 1) < 1e-9);
}

BOOST_AUTO_TEST_CASE(small_floats_accumulate_in_f32) {
  DeviceScope scope("INTERP");
  // 5000 ones are no f16 sum: it would stick at 2048.
  Tensor x = Tensor::from(std::vector<float>{1}, {1}).cast(DType::F16).contiguous();
  Tensor g = gradient_of(x.expand({5000}).cast(DType::F32).sum(), {x})[0];
  BOOST_TEST((g.dtype() == DType::F16));
  BOOST_TEST(g.item() == 5000);
  Tensor table = Tensor::from(std::vector<float>{1, 2}, {2}).cast(DType::F16).contiguous();
  Tensor zeros = Tensor::constant(DType::I64, 0, {5000});
  BOOST_TEST(
      (gradient_of(table.gather(zeros, 0).sum(), {table})[0].values<float>() == std::vector<float>{5000, 0}));
}

BOOST_AUTO_TEST_CASE(refusals_say_what_was_wrong) {
  DeviceScope scope("INTERP");
  Tensor x = real({1, 2}, {2}), i = whole({1, 2}, {2});
  auto contains = [](const std::string& text, const char* part) {
    BOOST_TEST(text.find(part) != std::string::npos, text << " does not contain " << part);
  };
  contains(refusal([&] { gradient_of(x, {x}); }), "one element");
  contains(refusal([&] { gradient_of(x, {x}); }), "(2)");
  contains(refusal([&] { gradient_of(i.sum(), {x}); }), "float loss, this one is i64");
  contains(refusal([&] { gradient_of(x.sum(), {x, i}); }), "tensor 1 of wrt is i64");
  contains(refusal([&] { gradient_of(x.sum(), {Tensor::zeros({2})}); }), "constant");
  std::vector<Tensor> wrt{x};
  contains(refusal([&] { gradient(x, wrt, real({1}, {1})); }), "shape (2), it has (1)");
  contains(refusal([&] { gradient_of(Tensor(), {x}); }), "undefined");
  // Writing a part of storage leaves no single value to hand the gradient to.
  Tensor store = real({7, 7, 7}, {3}).realize();
  UOp effect = store_to(store.narrow(0, 0, 2).node(), x.node());
  Tensor partly(after(store.node(), std::span(&effect, 1)));
  contains(refusal([&] { gradient_of(partly.sum(), {x}); }), "assigned in parts");
}

BOOST_AUTO_TEST_CASE(deep_graphs_need_no_deep_stack) {
  DeviceScope scope("INTERP");
  Tensor x = real({1}, {1}), y = x;
  for (int i = 0; i < 50000; ++i) y = y * 1.0;
  Tensor g = gradient_of(y.sum(), {x})[0];
  BOOST_TEST((g.shape() == x.shape()));
}

// Kernel counts of the design, from realised weights.
BOOST_AUTO_TEST_CASE(kernel_counts_of_gradients) {
  Tensor a = weight({64, 32}), b = weight({32, 48});
  BOOST_TEST(kernels(gradient_of(a.matmul(b).square().sum(), {a, b})) <=
             3U); // the product itself, and one each
  BOOST_TEST(kernels(gradient(a.matmul(b), std::vector<Tensor>{a, b}, weight({64, 48}))) <= 2U);
  Tensor s = weight({16, 128});
  BOOST_TEST(kernels(gradient(s.softmax(), std::vector<Tensor>{s}, weight({16, 128}))) <= 4U);
  BOOST_TEST(kernels(gradient(s.layer_norm({-1}, 1e-5), std::vector<Tensor>{s}, weight({16, 128}))) <= 6U);
  Tensor x = weight({2, 4, 16, 16}), w = weight({8, 4, 3, 3});
  Tensor::Conv how{{}, {}, {{1, 1}, {1, 1}}, 1};
  Tensor y = x.conv(w, {}, how);
  BOOST_TEST(kernels(gradient(y, std::vector<Tensor>{w}, weight({2, 8, 16, 16}))) <= 1U);
  BOOST_TEST(kernels(gradient(y, std::vector<Tensor>{x}, weight({2, 8, 16, 16}))) <= 2U);
}

BOOST_AUTO_TEST_CASE(kernel_counts_of_a_small_network) {
  // Forward: two layers and the loss, 3. Backward: the loss's derivative, which three kernels read, the
  // hidden layer's, and those of two weights and two biases, 6.
  Tensor x = weight({32, 64}), w1 = weight({64, 128}), b1 = weight({128}), w2 = weight({128, 10}),
         b2 = weight({10}), want = weight({32, 10});
  Tensor hidden = (x.matmul(w1) + b1).relu();
  Tensor loss = (hidden.matmul(w2) + b2 - want).square().mean();
  std::vector<Tensor> all = gradient_of(loss, {w1, b1, w2, b2});
  all.push_back(loss);
  BOOST_TEST(kernels(all) <= 9U);
}

BOOST_AUTO_TEST_SUITE_END()
