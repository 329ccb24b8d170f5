// Executing LINEARs: rows, RG-10, RG-17, E-01.
#include <cmath>
#include <thread>

#include <boost/test/unit_test.hpp>

#include "engine_support.h"
#include "scoped_switch.h"
#include "test_backend.h"
#include "test_kernels.h"
#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/engine/compile/local_size.h"
#include "tolk/engine/graph/graph_call.h"
#include "tolk/engine/run/run_linear.h"
#include "tolk/engine/run/statistics.h"

using namespace tolk;
using namespace tolk::engine;
using namespace tolk::test;

BOOST_AUTO_TEST_CASE(calls_run_in_order, *boost::unit_test::label("R-35")) {
  TestBackend& x = tb();
  x.reset();
  Device& d = x.open();
  std::vector<UOp> calls, programs;
  UOp a = int_storage({1}, d.name()), b = new_ints(1, d.name());
  for (int i = 0; i < 4; ++i)
    calls.push_back(call_of(flat_program(d, {.text = "kernel step_" + std::to_string(i) +
                                                     "\nparam buffer i32 w 0\nparam buffer i32 r 0\n"
                                                     "%0 = PARAM i32 [0]\n%1 = PARAM i32 [1]\n"
                                                     "%2 = CONST i32 0\n%3 = LOAD i32 %1 %2\n"
                                                     "%4 = ADD i32 %3 %3\n%5 = STORE i32 %0 %2 %4\n"}),
                            i % 2 ? std::vector<UOp>{a, b} : std::vector<UOp>{b, a}));
  BufferBinding binding(d);
  run_linear(binding, linear_of({calls[0], linear_of({calls[1], calls[2]}), calls[3]}));
  std::vector<std::string> names;
  for (const tb_record& r : x.launches()) names.push_back(r.kernel);
  BOOST_TEST((names == std::vector<std::string>{"step_0", "step_1", "step_2", "step_3"}));
  BOOST_TEST((ints_of(a) == std::vector<int32_t>{16}));
}

BOOST_AUTO_TEST_CASE(a_jit_linear_is_compiled_already, *boost::unit_test::label("R-36")) {
  clear_caches();
  CountingCompiler stub;
  Device& d = device("INTERP");
  UOp a = int_storage({1, 2}, "INTERP"), b = new_ints(2, "INTERP");
  UOp linear = linear_of({add_call(b, a, 5)});
  BufferBinding binding(d);
  run_linear(d, stub.function(), binding, linear);
  BOOST_TEST(stub.calls == 1);
  BOOST_TEST((ints_of(b) == std::vector<int32_t>{6, 7}));
  UOp compiled = compile_linear(d, stub.function(), linear);
  int before = stub.calls;
  clear_caches();
  UOp c = int_storage({3, 4}, "INTERP");
  UOp jit = linear_of({call_of(compiled.src(0).src(0), {b, c})});
  run_linear(d, stub.function(), binding, jit, {.jit = true});
  BOOST_TEST(stub.calls == before);
  BOOST_TEST((ints_of(b) == std::vector<int32_t>{8, 9}));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { run_linear(binding, linear, {.jit = true}); }),
                      "uncompiled kernel in a jit linear"));
}

BOOST_AUTO_TEST_CASE(sizes_and_values_come_from_the_program, *boost::unit_test::label("R-37")) {
  TestBackend& x = tb();
  x.reset();
  Device& d = x.open();
  UOp program = flat_program(d, {.text = value_kernel("values"),
                                 .vars = {{"n", DType::I32, 0, 100}, {"core_id", DType::I32, 0, 3}}});
  const ProgramInfo& info = program_entry(program).info;
  BOOST_TEST((vals(info, {{"n", 7}}) == std::vector<int64_t>{7, 0}));
  BOOST_TEST((runtimevars(info) == std::vector<std::pair<std::string, int>>{{"core_id", 1}}));
  BOOST_TEST((launch_dims(program_entry(program), {{"n", 7}}).global == std::array<int64_t, 3>{4, 1, 1}));
  UOp out = new_ints(1, d.name());
  BufferBinding binding(d);
  UOp linear = linear_of({call_of(program, {out})});
  run_linear(binding, linear, {.var_vals = {{"n", 7}, {"unused", 1}}});
  tb_record r = x.launches().back();
  // What the device fills itself never reaches the plugin.
  BOOST_TEST((r.value_count == 1 && r.values[0] == 7 && r.grid[0] == 4 && r.grid[1] == 1 && r.grid[2] == 1));
  BOOST_TEST((ints_of(out) == std::vector<int32_t>{7}));
  run_linear(binding, linear, {.var_vals = {{"n", 8}}});
  BOOST_TEST((ints_of(out) == std::vector<int32_t>{8}));
  // Outside of what it was compiled for, and names that are the engine's.
  BOOST_TEST(
      contains(message_of<InvalidArgument>([&] { run_linear(binding, linear, {.var_vals = {{"n", 101}}}); }),
               "\"n\" is 101"));
  for (const char* name : {"core_id", "_device_num"})
    BOOST_TEST(contains(message_of<InvalidArgument>(
                            [&] { run_linear(binding, linear, {.var_vals = {{"n", 1}, {name, 1}}}); }),
                        name));
  BOOST_TEST((ints_of(out) == std::vector<int32_t>{8}));
}

BOOST_AUTO_TEST_CASE(symbolic_sizes_follow_the_variables) {
  TestBackend& x = tb();
  x.reset();
  Device& d = x.open();
  UOp n = variable("n", 0, 16), m = variable("m", -4, 4);
  UOp program = flat_program(d, {.text = "kernel fill\nparam buffer i32 w 16\n%0 = PARAM i32 [0]\n"
                                         "%1 = SPECIAL i32 [0, 0]\n%2 = CONST i32 1\n"
                                         "%3 = STORE i32 %0 %1 %2\n",
                                 .grid = {16, 1, 1},
                                 .symbolic = {n + m, UOp(), UOp()}});
  UOp out = int_storage(std::vector<int32_t>(16, 0), d.name());
  UOp linear = linear_of({call_of(program, {out})});
  BufferBinding binding(d);
  auto ones = [&] {
    std::vector<int32_t> all = ints_of(out);
    return std::count(all.begin(), all.end(), 1);
  };
  run_linear(binding, linear, {.var_vals = {{"n", 3}, {"m", 0}}});
  BOOST_TEST(ones() == 3);
  run_linear(binding, linear, {.var_vals = {{"n", 9}, {"m", 2}}});
  BOOST_TEST(ones() == 11);
  // An empty extent launches nothing, a negative one is refused.
  uint64_t before = x.counters(d).launches;
  run_linear(binding, linear, {.var_vals = {{"n", 0}, {"m", 0}}});
  BOOST_TEST(x.counters(d).launches == before);
  BOOST_TEST(contains(
      message_of<InvalidArgument>([&] { run_linear(binding, linear, {.var_vals = {{"n", 0}, {"m", -4}}}); }),
      "size -4"));
  BOOST_TEST(
      contains(message_of<InvalidArgument>([&] { run_linear(binding, linear, {.var_vals = {{"m", 1}}}); }),
               "unbound variable \"n\""));
}

BOOST_AUTO_TEST_CASE(a_binary_is_loaded_once_for_each_device, *boost::unit_test::label("R-38")) {
  TestBackend& x = tb();
  x.reset();
  clear_caches();
  Device &d = x.open(), &e = x.open();
  UOp a = int_storage({1, 2}, d.name()), b = new_ints(2, d.name()), c = int_storage({1, 2}, e.name()),
      f = new_ints(2, e.name());
  UOp linear = linear_of({add_call(b, a, 5), add_call(a, b, 5), add_call(f, c, 5)});
  for (int i = 0; i < 5; ++i) {
    BufferBinding binding(d); // nothing is kept in the binding
    run_linear(binding, linear);
  }
  BOOST_TEST((x.counters(d).load == 1U && x.counters(e).load == 1U));
  BOOST_TEST(cache_stats().runtime_misses == 2U);
  BOOST_TEST((ints_of(b) == std::vector<int32_t>{46, 47}));
}

BOOST_AUTO_TEST_CASE(a_slice_call_binds_a_view, *boost::unit_test::label("R-39")) {
  Device& d = tb().open();
  UOp base = int_storage({0, 1, 2, 3, 4, 5, 6, 7}, d.name()), out = internal_ints(2, d.name()),
      result = new_ints(2, d.name());
  UOp linear = linear_of({view_call(out, base, 16, 2), add_call(result, out, 100)});
  BufferBinding binding(d);
  for (int i = 0; i < 2; ++i) {
    run_linear(binding, linear);
    const AnyBuffer* bound = binding.find_buffer(out);
    BOOST_REQUIRE(bound);
    BufferRef view = std::get<BufferRef>(*bound);
    BOOST_TEST((view->count() == 2 && view->offset() == 16 && view->base_id() == buffer_of(base)->id()));
    BOOST_TEST((ints_of(result) == std::vector<int32_t>{104, 105}));
  }
  // The second run found the view bound and changed nothing.
  uint64_t epoch = binding.epoch();
  run_linear(binding, linear);
  BOOST_TEST(binding.epoch() == epoch);
  // A reseeded source is followed.
  binding.seed(base, int_buffer(d, {50, 51, 52, 53, 54, 55, 56, 57}));
  run_linear(binding, linear);
  BOOST_TEST((ints_of(result) == std::vector<int32_t>{154, 155}));
}

BOOST_AUTO_TEST_CASE(a_copy_call_transfers, *boost::unit_test::label("R-40")) {
  TestBackend &x = tb(), &y = tb("YDEV");
  x.reset(), y.reset();
  auto unmapped = [](tb_options& o) { o.host_map = 0; };
  Device &a = x.open(unmapped), &b = x.open(unmapped), &c = y.open(unmapped);
  UOp from = int_storage({1, 2, 3}, a.name()), native = new_ints(3, b.name()),
      bounced = new_ints(3, c.name());
  tb_counters before = x.counters();
  BufferBinding binding(a);
  run_linear(binding, linear_of({copy_call(native, from), copy_call(bounced, from)}));
  BOOST_TEST(x.counters().copy - before.copy == 1U);
  BOOST_TEST((x.counters().copy_out - before.copy_out == 1U && y.counters().copy_in == 1U));
  BOOST_TEST((ints_of(native) == std::vector<int32_t>{1, 2, 3}));
  BOOST_TEST((ints_of(bounced) == std::vector<int32_t>{1, 2, 3}));
}

BOOST_AUTO_TEST_CASE(a_list_is_checked_before_anything_runs, *boost::unit_test::label("R-50")) {
  TestBackend& x = tb();
  x.reset();
  Device& d = x.open();
  UOp a = int_storage({1, 2}, d.name()), b = new_ints(2, d.name());
  UOp good = add_call(b, a, 5);
  UOp unknown = call_of(make(Op::CUSTOM_FUNCTION, DType::Void, {}, Arg({}, {"frobnicate"})), {b, a});
  BufferBinding binding(d);
  auto refused = [&](const UOp& bad, const RunOptions& options = {}) {
    return message_of<InvalidArgument>([&] { run_linear(binding, linear_of({good, bad}), options); });
  };
  BOOST_TEST(contains(refused(add_sink(2, 1)), "expected CALL, got SINK"));
  BOOST_TEST(contains(refused(unknown), "unexpected call body CUSTOM_FUNCTION"));
  BOOST_TEST(contains(refused(unknown), "frobnicate"));
  BOOST_TEST(contains(refused(call_of(copy_to(a, d.name()), {b, a, a})), "malformed COPY call"));
  BOOST_TEST(contains(refused(add_call(b, param_node(0, DType::I32, 2, d.name()), 1)), "unbound PARAM"));
  BOOST_TEST(contains(refused(add_call(b, new_ints(2, tb().open_name()), 1)), "argument 1 is on"));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { run_linear(binding, good); }), "expected LINEAR"));
  BOOST_TEST(x.counters().launches == 0U);
}

BOOST_AUTO_TEST_CASE(a_missing_value_is_named_with_its_kernel, *boost::unit_test::label("R-51")) {
  TestBackend& x = tb();
  x.reset();
  Device& d = x.open();
  UOp a = int_storage({1, 2}, d.name()), b = new_ints(2, d.name());
  UOp program = flat_program(d, {.text = value_kernel("needs_n"), .vars = {{"n", DType::I32, 0, 100}}});
  BufferBinding binding(d);
  std::string text = message_of<InvalidArgument>([&] {
    run_linear(binding, linear_of({add_call(b, a, 5), call_of(program, {b})}), {.var_vals = {{"m", 1}}});
  });
  BOOST_TEST(contains(text, "unbound variable \"n\" used by needs_n"));
  BOOST_TEST(x.counters().launches == 0U);
}

BOOST_AUTO_TEST_CASE(a_failure_keeps_what_ran_before) {
  TestBackend& x = tb();
  x.reset();
  Device& d = x.open();
  UOp a = int_storage({1, 2}, d.name()), b = new_ints(2, d.name()), c = new_ints(2, d.name());
  x.fail(d, TB_LAUNCH, "boom", 2);
  int64_t before = GlobalCounters::get().kernel_count;
  BufferBinding binding(d);
  UOp linear = linear_of({add_call(b, a, 5), add_call(c, b, 6), add_call(a, c, 7)});
  BOOST_TEST(contains(message_of<DeviceError>([&] { run_linear(binding, linear); }), "boom"));
  BOOST_TEST((ints_of(b) == std::vector<int32_t>{6, 7}));
  BOOST_TEST((ints_of(a) == std::vector<int32_t>{1, 2}));
  BOOST_TEST(GlobalCounters::get().kernel_count == before + 1);
  run_linear(binding, linear);
  BOOST_TEST((ints_of(a) == std::vector<int32_t>{19, 20}));
}

BOOST_AUTO_TEST_CASE(inputs_are_new_at_every_run) {
  Device& d = tb().open();
  UOp out = new_ints(2, d.name()), param = param_node(0, DType::I32, 2, d.name());
  UOp linear = linear_of({add_call(out, param, 1)});
  BufferBinding binding(d);
  for (int32_t i = 0; i < 3; ++i) {
    run_linear(binding, linear, {.input_uops = {int_storage({i, 10 * i}, d.name())}});
    BOOST_TEST((ints_of(out) == std::vector<int32_t>{i + 1, 10 * i + 1}));
  }
  run_linear(binding, linear, {.input_overlay = {AnyBuffer(int_buffer(d, {70, 80}))}});
  BOOST_TEST((ints_of(out) == std::vector<int32_t>{71, 81}));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { run_linear(binding, linear); }), "unbound PARAM"));
  binding.seed(out, int_buffer(d, {0, 0}));
  run_linear(binding, linear, {.input_uops = {int_storage({1, 2}, d.name())}});
  BOOST_TEST((ints_of(resolve(binding, {}, out)) == std::vector<int32_t>{2, 3}));
  BOOST_TEST((ints_of(out) == std::vector<int32_t>{71, 81}));
}

BOOST_AUTO_TEST_CASE(an_input_that_is_the_output_runs_another_program) {
  // The kernel was compiled for arguments that do not overlap; shifted storage of one base does.
  Device& d = tb().open();
  UOp out = param_node(0, DType::I32, 4, d.name()), in = param_node(1, DType::I32, 4, d.name());
  CountingCompiler stub;
  std::vector<bool> aliases;
  ToProgram make_program = [&](Device& device, const UOp& sink, bool alias) {
    aliases.push_back(alias);
    return to_program(device, sink, alias);
  };
  clear_caches();
  UOp linear = linear_of({add_call(out, in, 1)});
  BufferBinding binding(d);
  UOp x = int_storage({1, 2, 3, 4}, d.name()), y = new_ints(4, d.name());
  run_linear(d, make_program, binding, linear, {.input_uops = {y, x}});
  run_linear(d, make_program, binding, linear, {.input_uops = {x, x}});
  BOOST_TEST((aliases == std::vector<bool>{false, true}));
  BOOST_TEST((ints_of(x) == std::vector<int32_t>{2, 3, 4, 5}));
}

BOOST_AUTO_TEST_CASE(a_kernel_gets_only_what_it_reads_and_writes, *boost::unit_test::label("RG-10")) {
  TestBackend& x = tb();
  x.reset();
  Device& d = x.open_streams();
  UOp program = flat_program(d, {.text = "kernel third\nparam buffer i32 r 0\nparam buffer i32 w 0\n"
                                         "%0 = PARAM i32 [0]\n%1 = PARAM i32 [1]\n%2 = CONST i32 0\n"
                                         "%3 = LOAD i32 %0 %2\n%4 = STORE i32 %1 %2 %3\n",
                                 .globals = {0, 2}});
  BOOST_TEST((program_entry(program).info.outs == std::vector<int>{2}));
  UOp a = int_storage({5}, d.name()), unused = int_storage({6}, d.name()), c = int_storage({7}, d.name());
  BufferBinding binding(d);
  run_linear(binding, linear_of({call_of(program, {a, unused, c})}));
  BOOST_TEST((ints_of(c) == std::vector<int32_t>{5}));
  tb_record r = x.launches().back();
  BOOST_TEST(r.buffer_count == 2U);
  BOOST_TEST((ints_of(a) == std::vector<int32_t>{5} && ints_of(unused) == std::vector<int32_t>{6}));
  // Storage that the kernel does not touch is not even allocated.
  UOp never = new_ints(1, d.name());
  run_linear(binding, linear_of({call_of(program, {a, never, c})}));
  BOOST_TEST(!buffer_of(never)->is_allocated());
}

BOOST_AUTO_TEST_CASE(a_timed_launch_has_a_time, *boost::unit_test::label("RG-17")) {
  for (bool reports : {true, false}) {
    Device& d = tb().open([&](tb_options& o) { o.reports_time = reports; });
    UOp a = int_storage(std::vector<int32_t>(1000, 1), d.name()), b = new_ints(1000, d.name());
    BufferBinding binding(d);
    GlobalCounters::reset();
    run_linear(binding, linear_of({add_call(b, a, 1)}), {.wait = true});
    double seconds = GlobalCounters::get().time_sum_s;
    BOOST_TEST((std::isfinite(seconds) && seconds > 0));
  }
}

#ifdef TOLK_TEST_HAS_CPU
BOOST_AUTO_TEST_CASE(a_timed_cpu_launch_has_a_time, *boost::unit_test::label("RG-17")) {
  UOp a = int_storage(std::vector<int32_t>(1000, 1), "CPU"), b = new_ints(1000, "CPU");
  BufferBinding binding(device("CPU"));
  GlobalCounters::reset();
  run_linear(binding, linear_of({add_call(b, a, 1)}), {.wait = true});
  double seconds = GlobalCounters::get().time_sum_s;
  BOOST_TEST((std::isfinite(seconds) && seconds > 0));
  BOOST_TEST((ints_of(b) == std::vector<int32_t>(1000, 2)));
  // The search that the row speaks of is no part of the engine; what stands for it here is the one choice
  // that the engine makes by times. Of two candidates, the one with far less work wins by its measured time.
  UOp few_in = int_storage({1}, "CPU"), few = new_ints(1, "CPU"),
      many_in = int_storage(std::vector<int32_t>(2'000'000, 1), "CPU"), many = new_ints(2'000'000, "CPU");
  for (int64_t light : {1, 2}) {
    LocalSizeProblem candidates;
    candidates.global = {2}; // sizes 1 and 2
    int trials = 0;
    std::vector<int64_t> chosen =
        optimize_local_size(candidates,
                            [&](std::span<const BufferRef>, std::array<int64_t, 3>,
                                std::array<int64_t, 3> local) -> std::optional<double> {
                              ++trials;
                              UOp work =
                                  local[0] == light ? add_call(few, few_in, 1) : add_call(many, many_in, 1);
                              GlobalCounters::reset();
                              run_linear(binding, linear_of({work}), {.wait = true});
                              return GlobalCounters::get().time_sum_s;
                            });
    BOOST_TEST((chosen == std::vector<int64_t>{light}));
    BOOST_TEST(trials == 4);
  }
}
#endif

BOOST_AUTO_TEST_CASE(a_graph_call_without_graphs_runs_its_calls) {
  TestBackend& x = tb();
  x.reset();
  Device& d = x.open();
  UOp a = int_storage({1, 2}, d.name()), b = new_ints(2, d.name()), c = new_ints(2, d.name()),
      param = param_node(0, DType::I32, 2, d.name());
  UOp compiled = compile_linear(d, {}, linear_of({add_call(b, param, 1), add_call(c, b, 10)}));
  std::vector<UOp> params = {param};
  UOp batched = linear_of({graph_call(compiled.src(), params)});
  BOOST_TEST((is_graph_call(batched.src(0)) && graph_linear(batched.src(0)) == compiled));
  BOOST_TEST(count_kernels(batched) == 2U);
  BufferBinding binding(d);
  for (int i = 0; i < 2; ++i) {
    run_linear(binding, batched, {.input_uops = {a}, .jit = true});
    BOOST_TEST((ints_of(c) == std::vector<int32_t>{12, 13}));
  }
}

BOOST_AUTO_TEST_CASE(poisoned_arenas_show_what_relies_on_old_contents) {
  Device& d = tb().open();
  UOp a = int_storage({1, 2}, d.name()), arena = internal_ints(2, d.name()), out = new_ints(2, d.name());
  UOp slice = slice_node(arena, DType::I32, 0, 2);
  BufferBinding binding(d);
  {
    ScopedSwitch poison(test_switches().poison, true);
    run_linear(binding, linear_of({add_call(slice, a, 1), add_call(out, slice, 1)}));
  }
  BOOST_TEST((ints_of(out) == std::vector<int32_t>{3, 4}));
  for (int32_t v : ints_of(resolve(binding, {}, arena))) BOOST_TEST(v == int32_t(0xA5A5A5A5));
  run_linear(binding, linear_of({add_call(out, slice, 0)}));
  BOOST_TEST((ints_of(out) == std::vector<int32_t>(2, int32_t(0xA5A5A5A5))));
  // Also what only the calls of a batch use.
  UOp compiled = compile_linear(d, {}, linear_of({add_call(slice, a, 1), add_call(out, slice, 1)}));
  {
    ScopedSwitch poison(test_switches().poison, true);
    run_linear(binding, linear_of({graph_call(compiled.src(), {})}), {.jit = true});
  }
  BOOST_TEST((ints_of(out) == std::vector<int32_t>{3, 4}));
  for (int32_t v : ints_of(resolve(binding, {}, arena))) BOOST_TEST(v == int32_t(0xA5A5A5A5));
}

BOOST_AUTO_TEST_CASE(threads_share_the_caches) {
  clear_caches();
  std::string where = tb().open_name();
  constexpr int kThreads = 4, kRounds = 20;
  std::vector<std::vector<int32_t>> results(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      UOp a = int_storage({t, 10 * t}, where), b = internal_ints(2, where), c = new_ints(2, where);
      UOp linear = linear_of({add_call(b, a, 1), add_call(c, b, 2), add_call(a, c, 3)});
      for (int round = 0; round < kRounds; ++round) {
        if (t == 0 && round % 5 == 0) clear_caches(); // others compile anew, what runs stays alive
        BufferBinding binding(device(where));
        run_linear(binding, linear);
        run_linear(binding, linear);
      }
      results[size_t(t)] = ints_of(a);
    });
  for (std::thread& thread : threads) thread.join();
  for (int32_t t = 0; t < kThreads; ++t)
    BOOST_TEST((results[size_t(t)] == std::vector<int32_t>{t + 12 * kRounds, 10 * t + 12 * kRounds}));
}

BOOST_AUTO_TEST_CASE(settings_are_read_where_they_are_used_and_restored, *boost::unit_test::label("E-01")) {
  // VIZ, which the row calls optional, does not exist: there is nothing yet that it could show.
  struct Setting {
    const char* name;
    int64_t Config::* field;
    int64_t value;
  };
  const Setting settings[] = {{"JIT", &Config::jit, 2},
                              {"JIT_BATCH_SIZE", &Config::jit_batch_size, 7},
                              {"GRAPH_ONE_KERNEL", &Config::graph_one_kernel, 1},
                              {"JITBEAM", &Config::jit_beam, 3},
                              {"IGNORE_JIT_FIRST_BEAM", &Config::ignore_jit_first_beam, 1},
                              {"CAPTURING", &Config::capturing, 0},
                              {"SCACHE", &Config::schedule_cache, 0},
                              {"NO_MEMORY_PLANNER", &Config::no_memory_planner, 1},
                              {"DEBUG", &Config::debug, 2},
                              {"BEAM", &Config::beam, 4},
                              {"UNSAFE_ALLOW_JIT_BUFFER", &Config::unsafe_allow_jit_buffer, 1}};
  for (const Setting& s : settings) {
    int64_t before = Config::current().*s.field;
    BOOST_TEST(before != s.value, s.name);
    setenv(s.name, std::to_string(s.value).c_str(), 1);
    BOOST_TEST((Config::from_environment().*s.field == s.value), s.name);
    unsetenv(s.name);
    try {
      Config changed = Config::current();
      changed.*s.field = s.value;
      ScopedConfig scope(changed);
      BOOST_TEST((Config::current().*s.field == s.value), s.name);
      throw 1;
    } catch (int) {
    }
    BOOST_TEST((Config::current().*s.field == before), s.name);
  }
}
