// One case for every row of the tables of derivatives, against central differences.
#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include <boost/test/unit_test.hpp>
#include <ctime>

#include "finite_differences.h"
#include "tolk/schedule/tensor/shard.h"
#include "tolk/tensor/gradient.h"
#include "tolk/tensor/gradient_rules.h"
#include "tolk/tensor/tensor_internal.h"
#include "tolk/uop/print.h"
#include "tolk/uop/traverse.h"

using namespace tolk;
using gradients::check;
using gradients::check_second;
using gradients::Function;
using gradients::Input;
using gradients::numbers;

namespace {

using X = const std::vector<Tensor>&;

struct Case {
  const char* name;
  Op op; // must be in the function's graph
  Function f;
  std::vector<Input> inputs;
};

const std::vector<std::string> kTwo = {"INTERP", "INTERP:1"};
Tensor parted(const Tensor& x, int64_t axis) { return Tensor(schedule::sharded(x.node(), kTwo, axis)); }
Tensor everywhere(const Tensor& x) { return Tensor(schedule::replicated(x.node(), kTwo)); }

// Each of two devices has its own of these; combined, and on one device again.
Tensor terms(const Tensor& first, const Tensor& second) {
  UOp parts[] = {first.node(), second.to("INTERP:1").node()};
  return Tensor(mstack(parts));
}
Tensor met(const Tensor& t, Op op) { return t.allreduce(op).to("INTERP"); }

Tensor whole(std::vector<int64_t> v, const Shape& shape) { return Tensor::from(v, shape, "INTERP"); }

std::vector<Case> cases() {
  Input a = numbers({2, 3}, 1), b = numbers({2, 3}, 2), positive = numbers({2, 3}, 3, 0.3, 3),
        c = numbers({2, 3}, 4), block = numbers({2, 3, 4}, 5);
  return {
      {"sum", Op::ADD, [](X x) { return (x[0] + x[1]).square(); }, {a, b}},
      {"sum of broadcasts",
       Op::ADD,
       [](X x) { return (x[0] + x[1]).square(); },
       {numbers({4, 1}, 6), numbers({4, 8}, 7)}},
      {"scalar operand", Op::ADD, [](X x) { return x[0] + x[1] * x[0]; }, {numbers({3}, 6), numbers({}, 7)}},
      {"difference", Op::SUB, [](X x) { return (x[0] - x[1]).square(); }, {a, b}},
      {"negative", Op::NEG, [](X x) { return x[0].neg().exp(); }, {a}},
      {"product", Op::MUL, [](X x) { return x[0] * x[1]; }, {a, b}},
      {"square", Op::MUL, [](X x) { return x[0] * x[0] * x[0]; }, {a}},
      {"multiply-add", Op::MULACC, [](X x) { return detail::fused(x[0], x[1], x[2]); }, {a, b, c}},
      {"quotient", Op::FDIV, [](X x) { return x[0] / x[1]; }, {a, positive}},
      {"reciprocal", Op::RECIPROCAL, [](X x) { return x[0].reciprocal(); }, {positive}},
      {"larger of two", Op::MAX, [](X x) { return x[0].maximum(x[1]) * x[0]; }, {a, b}},
      {"selection", Op::WHERE, [](X x) { return (x[0] < x[1]).where(x[0] * 2, x[1].square()); }, {a, b}},
      {"square root", Op::SQRT, [](X x) { return x[0].sqrt(); }, {positive}},
      {"exp", Op::EXP, [](X x) { return x[0].exp(); }, {a}},
      {"exp2", Op::EXP2, [](X x) { return x[0].exp2(); }, {a}},
      {"log", Op::LOG, [](X x) { return x[0].log(); }, {positive}},
      {"log2", Op::LOG2, [](X x) { return x[0].log2(); }, {positive}},
      {"sin", Op::SIN, [](X x) { return x[0].sin(); }, {a}},
      {"cos", Op::COS, [](X x) { return x[0].cos(); }, {a}},
      {"contiguous", Op::CONTIGUOUS, [](X x) { return x[0].square().contiguous() * x[0]; }, {a}},
      {"contiguous backward",
       Op::CONTIGUOUS_BACKWARD,
       [](X x) { return x[0].square().contiguous_backward() * x[0]; },
       {a}},
      {"parts on two devices",
       Op::MULTI,
       [](X x) { return (parted(x[0].exp(), 0) * parted(x[1], 0)).to("INTERP"); },
       {numbers({4, 3}, 31), numbers({4, 3}, 32)}},
      {"sum of terms",
       Op::ALLREDUCE,
       [](X x) { return met(terms(x[0].exp(), x[1]), Op::ADD).square(); },
       {a, b}},
      {"largest of terms",
       Op::ALLREDUCE,
       [](X x) { return met(terms(x[0].exp(), x[1]), Op::MAX) * x[0]; },
       {a, b}},
      {"product of terms", Op::ALLREDUCE, [](X x) { return met(terms(x[0].exp(), x[1]), Op::MUL); }, {a, b}},
      {"sum of replicas", Op::ALLREDUCE, [](X x) { return met(everywhere(x[0].exp()), Op::ADD); }, {a}},
      {"largest of replicas",
       Op::ALLREDUCE,
       [](X x) { return met(everywhere(x[0]), Op::MAX).square(); },
       {a}},
      {"product of replicas", Op::ALLREDUCE, [](X x) { return met(everywhere(x[0]), Op::MUL); }, {a}},
      {"replicas beside terms",
       Op::MSTACK,
       [](X x) {
         Tensor w = everywhere(x[0]);
         return met(w * terms(x[1], x[2].exp()), Op::ADD) * w.sin().to("INTERP");
       },
       {a, b, c}},
      {"sums and slices of a sharded value beside terms",
       Op::MSTACK,
       [](X x) {
         Tensor s = parted(x[0] * 1.0, 0);
         return met((s.sum({0}, true) + s.flip({0}).exp()) * terms(x[1], x[2]), Op::ADD);
       },
       {a, b, c}},
      {"one position's value",
       Op::MSELECT,
       [](X x) {
         Tensor sum = everywhere(x[0].exp());
         return Tensor(mselect(sum.node(), 1)).to("INTERP") * Tensor(mselect(sum.node(), 0)).square();
       },
       {a}},
      {"copy", Op::COPY, [](X x) { return x[0].square().to("INTERP:1").exp().to("INTERP"); }, {a}},
      {"assigned",
       Op::AFTER,
       [](X x) {
         Tensor y = Tensor::from(std::vector<double>(6), {2, 3}, "INTERP").realize();
         return y.assign(x[0].square()) * x[0];
       },
       {a}},
      {"reshape", Op::RESHAPE, [](X x) { return x[0].square().reshape({3, 2}).narrow(0, 1, 2); }, {a}},
      {"permute", Op::PERMUTE, [](X x) { return x[0].permute({2, 0, 1}).narrow(0, 1, 2).square(); }, {block}},
      {"expand", Op::EXPAND, [](X x) { return x[0].reshape({2, 1, 3}).expand({2, 4, 3}).square(); }, {a}},
      {"pad", Op::PAD, [](X x) { return x[0].pad({{1, 2}, {0, 1}}).square().narrow(1, 1, 3); }, {a}},
      {"shrink", Op::SHRINK, [](X x) { return x[0].narrow(1, 1, 2).square(); }, {a}},
      {"flip", Op::FLIP, [](X x) { return x[0].flip({1}).narrow(1, 0, 2).square(); }, {a}},
      {"window", Op::WINDOW, [](X x) { return x[0].window(0, 5, 3, 1, 1).square(); }, {numbers({8}, 8)}},
      {"gather",
       Op::GATHER,
       [](X x) { return x[0].gather(whole({1, -1, 1, 5, 0, -9}, {2, 3}), 1).square(); },
       {block}},
      {"sum of elements", Op::REDUCE_AXIS, [](X x) { return x[0].sum({1}).square(); }, {block}},
      {"largest element", Op::REDUCE_AXIS, [](X x) { return x[0].max({0, 2}).square(); }, {block}},
      {"product of elements", Op::REDUCE_AXIS, [](X x) { return x[0].prod({1}); }, {block}},
  };
}

std::map<std::string_view, Case> function_cases() {
  Input a = numbers({7}, 11), positive = numbers({7}, 12, 0.2, 3), unit = numbers({7}, 13, -0.95, 0.95),
        above = numbers({7}, 14, 1.1, 4);
  std::map<std::string_view, Case> all;
  auto add = [&](const char* name, Function f, std::vector<Input> in) {
    all[name] = {name, Op::FUNCTION, std::move(f), std::move(in)};
  };
  add("abs", [](X x) { return x[0].abs(); }, {a});
  add("relu", [](X x) { return x[0].relu(); }, {a});
  add("tan", [](X x) { return x[0].tan(); }, {unit});
  add("asin", [](X x) { return x[0].asin(); }, {unit});
  add("acos", [](X x) { return x[0].acos(); }, {unit});
  add("atan", [](X x) { return x[0].atan(); }, {a});
  add("sinh", [](X x) { return x[0].sinh(); }, {a});
  add("cosh", [](X x) { return x[0].cosh(); }, {a});
  add("tanh", [](X x) { return x[0].tanh(); }, {a});
  add("asinh", [](X x) { return x[0].asinh(); }, {a});
  add("acosh", [](X x) { return x[0].acosh(); }, {above});
  add("atanh", [](X x) { return x[0].atanh(); }, {unit});
  add("erf", [](X x) { return x[0].erf(); }, {a});
  add("expm1", [](X x) { return x[0].expm1(); }, {a});
  add("log1p", [](X x) { return x[0].log1p(); }, {unit});
  add("sigmoid", [](X x) { return x[0].sigmoid(); }, {a});
  add("softplus", [](X x) { return x[0].softplus(); }, {a});
  add("pow", [](X x) { return x[0].pow(x[1]); }, {positive, numbers({7}, 15)});
  add("fmod", [](X x) { return x[0].fmod(x[1]); }, {numbers({7}, 16, 3.1, 3.9), numbers({7}, 17, 1.1, 1.5)});
  add("gather_elements", [](X x) { return x[0].gather_elements(whole({6, 0, -1, 6, 9}, {5}), 0).square(); },
      {a});
  add("sum_by_index",
      [](X x) {
        Tensor i = whole({2, 0, 2, -1, 4, 9, 2}, {7}), row = Tensor::arange(5).reshape({5, 1});
        Tensor sums = equal(row, i).where(x[0], Tensor::constant(DType::F64, 0)).sum({1}).unsqueeze(1);
        return detail::named("sum_by_index", sums, {x[0].unsqueeze(1), i}).square();
      },
      {a});
  return all;
}

bool has_op(const Case& c) {
  std::vector<Tensor> x;
  for (const Input& i : c.inputs) x.push_back(i.tensor());
  for (const UOp& u : toposort(c.f(x).node()))
    if (u.is(c.op)) return true;
  return false;
}

} // namespace

BOOST_AUTO_TEST_SUITE(gradient_rules)

BOOST_AUTO_TEST_CASE(every_op_of_the_table_has_a_case) {
  DeviceScope scope("INTERP");
  std::set<int> tested{int(Op::FUNCTION), int(Op::CAST)}; // these two have tests of their own
  for (const Case& c : cases()) {
    BOOST_TEST(has_op(c), c.name);
    tested.insert(int(c.op));
  }
  for (Op op : detail::ops_with_gradient()) BOOST_TEST(tested.contains(int(op)), name(op));
  auto functions = function_cases();
  for (std::string_view f : detail::functions_with_gradient()) BOOST_TEST(functions.contains(f), f);
}

BOOST_AUTO_TEST_CASE(ops_agree_with_differences) {
  for (const Case& c : cases()) check(c.name, c.f, c.inputs);
}

BOOST_AUTO_TEST_CASE(functions_agree_with_differences) {
  for (const auto& [name, c] : function_cases()) check(c.name, c.f, c.inputs);
}

// Differences say nothing about rounding, so the values are written down.
BOOST_AUTO_TEST_CASE(casts_hand_the_gradient_back_in_the_source_dtype) {
  DeviceScope scope("INTERP");
  for (DType from : {DType::F16, DType::BF16, DType::F32, DType::F64, DType::F8E4M3, DType::F8E5M2})
    for (DType to : {DType::F16, DType::BF16, DType::F32, DType::F64, DType::F8E4M3, DType::F8E5M2})
      BOOST_TEST_CONTEXT(name(from) << " to " << name(to)) {
        Tensor x = Tensor::from(std::vector<float>{1, -2, 0.5}, {3}).cast(from).contiguous();
        Tensor loss = (x.cast(to) * Tensor::from(std::vector<float>{2, 3, -4}, {3}).cast(to)).sum();
        Tensor g = gradient(loss, std::vector<Tensor>{x})[0];
        BOOST_TEST((g.dtype() == from));
        BOOST_TEST((g.values<float>() == std::vector<float>{2, 3, -4}));
      }
}

BOOST_AUTO_TEST_CASE(second_derivatives_agree_with_differences) {
  for (const Case& c : cases()) check_second(c.name, c.f, c.inputs);
  for (const auto& [name, c] : function_cases()) check_second(c.name, c.f, c.inputs);
}

BOOST_AUTO_TEST_CASE(windows_of_every_overlap) {
  // Places and cells, stride and dilation: side by side, interleaved, overlapping, with gaps, longer than
  // used.
  struct Form {
    int64_t n, out, k, stride, dilation;
  };
  for (Form t : {Form{8, 6, 3, 1, 1}, Form{8, 3, 6, 1, 1}, Form{9, 3, 3, 3, 1}, Form{12, 4, 2, 3, 1},
                 Form{12, 2, 4, 1, 3}, Form{11, 4, 3, 2, 1}, Form{11, 3, 3, 2, 2}, Form{13, 3, 4, 3, 2},
                 Form{7, 1, 4, 1, 2}, Form{7, 4, 1, 2, 1}, Form{10, 2, 3, 4, 2}, Form{13, 4, 3, 2, 3},
                 Form{6, 6, 1, 1, 1}, Form{6, 1, 6, 5, 1}})
    for (int64_t axis : {0, 1})
      check("window " + std::to_string(t.n) + " " + std::to_string(t.out) + " " + std::to_string(t.k) + " " +
                std::to_string(t.stride) + " " + std::to_string(t.dilation) + " axis " + std::to_string(axis),
            [&](X x) { return x[0].window(axis, t.out, t.k, t.stride, t.dilation).square(); },
            {axis ? numbers({2, t.n}, 20) : numbers({t.n, 2}, 20)});
}

BOOST_AUTO_TEST_CASE(values_on_two_devices) {
  Input a = numbers({4, 6}, 41), b = numbers({6, 2}, 42);
  check("matmul of sharded rows", [](X x) { return parted(x[0], 0).matmul(everywhere(x[1])).to("INTERP"); },
        {a, b});
  check("matmul of a sharded sum",
        [](X x) { return parted(x[0] * 1.0, 1).matmul(parted(x[1], 0)).to("INTERP"); }, {a, b});
  check("sums of the sharded and another axis",
        [](X x) {
          return (parted(x[0], 0).square().sum({0}) + parted(x[0] * 1.0, 1).square().sum({0})).to("INTERP");
        },
        {a});
  check("sharded again", [](X x) { return parted(parted(x[0], 0).exp(), 1).sin().to("INTERP"); }, {a});
  check("a function of parts", [](X x) { return parted(x[0] * 1.0, 1).tanh().to("INTERP"); }, {a});
}

BOOST_AUTO_TEST_CASE(gathers_along_every_axis) {
  Input block = numbers({3, 4, 2}, 21);
  for (int64_t axis : {0, 1, 2})
    check("gather axis " + std::to_string(axis),
          [&](X x) { return x[0].gather(whole({0, 1, 1, -2, 1, 7}, {3, 2}), axis).square(); }, {block});
  // Unsigned indices do not wrap.
  check("unsigned indices",
        [&](X x) {
          return x[0].gather(Tensor::from(std::vector<uint8_t>{2, 255, 0, 2}, {4}, "INTERP"), 0).square();
        },
        {block});
}

// Of a value thousands of operations deep, on several devices below an all-reduce.
BOOST_AUTO_TEST_CASE(gradients_of_terms_take_linear_work) {
  DeviceScope scope("INTERP");
  auto seconds = [](int depth) {
    double best = 1e9;
    for (int run = 0; run < 3; ++run) {
      Tensor w = Tensor::from(std::vector<float>{1, 2}, {2}, "INTERP"), x = terms(w, w * 2.0);
      for (int i = 0; i < depth; ++i) x = x.sin() * 0.5;
      Tensor loss = met(x, Op::ADD).sum();
      std::clock_t begin = std::clock();
      gradient(loss, std::vector<Tensor>{w});
      best = std::min(best, double(std::clock() - begin) / CLOCKS_PER_SEC);
    }
    return best;
  };
  BOOST_TEST(seconds(1600) < 24 * seconds(200) + 0.1);
}

BOOST_AUTO_TEST_SUITE_END()
