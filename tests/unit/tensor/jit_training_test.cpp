// Captured training: seeds, dropout, gradients and updates in functions that replay.
#include <cmath>
#include <set>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "device_runs.h"
#include "jit_support.h"
#include "tolk/tensor/gradient.h"
#include "tolk/tensor/jit.h"
#include "tolk/tensor/random.h"

using namespace tolk;
using namespace jit_test;

namespace {

// What five calls give after a seed.
template <class F> std::vector<Floats> sequence(uint64_t seed, F&& call, int calls = 5) {
  manual_seed(seed);
  std::vector<Floats> out;
  for (int i = 0; i < calls; ++i) out.push_back(call().template values<float>());
  return out;
}

size_t distinct(const std::vector<Floats>& values) {
  return std::set<Floats>(values.begin(), values.end()).size();
}

} // namespace

BOOST_AUTO_TEST_CASE(a_seed_holds_for_replays) {
  on_each_device([](const std::string&) {
    Tensor a = tensor(random_floats(10)), b = tensor(random_floats(10));
    auto fresh = [&](uint64_t seed) {
      Jit f([](Tensor x, Tensor y) { return (x + y) * randn({10}); });
      return sequence(seed, [&] { return f(a, b); });
    };
    std::vector<Floats> first = fresh(1);
    BOOST_TEST(distinct(first) == 5U);
    BOOST_TEST((fresh(1) == first));
    std::vector<Floats> other = fresh(2);
    for (int i = 0; i < 5; ++i) BOOST_TEST((other[size_t(i)] != first[size_t(i)]), i);
    // A seed holds for replays of what was captured before.
    Jit f([](Tensor x, Tensor y) { return (x + y) * randn({10}); });
    sequence(7, [&] { return f(a, b); });
    BOOST_TEST((sequence(1, [&] { return f(a, b); }) == first));
    BOOST_TEST((sequence(2, [&] { return f(a, b); }) == other));
  });
}

BOOST_AUTO_TEST_CASE(dropout_in_a_captured_step_drops_others_each_time) {
  on_each_device([](const std::string&) {
    manual_seed(6);
    Tensor x = tensor(Floats(200, 1.f));
    Jit f([](Tensor t) { return dropout(t, 0.5); });
    std::vector<Floats> masks;
    for (int i = 0; i < 4; ++i) {
      masks.push_back(f(x).values<float>());
      for (float v : masks.back()) BOOST_REQUIRE((v == 0 || v == 2));
    }
    BOOST_TEST(distinct(masks) == 4U);
  });
}

BOOST_AUTO_TEST_CASE(seeding_inside_of_a_capture_is_refused) {
  Jit f([](Tensor x) {
    manual_seed(1);
    return x + rand({2});
  });
  Tensor x = tensor({1, 2});
  f(x);
  BOOST_TEST(has(refusal<JitError>([&] { f(x); }), "seeded"));
}

BOOST_AUTO_TEST_CASE(a_lazy_gradient_follows_the_contents_of_what_it_reads) {
  on_each_device([](const std::string&) {
    Tensor x = tensor(random_floats(2 * 3 * 5 * 5), {2, 3, 5, 5}),
           w = tensor(random_floats(4 * 3 * 3 * 3), {4, 3, 3, 3});
    // Two backward passes; the activations are computed by the call, the gradient when somebody reads it.
    auto pass = [&](const Tensor& input, bool store) {
      Tensor hidden = input.conv(w, {}, {}).relu();
      Tensor loss = hidden.square().mean(), again = hidden.sum();
      Tensor g = gradient(loss, std::vector<Tensor>{w})[0] + gradient(again, std::vector<Tensor>{w})[0];
      if (store) hidden.realize();
      return std::pair{loss, g};
    };
    Tensor lazy;
    Jit step([&](Tensor input) {
      auto [loss, g] = pass(input, true);
      lazy = g;
      return loss;
    });
    for (int call = 0; call < 4; ++call) {
      x.assign(Tensor::from(random_floats(2 * 3 * 5 * 5), {2, 3, 5, 5})).realize();
      Floats loss = step(x).values<float>(), got = lazy.values<float>();
      auto [want_loss, want] = pass(x, false);
      BOOST_TEST(near(loss, want_loss.values<float>()), call);
      BOOST_TEST(near(got, want.values<float>()), call);
    }
  });
}

BOOST_AUTO_TEST_CASE(a_training_step_in_a_jit_follows_the_plain_one) {
  on_each_device([](const std::string&) {
    Floats start = random_floats(6), xs = random_floats(8 * 3), ys = random_floats(8 * 2);
    std::vector<Floats> weights[2];
    for (bool captured : {false, true}) {
      Tensor w = tensor(start, {3, 2}), x = tensor(xs, {8, 3}), y = tensor(ys, {8, 2});
      auto body = [&](Tensor input, Tensor want) {
        Tensor loss = (input.matmul(w).tanh() - want).square().mean();
        w.assign(w - gradient(loss, std::vector<Tensor>{w})[0] * 0.5); // the loss is of the old weights
        return loss;
      };
      Jit step(body);
      for (int i = 0; i < 6; ++i) {
        (captured ? step(x, y) : body(x, y)).realize();
        weights[captured].push_back(w.values<float>());
      }
    }
    for (size_t i = 0; i < 6; ++i) BOOST_TEST(near(weights[1][i], weights[0][i]), i);
    BOOST_TEST(distinct(weights[0]) == 6U);
  });
}
