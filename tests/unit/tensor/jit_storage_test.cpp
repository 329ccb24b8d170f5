// Captured functions and storage: aliasing of inputs and outputs, pruning, giving memory back.
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "device_runs.h"
#include "jit_support.h"
#include "other_process.h"
#include "tolk/device/registry.h"
#include "tolk/engine/graph/graph_call.h"
#include "tolk/engine/run/statistics.h"
#include "tolk/tensor/jit.h"
#include "tolk/uop/build.h"
#include "tolk/uop/state.h"
#include "tolk/uop/traverse.h"

using namespace tolk;
using namespace jit_test;

namespace {
int64_t memory() { return engine::GlobalCounters::get().mem_used; }
int64_t kernels() { return engine::GlobalCounters::get().kernel_count; }
} // namespace

BOOST_AUTO_TEST_CASE(an_output_is_the_next_input, *boost::unit_test::label("JA-01")) {
  on_each_device([](const std::string& device) {
    Jit step([](Tensor x) { return ((x + 1).contiguous() * 2).contiguous(); });
    for (int i = 0; i < 3; ++i) step(tensor({20}));
    Tensor x = tensor({42});
    for (int i = 0; i < 3; ++i) x = step(x);
    BOOST_TEST(x.item() == 350);
    // On the device that has graphs both kernels are one.
    BOOST_TEST(step.captured()->num_kernels() == 2u);
    bool graph = engine::is_graph_call(step.captured()->linear().src(0));
    if (device == "CPU") BOOST_TEST((graph && step.captured()->num_calls() == 1));
    if (device == "INTERP") BOOST_TEST((!graph && step.captured()->num_calls() == 2));
    Tensor y = tensor({100});
    for (int i = 0; i < 3; ++i) y = step(y);
    BOOST_TEST(y.item() == 814);
  });
}

BOOST_AUTO_TEST_CASE(an_input_that_the_replay_writes_is_copied_first, *boost::unit_test::label("P-09")) {
  on_each_device([](const std::string&) {
    Jit step([](Tensor x) { return ((x + 1).contiguous() * 2).contiguous(); });
    Tensor x;
    for (int i = 0; i < 3; ++i) x = step(tensor({20}));
    BOOST_TEST(step.replay()->input_copies() == 0u);
    x = step(x);
    BOOST_TEST(step.replay()->input_copies() == 1u);
    BOOST_TEST(x.item() == 86);
  });
}

BOOST_AUTO_TEST_CASE(outputs_and_an_input_share_their_source, *boost::unit_test::label("JA-02")) {
  on_each_device([](const std::string&) {
    Jit f([](Tensor buf, Tensor frame) {
      Tensor next = Tensor::concat({buf.slice(0, 1, 4), frame}, 0);
      return std::pair{next, next.narrow(0, 0, 1)};
    });
    Tensor buf = tensor({0, 1, 2, 3});
    for (int i = 0; i < 6; ++i) {
      float second = buf.values<float>()[1];
      auto [next, first] = f(buf, tensor({float(10 + i)}));
      BOOST_TEST(first.item() == second);
      buf = next;
    }
    BOOST_TEST((buf.values<float>() == Floats{12, 13, 14, 15}));
  });
}

namespace {
void rolling(bool prune) {
  const int64_t n = 1 << 20;
  JitOptions options;
  options.prune = prune;
  Jit f([&](Tensor buf, Tensor fresh) { return Tensor::concat({buf.slice(0, n / 2, n), fresh}, 0); },
        options);
  auto filled = [&](int v) { return Tensor::constant(DType::I32, v, {n / 2}).clone().realize(); };
  Tensor buf = Tensor::zeros({n}, DType::I32).clone().realize();
  for (int i = 0; i < 5; ++i) buf = f(buf, filled(i + 1));
  buf = Tensor::zeros({n}, DType::I32).clone().realize();
  for (int i = 0; i < 10; ++i) {
    buf = f(buf, filled(i + 1));
    std::vector<int32_t> got = buf.values<int32_t>();
    int64_t wrong = 0;
    for (int64_t k = 0; k < n; ++k) wrong += got[size_t(k)] != (k < n / 2 ? i : i + 1);
    BOOST_TEST(wrong == 0, "replay " << i << ": " << wrong << " elements");
  }
}
} // namespace

BOOST_AUTO_TEST_CASE(a_rolling_buffer_with_prune, *boost::unit_test::label("JA-03")) { rolling(true); }

// The threads of the CPU device are those that its plugin was loaded with, so each number has a process.
BOOST_AUTO_TEST_CASE(in_the_child_a_rolling_buffer_is_fed_back, *boost::unit_test::disabled()) {
  DeviceScope scope("CPU");
  rolling(false);
  BOOST_TEST(int64_t(test::threads_of_this_process()) >= Config::current().cpu_threads);
}
BOOST_AUTO_TEST_CASE(a_rolling_buffer_is_fed_back, *boost::unit_test::label("bug-04")) {
  for (const char* threads : {"1", "8"})
    BOOST_TEST(test::passes_in_another_process("in_the_child_a_rolling_buffer_is_fed_back",
                                               std::string("TOLK_CPU_THREADS=") + threads),
               threads << " threads");
}

BOOST_AUTO_TEST_CASE(an_input_is_a_view_of_what_replays_write, *boost::unit_test::label("JA-04")) {
  on_each_device([](const std::string&) {
    Jit f([](Tensor x) { return Tensor::concat({x + 1, x * 2}, 0); });
    Tensor out;
    for (int i = 0; i < 3; ++i) out = f(tensor(ramp(8)).narrow(0, 2, 4)); // 2 3 4 5
    BOOST_TEST((out.values<float>() == Floats{3, 4, 5, 6, 4, 6, 8, 10}));
    out = f(out.narrow(0, 2, 4)); // 5 6 4 6
    BOOST_TEST(f.replay()->input_copies() == 1u);
    BOOST_TEST((out.values<float>() == Floats{6, 7, 5, 7, 10, 12, 8, 12}));
  });
}

BOOST_AUTO_TEST_CASE(an_input_aliases_state_that_is_updated, *boost::unit_test::label("JA-05")) {
  on_each_device([](const std::string&) {
    Tensor s = tensor({5});
    auto body = [&](Tensor x) {
      Tensor y = (x * 10).realize();
      s.assign(s + 1).realize();
      return y + s;
    };
    BOOST_TEST(body(s).item() == 56); // x had its value of before
    Jit f(body);
    for (int i = 0; i < 3; ++i) BOOST_TEST(f(tensor({1})).item() == 10 + 7 + i);
    BOOST_TEST(f(s).item() == 90 + 10);
    BOOST_TEST(s.item() == 10);
  });
}

BOOST_AUTO_TEST_CASE(an_aliased_input_that_is_updated_in_place, *boost::unit_test::label("JA-06")) {
  on_each_device([](const std::string&) {
    Jit f([](Tensor x) {
      x.assign(x + 1).realize();
      return x * 2;
    });
    Tensor y;
    for (int i = 0; i < 3; ++i) y = f(tensor({float(i)}));
    std::string message = refusal<JitError>([&] { f(y); });
    BOOST_TEST(has(message, "input 0 aliases a buffer the captured schedule writes and is updated in place"),
               message);
    BOOST_TEST(y.item() == 6);
  });
}

BOOST_AUTO_TEST_CASE(an_updated_input_may_not_share_storage_with_what_is_read) {
  Tensor w = tensor({1, 2});
  Jit f([&](Tensor x) { x.assign(x + w).realize(); });
  for (int i = 0; i < 3; ++i) f(tensor({1, 1}));
  BOOST_TEST(has(refusal<JitError>([&] { f(w); }), "input 0 aliases a buffer the captured schedule reads"));
  // Two inputs of one storage cannot be told apart from one another when one is updated.
  Jit two([](Tensor x, Tensor y) { x.assign(x + y).realize(); });
  for (int i = 0; i < 3; ++i) two(tensor({1, 1}), tensor({1, 1}));
  BOOST_TEST(has(refusal<JitError>([&] { two(w, w.reshape({2})); }), "duplicate inputs to JIT"));
}

BOOST_AUTO_TEST_CASE(a_kernel_of_weights_alone_is_pruned, *boost::unit_test::label("PR-01")) {
  on_each_device([](const std::string&) {
    Tensor w = tensor({1, 2, 3});
    for (bool prune : {false, true}) {
      JitOptions options;
      options.prune = prune;
      Jit f([&](Tensor x) { return (w * 2).contiguous() + x; }, options);
      for (int i = 0; i < 3; ++i)
        BOOST_TEST((f(tensor(Floats(3, float(i)))).values<float>() ==
                    Floats{2 + float(i), 4 + float(i), 6 + float(i)}));
      BOOST_TEST(f.captured()->num_kernels() == (prune ? 1u : 2u));
    }
  });
}

BOOST_AUTO_TEST_CASE(results_of_pruned_kernels_stay_valid, *boost::unit_test::label("P-05")) {
  on_each_device([](const std::string&) {
    Tensor w = tensor(random_floats(50), {50});
    auto body = [&](Tensor x) {
      Tensor a = (w * 2).contiguous(), b = (a + 1).contiguous();
      return (a * x).contiguous() + b;
    };
    JitOptions prune;
    prune.prune = true;
    Jit pruned(body, prune), plain(body);
    for (int i = 0; i < 5; ++i) {
      Floats v = random_floats(50), scale = w.values<float>(), want;
      for (size_t k = 0; k < 50; ++k) want.push_back(2 * scale[k] * v[k] + 2 * scale[k] + 1);
      BOOST_TEST(near(pruned(tensor(v)).values<float>(), want));
      BOOST_TEST(near(plain(tensor(v)).values<float>(), want));
    }
    BOOST_TEST(pruned.captured()->num_kernels() < plain.captured()->num_kernels());
  });
}

BOOST_AUTO_TEST_CASE(pruning_is_logged, *boost::unit_test::label("P-06")) {
  JitOptions prune;
  prune.prune = true;
  Tensor w = tensor({1, 2, 3});
  Jit f([&](Tensor x) { return (w * 2).contiguous() + x; }, prune);
  Tensor x = tensor({1, 1, 1});
  f(x);
  Settings verbose([](Config& c) { c.debug = 1; });
  std::string text = captured_stderr([&] { f(x); });
  BOOST_TEST(has(text, "pruned from 2 -> 1 kernels"), text);
}

BOOST_AUTO_TEST_CASE(a_copy_that_depends_on_the_input_is_kept, *boost::unit_test::label("PR-02")) {
  on_each_device([](const std::string& device) {
    Tensor w = tensor({1, 2, 3});
    for (bool prune : {false, true}) {
      JitOptions options;
      options.prune = prune;
      Jit f([&](Tensor x) { return (w * 2).contiguous() + x.to(device); }, options);
      for (int i = 0; i < 4; ++i) {
        Tensor x = Tensor::from(Floats(3, float(i)), {3}, device + ":1").realize();
        BOOST_TEST((f(x).values<float>() == Floats{2 + float(i), 4 + float(i), 6 + float(i)}));
      }
      // The copy and the sum, with the product's kernel when it is not pruned.
      BOOST_TEST(f.captured()->num_kernels() == (prune ? 1u : 2u));
      BOOST_TEST(f.captured()->planned_linear().nsrc() == (prune ? 2u : 3u));
    }
  });
}

BOOST_AUTO_TEST_CASE(an_independent_copy_is_pruned, *boost::unit_test::label("PR-03")) {
  on_each_device([](const std::string& device) {
    Tensor w = Tensor::from(Floats{1, 2, 3}, {3}, device + ":1").realize();
    JitOptions prune;
    prune.prune = true;
    Jit f([&](Tensor x) { return (w * 2).contiguous().to(device) + x; }, prune);
    for (int i = 0; i < 4; ++i)
      BOOST_TEST((f(tensor(Floats(3, float(i)))).values<float>() ==
                  Floats{2 + float(i), 4 + float(i), 6 + float(i)}));
    BOOST_TEST(f.captured()->num_calls() == 1u);
    BOOST_TEST(f.captured()->num_kernels() == 1u);
  });
}

BOOST_AUTO_TEST_CASE(state_that_no_input_touches_is_updated_at_each_call, *boost::unit_test::label("PR-04")) {
  on_each_device([](const std::string&) {
    JitOptions prune;
    prune.prune = true;
    Tensor counter = tensor({0});
    Jit f(
        [&](Tensor x) {
          counter.assign(counter + 1).realize();
          return x + 1;
        },
        prune);
    for (int i = 0; i < 5; ++i) BOOST_TEST(f(tensor({float(i)})).item() == i + 1);
    BOOST_TEST(counter.item() == 5);
  });
}

BOOST_AUTO_TEST_CASE(a_kernel_of_a_variable_is_kept, *boost::unit_test::label("PR-05")) {
  on_each_device([](const std::string&) {
    JitOptions prune;
    prune.prune = true;
    Variable n("n", 1, 8);
    Tensor a = tensor(ramp(8, 1));
    Jit f([&](Tensor x, const SInt& size) { return std::pair{x + 1, a.narrow(0, 0, size).sum()}; }, prune);
    for (int i = 1; i <= 4; ++i) {
      auto [y, total] = f(tensor({float(i)}), n.bind(i));
      BOOST_TEST(y.item() == i + 1);
      BOOST_TEST(total.item() == i * (i + 1) / 2);
    }
  });
}

BOOST_AUTO_TEST_CASE(a_later_write_to_what_a_pruned_kernel_would_write, *boost::unit_test::label("PR-06")) {
  on_each_device([](const std::string&) {
    JitOptions prune;
    prune.prune = true;
    Tensor w = tensor({1, 2}), b = tensor({0, 0});
    Jit f(
        [&](Tensor x) {
          b.assign(w * 2).realize();
          Tensor c = (b + x).realize();
          b.assign(w * 3).realize();
          Tensor d = (b + x).realize();
          return std::pair{c, d};
        },
        prune);
    for (int i = 0; i < 4; ++i) {
      auto [c, d] = f(tensor(Floats(2, float(i))));
      BOOST_TEST((c.values<float>() == Floats{2 + float(i), 4 + float(i)}));
      BOOST_TEST((d.values<float>() == Floats{3 + float(i), 6 + float(i)}));
    }
  });
}

BOOST_AUTO_TEST_CASE(a_function_that_no_input_reaches, *boost::unit_test::label("PR-07")) {
  JitOptions prune;
  prune.prune = true;
  Tensor w = tensor({1, 2});
  Jit f([&](Tensor) { return w * 2; }, prune);
  Tensor x = tensor({1});
  f(x);
  int64_t before = kernels();
  BOOST_TEST(has(refusal<JitError>([&] { f(x); }), "didn't JIT anything!"));
  BOOST_TEST(kernels() == before);
}

BOOST_AUTO_TEST_CASE(intermediates_are_given_back_and_come_again, *boost::unit_test::label("FR-01")) {
  on_each_device([](const std::string&) {
    Tensor ext = Tensor::from(std::vector<int32_t>{1, 24, 23, 45, 1}, {5}).realize();
    Jit f([&](Tensor x) {
      Tensor t1 = (x * 2).contiguous().realize(), t2 = (t1 + ext).contiguous().realize();
      return t2.sum().realize();
    });
    auto input = [](int32_t first) {
      return Tensor::from(std::vector<int32_t>{first, 1, 2, 3, 4}, {5}).realize();
    };
    for (int i = 0; i < 5; ++i) BOOST_TEST(f(input(i)).item() == 2 * (i + 10) + 94);
    Tensor eleven = input(11);
    int64_t before = memory();
    f.replay()->free_intermediates();
    BOOST_TEST(before - memory() >= 44);
    int64_t freed = memory();
    f.replay()->free_intermediates();
    BOOST_TEST(memory() == freed);
    BOOST_TEST(f(eleven).item() == 136);
    f.replay()->free_intermediates(), f.replay()->free_intermediates();
    BOOST_TEST(f(eleven).item() == 136);
  });
}

BOOST_AUTO_TEST_CASE(state_that_is_updated_in_place_is_not_given_back, *boost::unit_test::label("FR-02")) {
  on_each_device([](const std::string&) {
    Tensor x = tensor({1});
    Jit f([&](Tensor y) { x.assign(x + y).realize(); });
    for (int i = 0; i < 5; ++i) f(tensor({1}));
    BOOST_TEST(x.item() == 6);
    Tensor two = tensor({2});
    int64_t before = memory();
    f.replay()->free_intermediates();
    BOOST_TEST(memory() == before);
    f(two);
    BOOST_TEST(x.item() == 8);
  });
}

BOOST_AUTO_TEST_CASE(rows_that_are_written_at_a_position_are_not_given_back) {
  on_each_device([](const std::string&) {
    Variable pos("pos", 0, 3);
    Tensor cache = tensor(Floats(8, 0), {4, 2}), fixed = tensor(Floats(8, 0), {4, 2});
    Jit f([&](Tensor x, const SInt& at) {
      cache.narrow(0, at, 1).assign(x.reshape({1, 2})).realize();
      fixed.narrow(0, 2, 1).assign(x.reshape({1, 2})).realize();
      return x + 1;
    });
    for (int i = 0; i < 4; ++i) {
      f(tensor({float(i), 1}), pos.bind(i));
      if (i > 0) f.replay()->free_intermediates();
    }
    BOOST_TEST((cache.values<float>() == Floats{0, 1, 1, 1, 2, 1, 3, 1}));
    BOOST_TEST((fixed.values<float>() == Floats{0, 0, 0, 0, 3, 1, 0, 0}));
  });
}

BOOST_AUTO_TEST_CASE(loop_carried_state_survives_free_intermediates, *boost::unit_test::label("RG-19")) {
  on_each_device([](const std::string&) {
    Tensor b = tensor({1, 2});
    auto body = [&](Tensor x) {
      Tensor y = (b + x).realize();
      b.assign(y * 1).realize();
      return y;
    };
    Jit f(body);
    Floats want{1, 2};
    auto call = [&](float v) {
      want = plus(want, {v, v});
      BOOST_TEST((f(tensor({v, v})).values<float>() == want));
    };
    for (int i = 1; i <= 4; ++i) call(float(i));
    f.replay()->free_intermediates();
    call(10);
    BOOST_TEST((b.values<float>() == want));
  });
}

BOOST_AUTO_TEST_CASE(a_capture_gives_its_memory_back,
                     *boost::unit_test::label("J-14") * boost::unit_test::label("FR-03")) {
  on_each_device([](const std::string&) {
    Tensor w = tensor(random_floats(1000));
    int64_t before = memory();
    auto run = [&] {
      Jit f([&](Tensor x) {
        Tensor t = (x + w).contiguous(), u = (t * 2).contiguous();
        return (t + u).contiguous();
      });
      for (int i = 0; i < 5; ++i) f(tensor(random_floats(1000)));
      BOOST_TEST(memory() > before);
      return f.captured();
    };
    // The handle owns it also when the function is gone.
    auto kept = run();
    BOOST_TEST(memory() > before);
    kept.reset();
    BOOST_TEST(memory() == before);
    run();
    BOOST_TEST(memory() == before);
  });
}

BOOST_AUTO_TEST_CASE(two_captures_of_one_function_do_not_mix, *boost::unit_test::label("RG-07")) {
  on_each_device([](const std::string&) {
    auto body = [](Tensor x) { return ((x + 1).contiguous() * 2).contiguous(); };
    Jit f(body), g(body);
    Tensor a, b;
    for (int i = 0; i < 4; ++i) {
      a = f(tensor({float(i)}));
      b = g(tensor({float(100 + i)}));
      BOOST_TEST(a.item() == 2 * (i + 1));
      BOOST_TEST(b.item() == 2 * (i + 101));
    }
    f(tensor({7}));
    BOOST_TEST(b.item() == 2 * 104);
  });
}

BOOST_AUTO_TEST_CASE(a_captured_jit_inside_of_a_capture, *boost::unit_test::label("RG-14")) {
  Jit inner([](Tensor x) { return x + 1; });
  for (int i = 0; i < 3; ++i) inner(tensor({float(i)}));
  Jit outer([&](Tensor x) { return inner(x * 2); });
  Tensor x = tensor({1});
  outer(x);
  BOOST_TEST(
      has(refusal<JitError>([&] { outer(x); }), "having TinyJit inside another TinyJit is not supported"));
  BOOST_TEST(engine::capturing().empty());
  BOOST_TEST(inner(tensor({4})).item() == 5);
}

BOOST_AUTO_TEST_CASE(a_refused_call_has_no_effect, *boost::unit_test::label("RG-20")) {
  on_each_device([](const std::string&) {
    Tensor state = tensor({1, 2});
    Jit f([&](Tensor x) { state.assign(state + x).realize(); });
    for (int i = 0; i < 3; ++i) f(tensor({1, 1}));
    Tensor wrong = Tensor::from(std::vector<int32_t>{1, 1}, {2}).realize();
    int64_t before = kernels();
    BOOST_TEST(!refusal<JitError>([&] { f(wrong); }).empty());
    BOOST_TEST(kernels() == before);
    BOOST_TEST((state.values<float>() == Floats{4, 5}));
    f(tensor({1, 1}));
    BOOST_TEST((state.values<float>() == Floats{5, 6}));
  });
}

BOOST_AUTO_TEST_CASE(results_that_are_kept_are_cloned, *boost::unit_test::label("bug-01")) {
  on_each_device([](const std::string&) {
    Jit f([](Tensor x) { return x + 1; });
    for (int i = 0; i < 3; ++i) f(tensor({float(i)}));
    Tensor r1 = f(tensor({1.1f})).clone().realize(), r2 = f(tensor({1.2f})).clone().realize();
    BOOST_TEST(near(r1.values<float>(), {2.1f}));
    BOOST_TEST(near(r2.values<float>(), {2.2f}));
    BOOST_TEST(!equal(r1, r2).item());
    // Without clones both are the one output of the capture.
    Tensor s1 = f(tensor({1.1f})), s2 = f(tensor({1.2f}));
    BOOST_TEST(near(s1.values<float>(), {2.2f}));
    BOOST_TEST((without_states(s1.node()) == without_states(s2.node())));
  });
}

namespace {
struct Wrapped {
  Tensor inner;
  template <class V> void visit_tensors(V&& visit) const { visit(inner); }
};
} // namespace

BOOST_AUTO_TEST_CASE(tensors_in_containers_are_inputs_or_refused, *boost::unit_test::label("bug-02")) {
  on_each_device([](const std::string&) {
    Jit list([](std::vector<Tensor> l) { return l[0] + 1; });
    Jit map([](std::map<std::string, Tensor> m) { return m.at("x") + 1; });
    Jit structure([](const Wrapped& w) { return w.inner + 1; });
    Jit nested([](std::vector<std::vector<Tensor>> l) { return l[0][0] + 1; });
    int refused = 0;
    for (int i = 0; i <= 4; ++i) {
      Tensor x = tensor({float(i)});
      BOOST_TEST(list({x}).item() == i + 1);
      BOOST_TEST(map({{"x", x}}).item() == i + 1);
      BOOST_TEST(structure({x}).item() == i + 1);
      try {
        BOOST_TEST(nested({{x}}).item() == i + 1);
      } catch (const JitError&) {
        ++refused;
      }
    }
    BOOST_TEST(refused == 3); // every call after the capture, since each brings another tensor
  });
}

BOOST_AUTO_TEST_CASE(a_constant_is_no_input, *boost::unit_test::label("bug-03")) {
  on_each_device([](const std::string&) {
    Jit f([](Tensor a, Tensor b) { return a + b; });
    Tensor a = Tensor::arange(4, DType::F32).clone().realize();
    for (int k = 2; k <= 5; ++k)
      BOOST_TEST(has(refusal<JitError>([&] { f(a, Tensor::constant(DType::F32, k, {4})); }),
                     "input 1 is a constant"));
    for (int k = 2; k <= 5; ++k)
      BOOST_TEST((f(a, Tensor::constant(DType::F32, k, {4}).clone()).values<float>() == ramp(4, float(k))));
  });
}

BOOST_AUTO_TEST_CASE(shifting_state_with_a_busy_arena, *boost::unit_test::label("bug-06")) {
  on_each_device([](const std::string&) {
    std::vector<std::vector<float>> results;
    for (int64_t planner : {1, 0}) {
      Settings settings([&](Config& c) { c.no_memory_planner = 1 - planner; });
      Tensor img = tensor(Floats(4 * 256, 0), {4, 256});
      Tensor w = Tensor::ones({2, 2, 3, 3}).clone().realize();
      Tensor::Conv same;
      same.padding = {{1, 1}, {1, 1}};
      Jit f([&](Tensor row, Tensor x) {
        img.assign(Tensor::concat({img.slice(0, 1, 4), row}, 0)).realize();
        for (int layer = 0; layer < 4; ++layer) x = (x.conv(w, {}, same) * 0.05).relu().contiguous();
        return x;
      });
      std::vector<float> all;
      for (int k = 1; k <= 6; ++k) {
        Tensor y = f(tensor(Floats(256, float(k)), {1, 256}), tensor(ramp(128, float(k)), {1, 2, 8, 8}));
        Floats got = img.values<float>();
        for (size_t r = 0; r < 4; ++r) {
          float want = float(std::max(0, k - 3 + int(r)));
          BOOST_TEST((Floats(got.begin() + int64_t(r) * 256, got.begin() + int64_t(r + 1) * 256) ==
                      Floats(256, want)));
        }
        Floats net = y.values<float>();
        all.insert(all.end(), got.begin(), got.end()), all.insert(all.end(), net.begin(), net.end());
      }
      // Planned, the temporaries are parts of one arena; otherwise each has storage of its own.
      size_t arenas = 0, parts = 0;
      for (const engine::JitStorage& s : f.captured()->storage())
        arenas += s.role == engine::StorageRole::Arena;
      for (const UOp& u : toposort(f.captured()->planned_linear()))
        parts += u.is(Op::SLICE) && u.src(0).is(Op::BUFFER) && slot_of(u.src(0)) < 0;
      BOOST_TEST((planner ? arenas == 1 : arenas > 1), arenas << " arenas");
      BOOST_TEST((parts > 0) == (planner == 1), parts << " parts");
      results.push_back(all);
    }
    BOOST_TEST((results[0] == results[1]));
  });
}
