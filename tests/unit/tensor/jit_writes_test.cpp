// Captured functions and writes: what is pending at a call, what a function assigns, what replays leave
// behind, inputs that are results, other threads.
#include <atomic>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "device_runs.h"
#include "jit_support.h"
#include "tolk/device/registry.h"
#include "tolk/engine/run/statistics.h"
#include "tolk/tensor/gradient.h"
#include "tolk/tensor/random.h"
#include "tolk/tensor/saved_jit.h"

using namespace tolk;
using namespace jit_test;

BOOST_AUTO_TEST_SUITE(jit_writes)

// Captured, and with JIT=0 for the same results.
static void captured_or_not(const std::function<void(bool captured)>& body) {
  on_each_device([&](const std::string&) {
    body(true);
    Settings off([](Config& c) { c.jit = 0; });
    body(false);
  });
}

BOOST_AUTO_TEST_CASE(a_pending_write_is_no_part_of_the_capture) {
  captured_or_not([](bool captured) {
    Tensor w = tensor({0, 0}), x = tensor({1, 2});
    Jit f([&](Tensor t) { return t + w; });
    Floats want{0, 0};
    for (int i = 0; i < 5; ++i) {
      w.assign(w + 10); // before the warm-up, the capture, and replays
      want = plus(want, {10, 10});
      BOOST_TEST((f(x).values<float>() == plus(want, {1, 2})));
      BOOST_TEST((f(x).values<float>() == plus(want, {1, 2})));
      BOOST_TEST((w.values<float>() == want));
    }
    if (captured) BOOST_TEST(f.captured()->num_kernels() == 1u);
    // Through a view, and of an input.
    w.narrow(0, 1, 1).assign(tensor({-1}));
    x.assign(x * 2);
    BOOST_TEST((f(x).values<float>() == Floats{52, 3}));
  });
}

BOOST_AUTO_TEST_CASE(a_write_that_the_function_leaves_pending_is_in_every_replay) {
  captured_or_not([](bool) {
    Tensor total = tensor({0}), other = total, log = tensor(Floats(6, 0));
    Variable at("at", 0, 5);
    Jit f([&](Tensor x, const SInt& position) {
      total.assign(total + x);
      log.narrow(0, position, 1).assign(x * 100);
      return x + total; // sees the new total
    });
    Jit nothing([&](Tensor x) { other.assign(other + x * 1000); });
    float sum = 0;
    Floats rows(6, 0);
    for (int i = 1; i <= 5; ++i) {
      sum += float(i), rows[size_t(i)] = 100 * float(i);
      BOOST_TEST(f(tensor({float(i)}), at.bind(i)).item() == sum + float(i));
      BOOST_TEST(other.item() == sum);
      sum += 1000;
      nothing(tensor({1}));
      BOOST_TEST(total.item() == sum);
      BOOST_TEST((log.values<float>() == rows));
    }
  });
}

BOOST_AUTO_TEST_CASE(a_result_on_the_old_contents_beside_a_pending_write) {
  captured_or_not([](bool) {
    Tensor w = tensor({1});
    Jit f([&](Tensor x) {
      Tensor y = w * x;
      w.assign(w + 1);
      return y;
    });
    for (int i = 1; i <= 5; ++i) {
      BOOST_TEST(f(tensor({10})).item() == 10 * i);
      BOOST_TEST(w.item() == i + 1);
    }
  });
}

BOOST_AUTO_TEST_CASE(a_training_step_that_realizes_nothing) {
  captured_or_not([](bool) {
    double slope = 0.5;
    Tensor w = tensor({0.5}), kept = w;
    Jit step([&](Tensor x) {
      Tensor loss = (x * w - 3).square().sum();
      w.assign(w - gradient(loss, std::vector<Tensor>{w})[0] * 0.125);
      return loss;
    });
    for (int i = 0; i < 5; ++i) {
      BOOST_TEST(step(tensor({1})).item() == (slope - 3) * (slope - 3), boost::test_tools::tolerance(1e-6));
      slope -= 0.125 * 2 * (slope - 3);
      BOOST_TEST(kept.item() == slope, boost::test_tools::tolerance(1e-6));
    }
  });
}

BOOST_AUTO_TEST_CASE(values_of_storage_that_a_replay_wrote_are_computed_anew) {
  on_each_device([](const std::string&) {
    Tensor state = tensor({0, 0}), alias = state, row = state.narrow(0, 1, 1), in = tensor({0, 0});
    Jit f([&](Tensor x, Tensor out) {
      state.assign(state + x).realize();
      out.assign(x * 3).realize();
    });
    std::vector<Tensor> kept; // nodes of earlier iterations
    for (int i = 1; i <= 5; ++i) {
      f(tensor({1, 2}), in);
      Tensor twice = alias * 2, tripled = in + 1, part = row + 0.5;
      for (Tensor* t : {&twice, &tripled, &part}) kept.push_back(*t), t->realize();
      BOOST_TEST((twice.values<float>() == Floats{2 * float(i), 4 * float(i)}));
      BOOST_TEST((tripled.values<float>() == Floats{4, 7}));
      BOOST_TEST((part.values<float>() == Floats{2 * float(i) + 0.5f}));
      in.assign(Tensor::zeros({2}));
    }
    BOOST_TEST((kept[0].values<float>() == Floats{2, 4}));
  });
}

BOOST_AUTO_TEST_CASE(a_result_of_an_earlier_call_is_not_found_for_an_equal_expression) {
  on_each_device([](const std::string&) {
    std::vector<Tensor> kept;
    Tensor x = tensor({1, 2});
    int calls = 0;
    Jit f([&](Tensor t) {
      Tensor y = t + 1;
      if (++calls == 2) kept.push_back(y);
      return y;
    });
    f(tensor({5, 6})), f(x);
    for (int i = 0; i < 3; ++i) {
      f(tensor({float(i), 7}));
      BOOST_TEST(((x + 1).values<float>() == Floats{2, 3}));
    }
  });
}

BOOST_AUTO_TEST_CASE(old_expressions_are_refused_also_when_a_replay_wrote) {
  on_each_device([](const std::string&) {
    Tensor w = tensor({1});
    Jit step([&](Tensor x) { w.assign(w + x); });
    Tensor one = tensor({1});
    for (int i = 0; i < 3; ++i) step(one);
    Tensor before = w * 2;
    step(one);
    BOOST_TEST(has(refusal<InvalidArgument>([&] { before.item(); }), "was assigned to after"));
    BOOST_TEST((w * 2).item() == 10);
  });
}

BOOST_AUTO_TEST_CASE(inputs_that_are_results_are_those_of_the_call) {
  captured_or_not([](bool) {
    using Results = std::map<std::string, Tensor>;
    Variable n("n", 1, 4);
    Jit f([](Tensor x, std::vector<Tensor> more, Tensor part) {
      more[0].assign(more[0] + 1);
      return std::tuple<Tensor, Results, std::optional<Tensor>>{
          x, Results{{"sum", x + more[0]}, {"more", more[0].reshape({1, 2})}}, part};
    });
    for (int i = 1; i <= 4; ++i) {
      Tensor x = tensor({float(i), 1}), y = tensor({10 * float(i), 2}), z = tensor(ramp(4, float(i)));
      auto [same, map, part] = f(x, {y}, z.narrow(0, 0, n.bind(i)));
      BOOST_TEST((same.values<float>() == Floats{float(i), 1}));
      BOOST_TEST((map.at("sum").values<float>() == Floats{11 * float(i) + 1, 4}));
      BOOST_TEST((map.at("more").values<float>() == Floats{10 * float(i) + 1, 3}));
      BOOST_TEST((part->values<float>() == ramp(size_t(i), float(i))));
      same.assign(same * 2); // it is the input
      BOOST_TEST((x.values<float>() == Floats{2 * float(i), 2}));
    }
  });
}

BOOST_AUTO_TEST_CASE(a_capture_does_not_hold_an_input_that_it_returns) {
  on_each_device([](const std::string&) {
    Jit f([](Tensor x) { return std::pair<Tensor, Tensor>{x + 1, x}; });
    f(tensor(Floats(1000, 1))), f(tensor(Floats(1000, 2)));
    int64_t used = engine::GlobalCounters::get().mem_used;
    for (int i = 0; i < 3; ++i) BOOST_TEST(f(tensor(Floats(1000, 5))).second.values<float>()[7] == 5);
    // The prepared replay holds the last input; the capture's own is gone.
    BOOST_TEST(engine::GlobalCounters::get().mem_used <= used);
    // An earlier result as such an input: its storage is overwritten, so there is nothing to return.
    Tensor y = f(tensor(Floats(1000, 1))).first;
    BOOST_TEST(has(refusal<JitError>([&] { f(y); }), "is returned as it is"));
    BOOST_TEST(f(y.clone()).second.values<float>()[0] == 2);
  });
}

BOOST_AUTO_TEST_CASE(a_saved_capture_returns_the_inputs_of_its_calls) {
  on_each_device([](const std::string&) {
    Tensor w = tensor({100, 200});
    Jit f([&](Tensor x) {
      w.assign(w + x);
      return std::vector<Tensor>{x.reshape({2, 1}), x * 2, w};
    });
    for (int i = 0; i < 2; ++i) f(tensor({1, 2}));
    LoadedJit loaded = load_jit(save_jit(f));
    for (int i = 1; i <= 3; ++i) {
      Tensor x = tensor({float(i), 5});
      std::vector<Tensor> got = loaded(x);
      BOOST_TEST((got[0].values<float>() == Floats{float(i), 5}));
      BOOST_TEST((got[1].values<float>() == Floats{2 * float(i), 10}));
      BOOST_TEST((got[2].values<float>() == Floats{102 + float(i * (i + 1)) / 2, 204 + 5 * float(i)}));
      x.assign(x + 1);
    }
  });
}

BOOST_AUTO_TEST_CASE(a_cache_of_keys_and_values) {
  captured_or_not([](bool) {
    Variable at("at", 0, 7);
    Tensor keys = tensor(Floats(16, 0), {8, 2}), values = tensor(Floats(16, 0), {8, 2});
    Jit step([&](Tensor k, Tensor v, const SInt& position) {
      keys.narrow(0, position, 1).assign(k.reshape({1, 2}));
      values.narrow(0, position, 1).assign(v.reshape({1, 2}));
      Tensor scores = (keys.narrow(0, 0, position + 1) * k).sum({1}, true);
      return (scores * values.narrow(0, 0, position + 1)).sum({0});
    });
    std::vector<Floats> ks, vs;
    for (int i = 0; i < 6; ++i) {
      ks.push_back(random_floats(2)), vs.push_back(random_floats(2));
      Floats want(2, 0);
      for (size_t r = 0; r < ks.size(); ++r)
        for (size_t c = 0; c < 2; ++c)
          want[c] += (ks[r][0] * ks.back()[0] + ks[r][1] * ks.back()[1]) * vs[r][c];
      BOOST_TEST(near(step(tensor(ks.back()), tensor(vs.back()), at.bind(i)).values<float>(), want));
    }
    keys.assign(Tensor::zeros({8, 2})); // a new sequence, cleared lazily
    values.assign(Tensor::zeros({8, 2}));
    BOOST_TEST(near(step(tensor({1, 1}), tensor({3, 4}), at.bind(2)).values<float>(), {6, 8}));
  });
}

BOOST_AUTO_TEST_CASE(what_other_threads_compute_during_a_capture_is_refused) {
  on_each_device([](const std::string& device) {
    Tensor shared = tensor({1}), old = tensor({5});
    int calls = 0;
    Jit f([&](Tensor x) {
      ++calls;
      std::thread([&, device] {
        DeviceScope scope(device);
        shared = (old * float(calls)).realize();
      }).join();
      return x + shared;
    });
    BOOST_TEST(f(tensor({1})).item() == 6);
    std::string message = refusal<JitError>([&] { f(tensor({1})); });
    BOOST_TEST(has(message, "another thread computed while the function was captured"), message);
    BOOST_TEST(has(message, "pass it as an input"), message);
    // Asked for: CAPTURING=0 computes once, at the capture.
    Jit once([&](Tensor x) {
      Tensor table;
      {
        Settings quiet([](Config& c) { c.capturing = 0; });
        table = (old * 2).realize();
      }
      return x + table;
    });
    for (int i = 0; i < 4; ++i) BOOST_TEST(once(tensor({float(i)})).item() == i + 10);
  });
}

BOOST_AUTO_TEST_CASE(another_thread_in_a_call_is_no_call_inside_a_call) {
  DeviceScope scope("INTERP");
  std::atomic<bool> inside{false}, leave{false};
  Jit f([&](Tensor x) {
    inside = true;
    while (!leave) std::this_thread::yield();
    return x + 1;
  });
  Tensor a = tensor({1}), b = tensor({2});
  double got = 0;
  std::thread other([&] {
    DeviceScope again("INTERP");
    got = f(a).item();
  });
  while (!inside) std::this_thread::yield();
  std::string message = refusal<JitError>([&] { f(b); });
  leave = true;
  other.join();
  BOOST_TEST(has(message, "another thread is in a call of this captured function"), message);
  BOOST_TEST(!has(message, "inside another TinyJit"), message);
  BOOST_TEST(got == 2);
  BOOST_TEST(f(b).item() == 3);
}

BOOST_AUTO_TEST_CASE(CAPTURING_0_is_named_as_the_reason) {
  Jit f([](Tensor x) { return x + 1; });
  Tensor x = tensor({1});
  f(x);
  {
    Settings quiet([](Config& c) { c.capturing = 0; });
    std::string message = refusal<JitError>([&] { f(x); });
    BOOST_TEST(has(message, "didn't JIT anything! CAPTURING=0 is set"), message);
  }
  for (int i = 0; i < 2; ++i) BOOST_TEST(f(x).item() == 2);
}

BOOST_AUTO_TEST_CASE(the_advice_on_seeding_fits) {
  Jit f([](Tensor x) {
    manual_seed(1);
    return x + rand({2});
  });
  Tensor x = tensor({1, 2});
  f(x);
  std::string message = refusal<JitError>([&] { f(x); });
  BOOST_TEST(has(message, "Call manual_seed before the function is called"), message);
  BOOST_TEST(!has(message, "UNSAFE_ALLOW_JIT_BUFFER"), message);
}

BOOST_AUTO_TEST_CASE(a_variable_that_is_rebound_is_frozen_and_one_that_is_assigned_is_not) {
  // As the header says: replays know the storage, not the variable.
  Tensor w = tensor({100}), v = tensor({100});
  Jit rebound([&](Tensor x) { return w = (w - x).realize(); });
  Jit assigned([&](Tensor x) {
    v.assign(v - x);
    return v;
  });
  std::vector<double> got;
  for (int i = 1; i <= 5; ++i) {
    got.push_back(rebound(tensor({1})).item());
    BOOST_TEST(assigned(tensor({1})).item() == 100 - i);
  }
  BOOST_TEST((got == std::vector<double>{99, 98, 98, 98, 98}));
}

BOOST_AUTO_TEST_SUITE_END()
