// Captured functions on the instrumented backend: what is launched, when, and with what.
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "device_runs.h"
#include "engine_support.h"
#include "jit_support.h"
#include "test_backend.h"
#include "tolk/engine/compile/compile_linear.h"
#include "tolk/engine/run/calls.h"
#include "tolk/engine/run/statistics.h"
#include "tolk/tensor/jit.h"

using namespace tolk;
using namespace tolk::test;
using namespace jit_test;

namespace {

// A fresh device of the backend as the default one; without graphs unless asked for.
struct Fresh {
  explicit Fresh(bool graphs = false) {
    tb().reset();
    name = tb().open_name([&](tb_options& o) {
      if (!graphs) o.graph = 0;
    });
    scope.emplace(name);
  }
  Device& device() const { return tolk::device(name); }
  tb_counters counters() const { return tb().counters(device()); }
  std::string name;
  std::optional<DeviceScope> scope;
};

int64_t memory() { return engine::GlobalCounters::get().mem_used; }

} // namespace

BOOST_AUTO_TEST_CASE(schedules_are_recorded_and_run_after_the_function, *boost::unit_test::label("J-04")) {
  Fresh x;
  uint64_t entry = 0, exit = 0;
  Jit f([&](Tensor t) {
    entry = x.counters().kernels_run;
    for (int i = 0; i < 3; ++i) t = (t + i).realize();
    exit = x.counters().kernels_run;
    return t;
  });
  f(tensor({1}));
  BOOST_TEST(exit == entry + 3);
  f(tensor({1}));
  BOOST_TEST(exit == entry);
  BOOST_TEST(x.counters().kernels_run == exit + 3);
}

BOOST_AUTO_TEST_CASE(replays_pass_the_values_of_their_call, *boost::unit_test::label("J-12")) {
  Fresh x;
  Variable n("n", 1, 16);
  Tensor a = tensor(ramp(16));
  Jit f([&](const SInt& size) { return a.narrow(0, 0, size) * 2; });
  for (int64_t v : {3, 3, 5, 9}) {
    Tensor y = f(n.bind(v));
    std::vector<tb_record> launches = tb().launches();
    BOOST_REQUIRE(!launches.empty());
    const tb_record& last = launches.back();
    BOOST_REQUIRE(last.value_count == 1u);
    BOOST_TEST(last.values[0] == uint64_t(v));
    Floats want = ramp(size_t(v));
    for (float& e : want) e *= 2;
    BOOST_TEST((y.values<float>() == want));
  }
}

BOOST_AUTO_TEST_CASE(launch_sizes_follow_the_values, *boost::unit_test::label("J-12")) {
  // A kernel with one work-item for each element, in the place of the one that code generation makes.
  Fresh x;
  Variable n("n", 1, 16);
  Tensor a = tensor(ramp(16));
  JitOptions options;
  options.to_program = [&](Device& device, const UOp&, bool) {
    return flat_program(device, {.text = "kernel double\nparam buffer f32 w 0\nparam buffer f32 r 0\n"
                                         "param value i32 1 16\n%0 = PARAM f32 [0]\n%1 = PARAM f32 [1]\n"
                                         "%2 = PARAM i32 [2]\n%3 = SPECIAL i32 [0, 0]\n%4 = LOAD f32 %1 %3\n"
                                         "%5 = ADD f32 %4 %4\n%6 = STORE f32 %0 %3 %5\n",
                                 .vars = {{"n", DType::I32, 1, 16}},
                                 .symbolic = {n.node(), UOp(), UOp()}});
  };
  Jit f([&](const SInt& size) { return a.narrow(0, 0, size) * 2; }, options);
  f(n.bind(4));
  engine::clear_caches();
  for (int64_t v : {3, 3, 5, 9}) {
    Tensor y = f(n.bind(v));
    tb_record last = tb().launches().back();
    BOOST_TEST(std::string(last.kernel) == "double");
    BOOST_TEST(last.values[0] == uint64_t(v));
    BOOST_TEST(last.grid[0] * last.local[0] == uint32_t(v));
    Floats want = ramp(size_t(v));
    for (float& e : want) e *= 2;
    BOOST_TEST((y.values<float>() == want));
  }
}

BOOST_AUTO_TEST_CASE(wait_returns_when_the_work_is_done, *boost::unit_test::label("J-33")) {
  tb().reset();
  DeviceScope scope(tb().open_name([](tb_options& o) { o.streams = 1, o.graph = 0; }));
  Device& device = tolk::device(Config::current().device);
  for (bool wait : {true, false}) {
    JitOptions options;
    options.wait = wait;
    Jit f([](Tensor t) { return (t + 1).realize() * 2; }, options);
    Tensor t = tensor({1});
    for (int i = 0; i < 3; ++i) f(t);
    device.synchronize();
    tb().delay(device, 20'000);
    uint64_t before = tb().counters(device).kernels_run;
    f(t);
    uint64_t done = tb().counters(device).kernels_run - before;
    BOOST_TEST((wait ? done == 2 : done < 2));
    tb().delay(device, 0);
    device.synchronize();
  }
}

BOOST_AUTO_TEST_CASE(pruned_kernels_run_once, *boost::unit_test::label("P-04")) {
  Fresh x;
  Tensor w = tensor({1, 2, 3});
  JitOptions prune;
  prune.prune = true;
  Jit f([&](Tensor t) { return (w * 2).contiguous() + t; }, prune);
  std::vector<uint64_t> launches;
  for (int i = 0; i < 4; ++i) {
    Tensor t = tensor(Floats(3, float(i)));
    uint64_t before = x.counters().kernels_run;
    f(t);
    launches.push_back(x.counters().kernels_run - before);
  }
  // Each call's kernels, w * 2 once more at the capture and never after it.
  BOOST_TEST((launches == std::vector<uint64_t>{2, 2, 1, 1}));
  BOOST_TEST(f.captured()->num_kernels() == 1u);
}

BOOST_AUTO_TEST_CASE(nothing_is_launched_when_everything_would_be_pruned, *boost::unit_test::label("PR-07")) {
  Fresh x;
  Tensor w = tensor({1, 2, 3}), t = tensor({1});
  JitOptions prune;
  prune.prune = true;
  Jit f([&](Tensor) { return w * 2; }, prune);
  f(t);
  uint64_t before = x.counters().kernels_run;
  BOOST_TEST(has(refusal<JitError>([&] { f(t); }), "didn't JIT anything!"));
  BOOST_TEST(x.counters().kernels_run == before);
}

BOOST_AUTO_TEST_CASE(nothing_is_launched_for_a_value_out_of_range, *boost::unit_test::label("SY-11")) {
  Fresh x;
  Variable narrow("n", 1, 8), wide("n", 1, 20);
  Tensor a = tensor(random_floats(20));
  Jit f([&](const SInt& size) { return a.narrow(0, 0, size) + 1; });
  f(narrow.bind(3)), f(narrow.bind(4));
  uint64_t before = x.counters().kernels_run;
  BOOST_TEST(has(refusal<JitError>([&] { f(wide.bind(9)); }), "outside 1 .. 8"));
  BOOST_TEST(x.counters().kernels_run == before);
}

BOOST_AUTO_TEST_CASE(a_refused_call_launches_nothing, *boost::unit_test::label("RG-20")) {
  Fresh x;
  Tensor state = tensor({1, 2});
  Jit f([&](Tensor t) { state.assign(state + t).realize(); });
  for (int i = 0; i < 2; ++i) f(tensor({1, 1}));
  Tensor wrong = Tensor::from(std::vector<int32_t>{1, 1}, {2}).realize();
  uint64_t before = x.counters().kernels_run, copies = x.counters().copy;
  BOOST_TEST(has(refusal<JitError>([&] { f(wrong); }), "the dtype differs"));
  BOOST_TEST(x.counters().kernels_run == before);
  BOOST_TEST(x.counters().copy == copies);
  BOOST_TEST((state.values<float>() == Floats{3, 4}));
}

BOOST_AUTO_TEST_CASE(a_single_kernel_is_no_graph_unless_asked_for, *boost::unit_test::label("P-07")) {
  for (int64_t one : {0, 1}) {
    Fresh x(true);
    Settings settings([&](Config& c) { c.graph_one_kernel = one; });
    Jit f([](Tensor t) { return t + 1; });
    for (int i = 0; i < 3; ++i) BOOST_TEST(f(tensor({float(i)})).item() == i + 1);
    BOOST_REQUIRE(f.captured()->num_calls() == 1u);
    const UOp& body = f.captured()->linear().src(0).src(0);
    BOOST_TEST((body.is(Op::CUSTOM_FUNCTION) == (one == 1)));
    BOOST_TEST(f.captured()->num_kernels() == 1u);
    BOOST_TEST(x.counters().graph_launch == (one ? 2u : 0u));
  }
}

BOOST_AUTO_TEST_CASE(free_intermediates_gives_back_temporaries_and_outputs,
                     *boost::unit_test::label("P-22")) {
  Fresh x;
  Jit f([](Tensor t) {
    Tensor a = (t + 1).contiguous(), b = (a * 2).contiguous();
    return (a + b).contiguous();
  });
  Tensor t = tensor(ramp(1000)), y;
  for (int i = 0; i < 3; ++i) y = f(t);
  int64_t before = memory();
  uint64_t live = x.counters().live_bytes;
  f.replay()->free_intermediates();
  BOOST_TEST(before - memory() >= 3 * 4000);
  // Once more changes nothing, in the books and on the device.
  int64_t freed = memory();
  tb_counters there = x.counters();
  f.replay()->free_intermediates();
  BOOST_TEST(memory() == freed);
  BOOST_TEST(x.counters().live_bytes == there.live_bytes);
  BOOST_TEST(x.counters().live_buffers == there.live_buffers);
  BOOST_TEST(x.counters().kernels_run == there.kernels_run);
  Floats want;
  for (float v : ramp(1000)) want.push_back(3 * (v + 1));
  BOOST_TEST((f(t).values<float>() == want));
  BOOST_TEST((y.values<float>() == want));
  BOOST_TEST(x.counters().live_bytes <= live);
}

BOOST_AUTO_TEST_CASE(free_intermediates_drops_graphs, *boost::unit_test::label("P-23")) {
  Fresh x(true);
  Jit f([](Tensor t) {
    Tensor a = (t + 1).contiguous(), b = (a * 2).contiguous();
    return (a + b).contiguous();
  });
  Tensor t = tensor(ramp(100));
  for (int i = 0; i < 5; ++i) f(t);
  BOOST_TEST(x.counters().graph_create == 1u);
  f.replay()->free_intermediates();
  BOOST_TEST(x.counters().live_graphs == 0u);
  BOOST_TEST(f(t).values<float>()[3] == 12);
  BOOST_TEST(x.counters().graph_create == 2u);
}

BOOST_AUTO_TEST_CASE(a_dropped_capture_leaves_no_graphs_and_no_memory, *boost::unit_test::label("FR-03")) {
  Fresh x(true);
  Tensor w = tensor(random_floats(100));
  int64_t before = memory();
  {
    Jit f([&](Tensor t) { return ((t + w).contiguous() * 2).contiguous(); });
    for (int i = 0; i < 5; ++i) f(tensor(random_floats(100)));
    BOOST_TEST(x.counters().live_graphs == 1u);
  }
  BOOST_TEST(x.counters().live_graphs == 0u);
  BOOST_TEST(memory() == before);
}

BOOST_AUTO_TEST_CASE(settings_take_effect_between_captures, *boost::unit_test::label("RG-18")) {
  auto graphs_of = [](const std::function<void(Config&)>& change) {
    Fresh x(true);
    Settings settings(change);
    Jit f([](Tensor t) {
      for (int i = 0; i < 6; ++i) t = (t + 1).realize();
      return t;
    });
    for (int i = 0; i < 3; ++i) BOOST_TEST(f(tensor({float(i)})).item() == i + 6);
    return std::tuple{f.captured()->num_calls(), f.captured()->num_kernels(),
                      std::count_if(f.captured()->storage().begin(), f.captured()->storage().end(),
                                    [](const auto& s) { return s.role == engine::StorageRole::Arena; })};
  };
  BOOST_TEST((graphs_of([](Config&) {}) == std::tuple{1u, 6u, 1}));
  BOOST_TEST((graphs_of([](Config& c) { c.jit_batch_size = 2; }) == std::tuple{2u, 6u, 1}));
  BOOST_TEST((graphs_of([](Config& c) { c.jit = 2; }) == std::tuple{6u, 6u, 1}));
  BOOST_TEST((graphs_of([](Config& c) { c.no_memory_planner = 1; }) == std::tuple{1u, 6u, 5}));
  BOOST_TEST((graphs_of([](Config&) {}) == std::tuple{1u, 6u, 1}));
  // CAPTURING: two captures of one body, of which one region is left out.
  for (int64_t inside : {1, 0}) {
    Fresh x;
    Jit f([&](Tensor t) {
      {
        Settings region([&](Config& c) { c.capturing = inside; });
        Tensor::zeros({4}).clone().realize();
      }
      return t + 1;
    });
    for (int i = 0; i < 3; ++i) f(tensor({1}));
    BOOST_TEST(f.captured()->num_kernels() == (inside ? 2u : 1u));
  }
}

BOOST_AUTO_TEST_CASE(the_beam_width_is_asked_for_at_the_capture_alone,
                     *boost::unit_test::label("P-10") * boost::unit_test::label("JB-34")) {
  // There is no search here; what is tested is that lowering asks for its width, once for each kernel.
  Fresh x;
  engine::clear_caches();
  int searches = 0, kernels = 0;
  JitOptions options;
  options.to_program = [&](Device& device, const UOp& sink, bool may_alias) {
    ++kernels;
    searches += engine::beam_of(sink) > 0;
    return engine::to_program(device, sink, may_alias);
  };
  Settings beam([](Config& c) { c.jit_beam = 1; });
  Jit f([](Tensor t) { return ((t + 1).realize() * 3).realize(); }, options);
  f(tensor({1}));
  BOOST_TEST(searches == 0);
  for (int i = 0; i < 3; ++i) BOOST_TEST(f(tensor({float(i)})).item() == 3 * (i + 1));
  BOOST_TEST(searches == 2);
  BOOST_TEST(kernels == 2);
}

BOOST_AUTO_TEST_CASE(a_jitbeam_of_zero_keeps_beam_out_of_the_capture, *boost::unit_test::label("P-10")) {
  for (int64_t jit_beam : {-1, 0}) { // -1: what BEAM says
    Fresh x;
    engine::clear_caches();
    std::vector<int> widths;
    JitOptions options;
    options.to_program = [&](Device& device, const UOp& sink, bool may_alias) {
      widths.push_back(engine::beam_of(sink));
      return engine::to_program(device, sink, may_alias);
    };
    Settings beam([&](Config& c) { c.beam = 4, c.ignore_jit_first_beam = 1, c.jit_beam = jit_beam; });
    Jit f([](Tensor t) { return (t + 1).realize(); }, options);
    for (int i = 0; i < 2; ++i) f(tensor({float(i)}));
    BOOST_TEST(widths == std::vector<int>{jit_beam == 0 ? 0 : 4}, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(a_kernel_is_searched_once_however_often_it_occurs, *boost::unit_test::label("JB-34")) {
  Fresh x;
  engine::clear_caches();
  int searches = 0;
  JitOptions options;
  options.to_program = [&](Device& device, const UOp& sink, bool may_alias) {
    searches += engine::beam_of(sink) == 4;
    return engine::to_program(device, sink, may_alias);
  };
  Settings beam([](Config& c) { c.jit_beam = 4; });
  Jit f(
      [](Tensor t) {
        for (int i = 0; i < 3; ++i) t = (t + 1).realize();
        return t;
      },
      options);
  for (int i = 0; i < 4; ++i) f(tensor({float(i)}));
  BOOST_TEST(searches == 1);
}

BOOST_AUTO_TEST_CASE(the_first_call_may_do_without_beam, *boost::unit_test::label("P-31")) {
  for (int64_t ignore : {0, 1}) {
    std::vector<int64_t> widths;
    Settings beam([&](Config& c) { c.beam = 2, c.ignore_jit_first_beam = ignore; });
    Jit f([&](Tensor t) {
      widths.push_back(Config::current().beam);
      return t + 1;
    });
    for (int i = 0; i < 3; ++i) f(tensor({float(i)}));
    BOOST_TEST((widths == std::vector<int64_t>{ignore ? 0 : 2, 2}));
  }
}

BOOST_AUTO_TEST_CASE(a_failed_replay_leaves_the_capture_alone) {
  Fresh x;
  Jit f([](Tensor t) { return ((t + 1).contiguous() * 2).contiguous(); });
  for (int i = 0; i < 3; ++i) f(tensor({1}));
  tb().fail(x.device(), TB_LAUNCH, "the second kernel is refused", 2);
  Tensor five = tensor({5});
  BOOST_TEST(has(refusal<DeviceError>([&] { f(five); }), "the second kernel is refused"));
  BOOST_TEST((f.phase() == engine::Phase::Exec));
  BOOST_TEST(f(five).item() == 12);
}

BOOST_AUTO_TEST_CASE(a_failed_first_replay_withdraws_the_capture) {
  Fresh x;
  Jit f([](Tensor t) { return ((t + 1).contiguous() * 2).contiguous(); });
  Tensor one = tensor({1});
  f(one);
  tb().fail(x.device(), TB_LAUNCH, "not yet");
  BOOST_TEST(has(refusal<DeviceError>([&] { f(one); }), "not yet"));
  BOOST_TEST((f.phase() == engine::Phase::Capture));
  BOOST_TEST((f.captured() == nullptr));
  BOOST_TEST(engine::capturing().empty());
  for (int i = 0; i < 3; ++i) BOOST_TEST(f(tensor({float(i)})).item() == 2 * (i + 1));
}
