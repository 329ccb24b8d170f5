// Data that tensors were made from, met for the first time by captured functions; and operations that find
// nothing to do: values, all the same.
#include <boost/test/unit_test.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "jit_support.h"
#include "tolk/tensor/gradient.h"
#include "tolk/tensor/jit.h"

using namespace tolk;
using namespace jit_test;

namespace {

using F = std::vector<float>;

void same(const Tensor& got, const F& want, const std::string& what) {
  F values = got.values<float>();
  BOOST_TEST(values == want, what << boost::test_tools::per_element());
}

} // namespace

BOOST_AUTO_TEST_CASE(a_replay_reads_what_was_assigned_to_data_that_nobody_realized) {
  Tensor w = Tensor::from(F{1, 2, 3}, {3});
  Jit f([&](Tensor x) { return w * x; });
  F want{1, 2, 3};
  for (int i = 0; i < 6; ++i) {
    if (i == 3 || i == 5) {
      w.assign(w + 1.0);
      for (float& v : want) v += 1;
    }
    same(f(Tensor::from(F{1, 1, 1}, {3})), want, "call " + std::to_string(i));
  }
}

BOOST_AUTO_TEST_CASE(captured_functions_share_data_that_nobody_realized) {
  Tensor w = Tensor::from(F{1, 2}, {2});
  Jit read([&](Tensor x) { return w + x; });
  Jit grow([&](Tensor x) { w.assign(w + x); });
  F want{1, 2};
  for (int i = 0; i < 5; ++i) {
    Tensor one = Tensor::from(F{1, 1}, {2}), none = Tensor::from(F{0, 0}, {2});
    same(read(none), want, "read " + std::to_string(i));
    grow(one);
    for (float& v : want) v += 1;
    same(read(none), want, "read after write " + std::to_string(i));
  }
}

// The first copy of the data is no part of the capture that meets it first.
BOOST_AUTO_TEST_CASE(data_that_the_capturing_call_touches_first_is_copied_once) {
  Tensor w = Tensor::from(F{1, 2, 3}, {3});
  int calls = 0;
  Jit f([&](Tensor x) {
    if (calls++ > 0) w.assign(w + x);
    return w * 1.0;
  });
  for (int i = 0; i < 5; ++i) {
    float n = float(i);
    same(f(Tensor::from(F{1, 1, 1}, {3})), {1 + n, 2 + n, 3 + n}, "call " + std::to_string(i));
  }
}

// A tensor on HOST is no such data: each replay copies what is in it then.
BOOST_AUTO_TEST_CASE(replays_copy_a_tensor_of_the_host_anew) {
  Tensor h = Tensor::from(F{1, 2}, {2}, "HOST");
  Jit f([&](Tensor x) { return h.to("CPU") + x; });
  for (int i = 0; i < 5; ++i) {
    if (i > 0) h.assign(Tensor::from(F{1 + float(i), 2}, {2}).to("HOST")).realize();
    same(f(Tensor::from(F{0, 0}, {2})), {1 + float(i), 2}, "call " + std::to_string(i));
  }
}

BOOST_AUTO_TEST_CASE(data_made_in_a_captured_function_is_that_of_the_capture) {
  Jit f([](Tensor x) {
    Tensor c = Tensor::from(F{1, 2}, {2});
    return std::pair{c + x, c};
  });
  for (int i = 0; i < 5; ++i) {
    auto [sum, c] = f(Tensor::from(F{float(i), 0}, {2}));
    same(sum, {1 + float(i), 2}, "sum");
    same(c, {1, 2}, "data");
    c.assign(c * 0.0).realize(); // the result's storage, which the next call writes
  }
}

BOOST_AUTO_TEST_CASE(an_operation_that_finds_nothing_to_do_gives_a_value) {
  const std::vector<std::pair<std::string, std::function<Tensor(const Tensor&)>>> operations{
      {"repeat", [](const Tensor& w) { return w.repeat({1, 1}); }},
      {"repeat twice", [](const Tensor& w) { return w.repeat({2, 1}); }},
      {"cumsum", [](const Tensor& w) { return w.cumsum(0); }},
      {"cumprod", [](const Tensor& w) { return w.cumprod(0, false, true); }},
      {"pow", [](const Tensor& w) { return w.pow(Tensor::constant(DType::F32, 1)); }},
      {"clip", [](const Tensor& w) { return w.clip({}, {}); }},
      {"scatter_elements",
       [](const Tensor& w) {
         Tensor none = Tensor::constant(DType::I64, 0, {0, 3});
         return w.scatter_elements(none, Tensor::zeros({0, 3}), 0);
       }},
      {"allreduce", [](const Tensor& w) { return w.allreduce(Op::ADD); }},
      {"floor", [](const Tensor& w) { return w.cast(DType::I32).floor().cast(DType::F32); }},
  };
  for (const auto& [name, run] : operations)
    for (bool realized : {false, true}) {
      Tensor w = Tensor::from(F{1, 2, 3}, {1, 3}).realize();
      Tensor s = run(w);
      if (realized) s.realize();
      w.assign(w * 10.0);
      Tensor both[] = {s, w}; // in one schedule the old contents are still there
      Tensor::realize(both);
      F got = both[0].values<float>();
      BOOST_TEST(F(got.begin(), got.begin() + 3) == (F{1, 2, 3}),
                 name << (realized ? ", realized" : "") << boost::test_tools::per_element());
      same(both[1], {10, 20, 30}, name);
    }
}

BOOST_AUTO_TEST_CASE(operations_on_integers_that_find_nothing_to_do_give_values) {
  const std::vector<std::pair<std::string, std::function<Tensor(const Tensor&)>>> operations{
      {"floor", [](const Tensor& w) { return w.floor(); }},
      {"ceil", [](const Tensor& w) { return w.ceil(); }},
      {"round", [](const Tensor& w) { return w.round(); }},
      {"trunc", [](const Tensor& w) { return w.trunc(); }},
      {"abs", [](const Tensor& w) { return w.abs(); }},
  };
  for (const auto& [name, run] : operations) {
    Tensor w = Tensor::from(std::vector<uint8_t>{1, 2, 255}, {3}).realize();
    Tensor s = run(w).realize();
    w.assign(w * 0).realize();
    same(s, {1, 2, 255}, name);
  }
}

// A padded tensor has elements of its own: it is no view that follows what is padded.
BOOST_AUTO_TEST_CASE(a_padded_tensor_is_a_value) {
  Tensor w = Tensor::from(F{0, 1}, {2}).realize();
  w.assign(w + 1.0).realize(); // its storage has a version
  Tensor before = w.pad({{1, 1}}).realize(), lazy = w.pad({{1, 1}}), together = w.pad({{0, 1}});
  w.assign(w * 10.0);
  Tensor both[] = {together, w};
  Tensor::realize(both);
  same(before, {0, 1, 2, 0}, "realized before");
  same(both[0], {1, 2, 0}, "realized together");
  BOOST_CHECK_THROW(lazy.realize(), InvalidArgument); // what it would read is gone
}
