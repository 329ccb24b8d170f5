// Captured functions that draw random numbers or leave gradients behind.
#include <algorithm>
#include <set>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "device_runs.h"
#include "jit_support.h"
#include "scoped_switch.h"
#include "tolk/tensor/gradient.h"
#include "tolk/tensor/jit.h"
#include "tolk/tensor/random.h"
#include "tolk/uop/build.h"
#include "tolk/uop/traverse.h"

using namespace tolk;
using namespace jit_test;

BOOST_AUTO_TEST_CASE(a_lazy_gradient_made_in_the_capture_is_read_later, *boost::unit_test::label("JB-14")) {
  on_each_device([](const std::string&) {
    Tensor w = tensor(random_floats(2 * 1 * 3 * 3), {2, 1, 3, 3});
    Tensor grad, plain; // of the captured function and of the same one run plainly: replays set no `grad`
    auto body = [&](Tensor in, Tensor& out) {
      out = {}; // of the call before
      // What is left lazy reads what the captured kernels wrote, so it follows the calls. Were it to read the
      // input itself, that would be the tensor of the second call.
      Tensor batch = (in * 3).realize();
      Tensor loss = batch.conv(w, {}, {}).square().sum();
      Tensor first = gradient(loss, std::vector<Tensor>{w})[0];
      Tensor hidden = batch.conv(w, {}, {}) * 2, again = hidden.relu().sum();
      Tensor second = gradient(again, std::vector<Tensor>{w})[0];
      hidden.realize(); // `second` reads it
      out = first + second;
      return loss.realize();
    };
    Jit f([&](Tensor in) { return body(in, grad); });
    std::set<Floats> different;
    for (int i = 0; i < 4; ++i) {
      Tensor x = tensor(random_floats(36), {1, 1, 6, 6});
      Floats loss{float(body(x, plain).item())}, want = plain.values<float>();
      BOOST_TEST_INFO("call " << i + 1);
      BOOST_TEST(near({float(f(x).item())}, loss));
      BOOST_TEST(near(grad.values<float>(), want));
      different.insert(want);
    }
    BOOST_TEST(different.size() == 4u);
  });
}

// The same with other inputs each time, while every run leaves the arenas full of what is no value: nothing
// may be read from one run in the next.
BOOST_AUTO_TEST_CASE(arenas_hold_nothing_between_runs, *boost::unit_test::label("MP-15")) {
  test::ScopedSwitch poison(test_switches().poison, true);
  on_each_device([](const std::string&) {
    Tensor w = tensor(random_floats(2 * 1 * 3 * 3), {2, 1, 3, 3});
    Tensor grad, plain; // of the captured function and of the same one run plainly: replays set no `grad`
    auto body = [&](Tensor in, Tensor& out) {
      out = {}; // of the call before
      Tensor hidden = in.conv(w, {}, {}).contiguous();
      Tensor loss = (hidden * 2 + 1).contiguous().square().sum();
      Tensor first = gradient(loss, std::vector<Tensor>{w})[0];
      Tensor second = gradient(hidden.relu().sum(), std::vector<Tensor>{w})[0];
      out = (first + second).realize();
      return loss.realize();
    };
    Jit f([&](Tensor in) { return body(in, grad); });
    for (int i = 0; i < 4; ++i) {
      Tensor x = tensor(random_floats(36), {1, 1, 6, 6});
      float want_loss = body(x, plain).item();
      Floats want = plain.values<float>();
      float loss = f(x).item();
      BOOST_TEST(near({loss}, {want_loss}));
      BOOST_TEST(near(grad.values<float>(), want));
    }
    bool arena = false;
    for (const UOp& u : toposort(f.captured()->planned_linear()))
      arena |= u.is(Op::SLICE) && u.src(0).is(Op::BUFFER) && slot_of(u.src(0)) < 0;
    BOOST_TEST(arena);
  });
}

BOOST_AUTO_TEST_CASE(what_the_function_leaves_behind_is_held, *boost::unit_test::label("P-39")) {
  on_each_device([](const std::string&) {
    Tensor w = tensor({1, 2, 3});
    Tensor hidden, lazy;
    Jit f([&](Tensor x) {
      hidden = (x * w).realize();
      lazy = hidden + 1;
      Tensor dropped = (hidden * 3).contiguous().realize();
      return dropped.sum();
    });
    for (int i = 1; i <= 4; ++i) {
      BOOST_TEST(f(tensor({float(i), 1, 2})).item() == 3 * (i + 2 + 6));
      BOOST_TEST(near(hidden.values<float>(), {float(i), 2, 6}));
      BOOST_TEST(near(lazy.values<float>(), {float(i) + 1, 3, 7}));
    }
    // The one that nothing refers to any more is a temporary of the capture.
    size_t outside = 0;
    for (const engine::JitStorage& s : f.captured()->storage())
      outside += s.role == engine::StorageRole::Written;
    BOOST_TEST(outside == 2u); // hidden and the result
  });
}

BOOST_AUTO_TEST_CASE(random_numbers_are_drawn_at_every_call, *boost::unit_test::label("JB-19")) {
  on_each_device([](const std::string&) {
    Tensor a = tensor(Floats(8, 1)), b = tensor(Floats(8, 2));
    auto sequence = [&](uint64_t seed) {
      manual_seed(seed);
      Jit f([](Tensor x, Tensor y) { return (x + y) * randn({8}); });
      std::vector<Floats> out;
      for (int i = 0; i < 5; ++i) out.push_back(f(a, b).values<float>());
      return out;
    };
    std::vector<Floats> first = sequence(1), again = sequence(1), other = sequence(2);
    BOOST_TEST(std::set<Floats>(first.begin(), first.end()).size() == 5u);
    BOOST_TEST((first == again));
    BOOST_TEST((first != other));
  });
}

BOOST_AUTO_TEST_CASE(captured_and_plain_functions_draw_the_same, *boost::unit_test::label("JB-20")) {
  on_each_device([](const std::string&) {
    auto body = [](Tensor x) {
      Tensor first = x + rand({4}), second = x * randn({4}) + rand({4});
      return std::pair{first, second};
    };
    Tensor x = tensor({1, 2, 3, 4});
    auto drawn = [&](auto&& call) {
      manual_seed(1337);
      std::vector<Floats> out;
      for (int i = 0; i < 5; ++i) {
        auto [first, second] = call(x);
        out.push_back(first.template values<float>()), out.push_back(second.template values<float>());
      }
      return out;
    };
    Jit f(body);
    std::vector<Floats> plain = drawn(body), captured = drawn(f);
    BOOST_TEST((plain == captured));
    BOOST_TEST(std::set<Floats>(plain.begin(), plain.end()).size() == 10u);
  });
}

BOOST_AUTO_TEST_CASE(random_after_a_draw_that_nobody_reads, *boost::unit_test::label("JB-21")) {
  on_each_device([](const std::string&) {
    manual_seed(0);
    Tensor discarded = rand({4});
    Jit f([] { return rand({4}).realize(); });
    std::vector<Floats> out;
    for (int i = 0; i < 3; ++i) out.push_back(f().values<float>());
    BOOST_TEST((out[1] != out[2]));
    BOOST_TEST((out[0] != out[1]));
  });
}

BOOST_AUTO_TEST_CASE(random_integers_with_and_without_capture, *boost::unit_test::label("JB-22")) {
  on_each_device([](const std::string&) {
    auto drawn = [](int64_t jit) {
      Settings settings([&](Config& c) { c.jit = jit; });
      manual_seed(0);
      Tensor a = randint({20}, 0, 5), b = randint({20}, 0, 5); // discarded
      Jit f([] { return randint({20}, 0, 5); });
      std::vector<std::vector<int32_t>> out;
      for (int i = 0; i < 5; ++i) out.push_back(f().values<int32_t>());
      return out;
    };
    auto plain = drawn(0), captured = drawn(1);
    BOOST_TEST((plain == captured));
    for (const auto& list : plain)
      for (int32_t v : list) BOOST_TEST((v >= 0 && v < 5));
  });
}
