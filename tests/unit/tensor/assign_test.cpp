// In-place writes: each happens once, whoever reads it and however often, and nothing that was computed
// before one is taken for what is computed after it.
#include <cmath>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "device_runs.h"
#include "jit_support.h"
#include "tolk/schedule/schedule.h"
#include "tolk/tensor/gradient.h"
#include "tolk/tensor/jit.h"
#include "tolk/uop/build.h"
#include "tolk/uop/state.h"

using namespace tolk;
using namespace jit_test;

BOOST_AUTO_TEST_SUITE(in_place_writes)

BOOST_AUTO_TEST_CASE(a_write_happens_once_however_often_it_is_read) {
  on_each_device([](const std::string&) {
    Tensor a = tensor({0});
    a.assign(a + 1);
    Tensor s = a.sum(), view = a.reshape({1, 1});
    for (int i = 0; i < 3; ++i) BOOST_TEST(s.item() == 1);
    for (int i = 0; i < 3; ++i) BOOST_TEST(a.item() == 1);
    BOOST_TEST(view.realize().item() == 1);
    a.realize();
    BOOST_TEST(a.item() == 1);
    a.assign(a + 1), a.assign(a * 5);
    Tensor other = a + 0.5;
    BOOST_TEST(other.item() == 10.5);
    BOOST_TEST(a.item() == 10);
    BOOST_TEST(view.item() == 10); // the same storage
  });
}

BOOST_AUTO_TEST_CASE(a_lazy_clone_keeps_the_contents_that_it_was_made_of) {
  on_each_device([](const std::string&) {
    Jit f([](Tensor x) { return x * 2; });
    std::vector<Tensor> kept, views;
    for (int i = 1; i <= 5; ++i) {
      Tensor y = f(tensor({float(i), float(-i)}));
      kept.push_back(y.clone());
      views.push_back(y.narrow(0, 1, 1).clone());
    }
    for (int i = 1; i <= 5; ++i) {
      BOOST_TEST((kept[size_t(i - 1)].values<float>() == Floats{2 * float(i), -2 * float(i)}));
      BOOST_TEST(views[size_t(i - 1)].item() == -2 * i);
    }
    Tensor a = tensor({1, 2}).realize(), before = a.clone();
    a.assign(a * 10).realize();
    BOOST_TEST((before.values<float>() == Floats{1, 2}));
    a.clone(); // nobody sees it
    BOOST_TEST((a.values<float>() == Floats{10, 20}));
  });
}

BOOST_AUTO_TEST_CASE(equal_writes_are_different_writes) {
  on_each_device([](const std::string&) {
    Tensor a = tensor({0}), step = tensor({1});
    std::vector<Tensor> kept;
    for (int i = 1; i <= 4; ++i) {
      a.assign(a + step);
      kept.push_back(a); // keeps the node
      a.realize();
      BOOST_TEST(a.item() == i);
    }
    // A value that does not depend on what it overwrites.
    Tensor zero = tensor({0, 0}), one = tensor({1, 1}), b = tensor({5, 5});
    for (int round = 0; round < 2; ++round) {
      kept.push_back(b.assign(zero));
      BOOST_TEST((b.realize().values<float>() == Floats{0, 0}));
      kept.push_back(b.assign(one));
      BOOST_TEST((b.realize().values<float>() == Floats{1, 1}));
    }
  });
}

BOOST_AUTO_TEST_CASE(what_was_computed_before_a_write_is_not_what_comes_after_it) {
  on_each_device([](const std::string&) {
    Tensor x = tensor({1, 2}), y = x + 1, kept = y;
    y.realize();
    x.assign(tensor({10, 20})).realize();
    Tensor z = x + 1;
    BOOST_TEST((z.values<float>() == Floats{11, 21}));
    BOOST_TEST((kept.values<float>() == Floats{2, 3}));
    // Not realized by its own handle, but with something that reads it.
    x.assign(tensor({100, 200}));
    BOOST_TEST((x + 2).sum().item() == 304);
    BOOST_TEST((x + 1).values<float>()[1] == 201);
    // Lazy, and what it was built on is gone.
    BOOST_TEST(has(refusal<InvalidArgument>([&] { z.values<float>(); }), "was assigned to after"));
  });
}

BOOST_AUTO_TEST_CASE(writes_to_parts_are_seen_by_the_whole) {
  on_each_device([](const std::string&) {
    Tensor x = tensor({1, 2, 3, 4}), part = x.narrow(0, 1, 2), before = (x * 1).realize();
    for (int i = 1; i <= 3; ++i) {
      part.assign(part + 10).realize();
      BOOST_TEST((x.values<float>() == Floats{1, 2 + 10.f * float(i), 3 + 10.f * float(i), 4}));
    }
    BOOST_TEST((before.values<float>() == Floats{1, 2, 3, 4}));
  });
}

BOOST_AUTO_TEST_CASE(writes_in_a_capture_happen_once_a_call) {
  on_each_device([](const std::string&) {
    Tensor total = tensor({0});
    std::vector<Tensor> kept;
    Jit f([&](Tensor x) {
      total.assign(total + x);
      kept.push_back(total);
      Tensor twice = (total * 2).realize(); // the write is among its kernels
      return twice + total;
    });
    float sum = 0;
    for (int i = 1; i <= 5; ++i) {
      sum += float(i);
      BOOST_TEST(f(tensor({float(i)})).item() == 3 * sum);
      BOOST_TEST(total.item() == sum);
    }
  });
}

BOOST_AUTO_TEST_CASE(training_keeps_what_it_logged) {
  on_each_device([](const std::string&) {
    // w goes from 0 toward 1 by half of what is left, whatever handles are kept.
    Tensor w = tensor({0});
    std::vector<Tensor> weights, losses, gradients;
    for (int step = 0; step < 4; ++step) {
      Tensor loss = (w - 1).square().sum();
      gradients.push_back(gradient(loss, std::vector<Tensor>{w})[0]);
      losses.push_back(loss);
      losses.back().realize(), gradients.back().realize();
      w.assign(w - gradients.back() * 0.25).realize();
      weights.push_back(w);
    }
    BOOST_TEST(w.item() == 1 - 1.0 / 16);
    for (int step = 0; step < 4; ++step) {
      BOOST_TEST(losses[size_t(step)].item() == std::pow(0.25, step), step);
      BOOST_TEST(gradients[size_t(step)].item() == -2 * std::pow(0.5, step), step);
    }
  });
}

// States are names, not computations.
BOOST_AUTO_TEST_CASE(schedules_are_found_again_across_states) {
  DeviceScope scope("INTERP");
  Tensor w = tensor({0, 0, 0});
  auto step = [&] { w.assign(w * 0.5 + 1).realize(); };
  step(), step();
  schedule::CacheCounters before = schedule::schedule_cache_counters();
  for (int i = 0; i < 3; ++i) step();
  schedule::CacheCounters after = schedule::schedule_cache_counters();
  BOOST_TEST(after.hits - before.hits == 3U);
  BOOST_TEST(after.misses == before.misses);
  BOOST_TEST(is_state(w.node()));
  BOOST_TEST((without_states(w.reshape({1, 3}).node()) == reshape(without_states(w.node()), {1, 3})));
}

BOOST_AUTO_TEST_SUITE_END()
