// Replay of batches: what is recorded, what is changed between runs, and that the result is always that of
// the calls one after the other.
#include <cmath>

#include "captured_stderr.h"
#include "graph_support.h"
#include "tolk/engine/run/statistics.h"

using namespace tolk;
using namespace tolk::test;
using namespace tolk::engine;

namespace {

Device& xdev(const std::function<void(tb_options&)>& set = {}) { return tb().open(set); }

UOp param(int slot, Device& d, int64_t count = kCount) {
  return param_node(slot, DType::I32, count, d.name());
}
VarInfo variable_info(const std::string& name, int64_t most) { return {name, DType::I32, 0, most}; }

// How much more the device counts than at the start.
class Since {
public:
  explicit Since(Device& device) : device_(device), begin_(tb().counters(device)) {}
  uint64_t operator()(uint64_t tb_counters::* field) const {
    return tb().counters(device_).*field - begin_.*field;
  }

private:
  Device& device_;
  tb_counters begin_;
};

// Runs calls one by one and as graphs, on storage with the same contents; the results must agree with each
// other and with `expected`, where given. `rounds` runs in a row, then more in which a graph takes any node
// that is ready: the order of the list alone must not be what makes them right.
void same_as_sequential(Device& lead, const std::vector<UOp>& calls,
                        const std::map<std::string, UOp>& storages,
                        const std::map<std::string, Ints>& expected = {}, int rounds = 5) {
  std::map<std::string, Ints> start, wanted;
  for (const auto& [name, node] : storages) start[name] = read(node);
  UOp plain = compiled(lead, calls), list = batch_graphs(lead, plain);
  bool graphs = false;
  for (size_t n : sizes_of(list)) graphs = graphs || n > 1;
  BOOST_REQUIRE(graphs);
  BufferBinding one(lead);
  run_linear(one, plain, jit_run());
  for (const auto& [name, node] : storages) wanted[name] = read(node);
  for (const auto& [name, values] : expected) BOOST_TEST(wanted[name] == values, name);
  for (bool any : {false, true}) {
    AnyReadyNode order(any);
    BufferBinding two(lead);
    uint64_t launches = graph_launches();
    for (int round = 0; round < (any ? 4 * rounds : rounds); ++round) {
      for (const auto& [name, node] : storages) write(node, start[name]);
      run_linear(two, list, jit_run());
      for (const auto& [name, node] : storages)
        BOOST_TEST(read(node) == wanted[name], name << " in round " << round << (any ? ", any order" : ""));
    }
    BOOST_TEST(graph_launches() == launches + uint64_t(any ? 4 * rounds : rounds));
  }
}

// Five buffers b0..b4 on a device.
std::map<std::string, UOp> five(Device& d) {
  std::map<std::string, UOp> out;
  for (int i = 0; i < 5; ++i)
    out["b" + std::to_string(i)] = stored(d.name(), ramp(100 * i + i, kCount, i + 3));
  return out;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_graph_is_recorded_once_and_launched_each_time, *boost::unit_test::label("R-41")) {
  Device& d = xdev();
  UOp a = stored(d.name(), ramp(0)), t = temporary(d.name()), out = storage(d.name());
  UOp list = batched(d, {call_of(add_body(1), {t, a}), call_of(add_body(2), {out, t})});
  BufferBinding binding(d);
  Since since(d);
  for (int i = 0; i < 5; ++i) {
    write(a, ramp(i));
    run_linear(binding, list, jit_run());
    BOOST_TEST(read(out) == ramp(i + 3));
  }
  BOOST_TEST(since(&tb_counters::graph_create) == 1u);
  BOOST_TEST(since(&tb_counters::graph_launch) == 5u);
  BOOST_TEST(since(&tb_counters::launches) == 0u);
}

BOOST_AUTO_TEST_CASE(only_changed_buffers_are_patched, *boost::unit_test::label("R-42")) {
  Device& d = xdev();
  UOp t = temporary(d.name()), out = storage(d.name());
  UOp list = batched(d, {call_of(add_body(1), {t, param(0, d)}), call_of(add_body(2), {out, t})});
  UOp x = stored(d.name(), ramp(0)), y = stored(d.name(), ramp(50));
  BufferBinding binding(d);
  run_linear(binding, list, jit_run({x}));
  Since since(d);
  run_linear(binding, list, jit_run({x}));
  BOOST_TEST(since(&tb_counters::patches_buffer) == 0u);
  BOOST_TEST(since(&tb_counters::graph_update) == 0u);
  run_linear(binding, list, jit_run({y}));
  BOOST_TEST(read(out) == ramp(53));
  BOOST_TEST(since(&tb_counters::patches_buffer) == 1u);
  BOOST_TEST(since(&tb_counters::graph_update) == 1u);
  BOOST_TEST(since(&tb_counters::graph_create) == 0u);
}

BOOST_AUTO_TEST_CASE(a_reseeded_buffer_is_patched, *boost::unit_test::label("R-43")) {
  Device& d = xdev();
  UOp a = stored(d.name(), ramp(0)), t = temporary(d.name()), out = storage(d.name());
  UOp list = batched(d, {call_of(add_body(1), {t, a}), call_of(add_body(2), {out, t})});
  BufferBinding binding(d);
  BufferRef first = int_buffer(d, Ints(kCount, 0)), second = int_buffer(d, Ints(kCount, 0));
  binding.seed(out, first);
  run_linear(binding, list, jit_run());
  BOOST_TEST(read(*first) == ramp(3));
  write(*first, Ints(kCount, -7));
  binding.seed(out, second);
  Since since(d);
  run_linear(binding, list, jit_run());
  BOOST_TEST(read(*second) == ramp(3));
  BOOST_TEST(read(*first) == Ints(kCount, -7));
  BOOST_TEST(since(&tb_counters::patches_buffer) == 1u);
  BOOST_TEST(since(&tb_counters::graph_create) == 0u);
}

BOOST_AUTO_TEST_CASE(released_storage_is_made_again_and_patched) {
  Device& d = xdev();
  UOp a = stored(d.name(), ramp(0)), t = temporary(d.name()), out = storage(d.name());
  UOp list = batched(d, {call_of(add_body(1), {t, a}), call_of(add_body(2), {out, t})});
  BufferBinding binding(d);
  run_linear(binding, list, jit_run());
  resolve(binding, {}, t)->release();
  BufferRef in_between = int_buffer(d, Ints(kCount, 5)); // takes the place that became free
  run_linear(binding, list, jit_run());
  BOOST_TEST(read(out) == ramp(3));
  BOOST_TEST(read(*in_between) == Ints(kCount, 5));
}

BOOST_AUTO_TEST_CASE(values_are_patched_when_they_change, *boost::unit_test::label("R-44")) {
  Device& d = xdev();
  UOp program = program_of(d, add_value_text("r_44", 1000), {0}, {variable_info("n", 1000)});
  UOp t = temporary(d.name()), out = storage(d.name());
  UOp list = batched(d, {call_of(program, {t, param(0, d)}), call_of(add_body(1), {out, t})});
  UOp x = stored(d.name(), ramp(0));
  BufferBinding binding(d);
  run_linear(binding, list, jit_run({x}, {{"n", 3}}));
  BOOST_TEST(read(out) == ramp(4));
  Since since(d);
  run_linear(binding, list, jit_run({x}, {{"n", 3}}));
  BOOST_TEST(since(&tb_counters::patches_value) == 0u);
  run_linear(binding, list, jit_run({x}, {{"n", 5}}));
  BOOST_TEST(read(out) == ramp(6));
  BOOST_TEST(since(&tb_counters::patches_value) == 1u);
  BOOST_TEST(since(&tb_counters::graph_update) == 1u);
  BOOST_TEST(since(&tb_counters::patches_buffer) == 0u);
  run_linear(binding, list, jit_run({x}, {{"n", 0}}));
  BOOST_TEST(read(out) == ramp(1));
}

BOOST_AUTO_TEST_CASE(a_missing_variable_is_named_before_anything_runs, *boost::unit_test::label("GR-24")) {
  Device& d = xdev();
  UOp program = program_of(d, add_value_text("gr_24", 1000), {0}, {variable_info("n", 1000)});
  UOp t = temporary(d.name()), out = storage(d.name()), early = storage(d.name());
  // A kernel outside of the graph comes first: it must not run either.
  UOp list = compiled(d, {call_of(add_body(1), {early, param(0, d)}), call_of(program, {t, param(0, d)}),
                          call_of(add_body(1), {out, t})});
  list = linear(std::vector<UOp>{list.src(0), create_graph_call(list.src().subspan(1))});
  UOp x = stored(d.name(), ramp(0));
  BufferBinding binding(d);
  run_linear(binding, list, jit_run({x}, {{"n", 3}}));
  BOOST_TEST(read(out) == ramp(4));
  Since since(d);
  std::string text = message_of<InvalidArgument>([&] { run_linear(binding, list, jit_run({x})); });
  BOOST_TEST(contains(text, "\"n\""), text);
  text = message_of<InvalidArgument>([&] { run_linear(binding, list, jit_run({x}, {{"n", 1001}})); });
  BOOST_TEST(contains(text, "1001"), text);
  BOOST_TEST(since(&tb_counters::kernels_run) == 0u);
  BOOST_TEST(since(&tb_counters::graph_update) == 0u);
  run_linear(binding, list, jit_run({x}, {{"n", 3}}));
  BOOST_TEST(read(out) == ramp(4));
  BOOST_TEST(since(&tb_counters::patches_value) == 0u);
}

BOOST_AUTO_TEST_CASE(values_sizes_and_buffers_change_in_one_update, *boost::unit_test::label("P-15")) {
  Device& d = xdev();
  UOp program = program_of(d, add_items_text("p_15", kCount), {0}, {variable_info("n", kCount)},
                           groups_of_four(variable("n", 0, kCount)), std::array<int64_t, 3>{4, 1, 1});
  UOp t = storage(d.name()), out = storage(d.name());
  UOp list = batched(d, {call_of(program, {t, param(0, d)}), call_of(xor_body(), {out, t, param(1, d)})});
  BufferBinding binding(d);
  auto run = [&](const UOp& x, const UOp& y, int64_t n) {
    write(t, Ints(kCount, 0));
    run_linear(binding, list, jit_run({x, y}, {{"n", n}}));
  };
  UOp x = stored(d.name(), ramp(0)), y = stored(d.name(), ramp(5)), z = stored(d.name(), ramp(90));
  run(x, y, 4);
  Since since(d);
  run(z, x, 10); // three groups, the last of them half idle
  Ints expected = ramp(100);
  std::fill(expected.begin() + 10, expected.end(), 0);
  BOOST_TEST(read(out) == exclusive_or(expected, ramp(0)));
  BOOST_TEST(since(&tb_counters::graph_update) == 1u);
  BOOST_TEST(since(&tb_counters::patches_buffer) == 2u);
  BOOST_TEST(since(&tb_counters::patches_value) == 1u);
  BOOST_TEST(since(&tb_counters::patches_sizes) == 1u);
}

BOOST_AUTO_TEST_CASE(launch_sizes_are_patched_and_the_tuned_local_size_stays,
                     *boost::unit_test::label("R-45")) {
  Device& d = xdev();
  UOp program = program_of(d, add_items_text("r_45", kCount), {0}, {variable_info("n", kCount)},
                           groups_of_four(variable("n", 0, kCount)), std::array<int64_t, 3>{4, 1, 1});
  UOp t = storage(d.name()), out = storage(d.name());
  write(t, Ints(kCount, 0));
  UOp list = batched(d, {call_of(program, {t, param(0, d)}), call_of(add_body(1), {out, t})});
  UOp x = stored(d.name(), ramp(10));
  auto expected = [&](int upto) {
    Ints e(kCount, 1);
    for (int i = 0; i < upto; ++i) e[size_t(i)] = 10 + i + upto + 1;
    return e;
  };
  BufferBinding binding(d);
  auto check_sizes = [](uint32_t groups) {
    std::vector<tb_record> launches = tb().launches();
    BOOST_REQUIRE(launches.size() >= 2u);
    const tb_record& symbolic = launches[launches.size() - 2];
    BOOST_TEST(symbolic.kernel == std::string("r_45"));
    BOOST_TEST(symbolic.in_graph == 1u);
    BOOST_TEST(symbolic.grid[0] == groups);
    BOOST_TEST(symbolic.local[0] == 4u);
  };
  run_linear(binding, list, jit_run({x}, {{"n", 4}}));
  BOOST_TEST(read(out) == expected(4));
  check_sizes(1);
  Since since(d);
  run_linear(binding, list, jit_run({x}, {{"n", 4}}));
  BOOST_TEST(since(&tb_counters::patches_sizes) == 0u);
  write(t, Ints(kCount, 0));
  run_linear(binding, list, jit_run({x}, {{"n", 12}}));
  BOOST_TEST(read(out) == expected(12));
  BOOST_TEST(since(&tb_counters::patches_sizes) == 1u);
  BOOST_TEST(since(&tb_counters::graph_update) == 1u);
  check_sizes(3);
  // No multiple of a group: nothing is cut off, first with as many groups as before, then with fewer.
  write(t, Ints(kCount, 0));
  run_linear(binding, list, jit_run({x}, {{"n", 11}}));
  BOOST_TEST(read(out) == expected(11));
  BOOST_TEST(since(&tb_counters::patches_sizes) == 1u);
  write(t, Ints(kCount, 0));
  run_linear(binding, list, jit_run({x}, {{"n", 7}}));
  BOOST_TEST(read(out) == expected(7));
  BOOST_TEST(since(&tb_counters::patches_sizes) == 2u);
  check_sizes(2);
  // An empty launch cannot be in a graph: that run goes call by call, and the next one replays again.
  write(t, Ints(kCount, 0));
  uint64_t graph_runs = since(&tb_counters::graph_launch);
  run_linear(binding, list, jit_run({x}, {{"n", 0}}));
  BOOST_TEST(read(out) == expected(0));
  BOOST_TEST(since(&tb_counters::graph_launch) == graph_runs);
  run_linear(binding, list, jit_run({x}, {{"n", 16}}));
  BOOST_TEST(read(out) == expected(16));
  BOOST_TEST(since(&tb_counters::graph_launch) == graph_runs + 1);
  BOOST_TEST(since(&tb_counters::graph_create) == 0u);
}

BOOST_AUTO_TEST_CASE(graph_launches_counts_the_recording_run_too, *boost::unit_test::label("R-49")) {
  Device& d = xdev();
  UOp a = stored(d.name(), ramp(0)), t = temporary(d.name());
  UOp list = batched(d, {call_of(add_body(1), {t, a}), call_of(add_body(2), {storage(d.name()), t})});
  BufferBinding one(d), two(d);
  for (BufferBinding* binding : {&one, &two, &one}) {
    uint64_t before = graph_launches();
    run_linear(*binding, list, jit_run());
    BOOST_TEST(graph_launches() == before + 1);
  }
}

void refused_graph_runs_call_by_call(uint32_t place, uint64_t builds) {
  Device& d = xdev();
  UOp a = stored(d.name(), ramp(0)), t = temporary(d.name()), out = storage(d.name());
  UOp list = batched(d, {call_of(add_body(1), {t, a}), call_of(add_body(2), {out, t})});
  tb().fail(d, place, "no graphs today", 1, 1, TOLK_E_LIMIT);
  BufferBinding binding(d);
  Since since(d);
  uint64_t before = graph_launches();
  ScopedConfig debug(with([](Config& c) { c.debug = 1; }));
  std::string text = captured_stderr([&] {
    for (int i = 0; i < 3; ++i) {
      write(a, ramp(i));
      run_linear(binding, list, jit_run());
      BOOST_TEST(read(out) == ramp(i + 3));
    }
  });
  BOOST_TEST(contains(text, "no graphs today"), text);
  BOOST_TEST(since(&tb_counters::graph_create) == builds); // it is not tried again
  BOOST_TEST(tb().counters(d).live_graphs == 0u);
  BOOST_TEST(since(&tb_counters::graph_launch) == 0u);
  BOOST_TEST(since(&tb_counters::launches) == 6u);
  BOOST_TEST(graph_launches() == before);
}

BOOST_AUTO_TEST_CASE(a_backend_that_refuses_a_graph_runs_the_calls, *boost::unit_test::label("P-11")) {
  refused_graph_runs_call_by_call(TB_GRAPH_CREATE, 0);
}

BOOST_AUTO_TEST_CASE(a_failed_build_runs_the_calls_and_is_not_repeated, *boost::unit_test::label("GR-23")) {
  refused_graph_runs_call_by_call(TB_GRAPH_COMMIT, 1);
}

BOOST_AUTO_TEST_CASE(a_refused_change_runs_call_by_call) {
  Device& d = xdev();
  UOp t = temporary(d.name()), out = storage(d.name());
  UOp list = batched(d, {call_of(add_body(1), {t, param(0, d)}), call_of(add_body(2), {out, t})});
  BufferBinding binding(d);
  run_linear(binding, list, jit_run({stored(d.name(), ramp(0))}));
  tb().fail(d, TB_GRAPH_UPDATE, "not now", 1, 1, TOLK_E_LIMIT);
  for (int i = 1; i < 4; ++i) {
    run_linear(binding, list, jit_run({stored(d.name(), ramp(i))}));
    BOOST_TEST(read(out) == ramp(i + 3));
  }
}

BOOST_AUTO_TEST_CASE(a_device_without_updates_gets_a_new_graph) {
  Device& d = xdev([](tb_options& o) { o.graph = TOLK_GRAPH_KERNELS | TOLK_GRAPH_COPIES; });
  UOp t = temporary(d.name()), out = storage(d.name());
  UOp list = batched(d, {call_of(add_body(1), {t, param(0, d)}), call_of(add_body(2), {out, t})});
  BufferBinding binding(d);
  Since since(d);
  for (int i = 0; i < 4; ++i) {
    UOp x = stored(d.name(), ramp(i));
    run_linear(binding, list, jit_run({x}));
    run_linear(binding, list, jit_run({x}));
    BOOST_TEST(read(out) == ramp(i + 3));
  }
  BOOST_TEST(since(&tb_counters::graph_launch) == 8u);
  BOOST_TEST(since(&tb_counters::live_graphs) == 1u);
}

BOOST_AUTO_TEST_CASE(variables_are_sorted_without_those_of_the_engine, *boost::unit_test::label("P-14")) {
  Device& d = xdev();
  UOp zoo = program_of(d, add_value_text("p_14_a", 10), {0}, {variable_info("zoo", 10)}),
      ape = program_of(d, add_value_text("p_14_b", 10), {0}, {variable_info("ape", 10)}),
      position = program_of(d, add_value_text("p_14_c", 10), {0}, {variable_info(kDevicePosition, 10)}),
      core = program_of(d, add_value_text("p_14_d", 10), {0}, {variable_info("core_id", 10)}),
      sized =
          program_of(d, add_value_text("p_14_e", 10), {0}, {variable_info("zoo", 10)}, variable("m", 1, 16));
  UOp a = storage(d.name()), b = storage(d.name());
  std::vector<UOp> calls;
  for (const UOp& program : {zoo, ape, position, core, sized, zoo}) calls.push_back(call_of(program, {a, b}));
  GraphRunner runner(create_graph_call(calls));
  BOOST_TEST((runner.variables() == std::vector<std::string>{"ape", "m", "zoo"}));
}

BOOST_AUTO_TEST_CASE(a_graph_counts_as_the_sum_of_its_calls, *boost::unit_test::label("P-16")) {
  Device& d = xdev();
  UOp a = stored(d.name(), ramp(0)), t = temporary(d.name()), out = storage(d.name()),
      copied = storage(d.name());
  UOp plain =
      compiled(d, {call_of(add_body(1), {t, a}), call_of(xor_body(), {out, t, a}), copy_call(copied, out)});
  UOp list = batch_graphs(d, plain);
  BOOST_TEST(text_of(sizes_of(list)) == "3");
  auto counted = [&](const UOp& what) {
    BufferBinding binding(d);
    GlobalCounters::reset();
    run_linear(binding, what, jit_run());
    return GlobalCounters::get();
  };
  GlobalCounters one = counted(plain), graph = counted(list);
  BOOST_TEST(one.global_ops > 0);
  BOOST_TEST(one.global_mem > 0);
  BOOST_TEST(graph.global_ops == one.global_ops);
  BOOST_TEST(graph.global_mem == one.global_mem);
  BOOST_TEST(one.kernel_count == 3);
  BOOST_TEST(graph.kernel_count == 1);
  ScopedConfig debug(with([](Config& c) { c.debug = 2; }));
  BufferBinding binding(d);
  LaunchTimes times(tb(), [](const tb_record& r) { return r.kind == TB_GRAPH ? 10u : 1000000u; });
  std::string text = captured_stderr([&] { run_linear(binding, list, jit_run()); });
  BOOST_TEST(contains(text, "batched 3"), text);
  size_t end = text.find(" GFLOPS"), begin = text.rfind('(', end);
  BOOST_REQUIRE(end != text.npos);
  BOOST_REQUIRE(begin != text.npos);
  double gflops = std::stod(text.substr(begin + 1, end - begin - 1));
  BOOST_TEST(gflops > 0);
  BOOST_TEST(std::abs(gflops - double(one.global_ops) / 10) < 0.01, text); // of 10 ns
}

BOOST_AUTO_TEST_CASE(two_writes_to_one_buffer, *boost::unit_test::label("GR-08")) {
  Device& d = xdev();
  auto b = five(d);
  same_as_sequential(
      d, {call_of(xor_body(), {b["b0"], b["b1"], b["b2"]}), call_of(xor_body(), {b["b0"], b["b3"], b["b4"]})},
      b, {{"b0", exclusive_or(read(b["b3"]), read(b["b4"]))}});
}

BOOST_AUTO_TEST_CASE(read_then_write, *boost::unit_test::label("GR-09")) {
  Device& d = xdev();
  auto b = five(d);
  same_as_sequential(
      d, {call_of(xor_body(), {b["b0"], b["b1"], b["b2"]}), call_of(xor_body(), {b["b1"], b["b3"], b["b4"]})},
      b,
      {{"b0", exclusive_or(read(b["b1"]), read(b["b2"]))},
       {"b1", exclusive_or(read(b["b3"]), read(b["b4"]))}});
}

BOOST_AUTO_TEST_CASE(write_then_read, *boost::unit_test::label("GR-10")) {
  Device& d = xdev();
  auto b = five(d);
  same_as_sequential(
      d, {call_of(xor_body(), {b["b0"], b["b1"], b["b2"]}), call_of(xor_body(), {b["b1"], b["b0"], b["b4"]})},
      b, {{"b1", exclusive_or(exclusive_or(read(b["b1"]), read(b["b2"])), read(b["b4"]))}});
}

BOOST_AUTO_TEST_CASE(kernels_and_copies_in_both_orders, *boost::unit_test::label("GR-11")) {
  Device& d = xdev();
  auto b = five(d);
  same_as_sequential(d, {call_of(xor_body(), {b["b0"], b["b1"], b["b2"]}), copy_call(b["b3"], b["b0"])}, b,
                     {{"b3", exclusive_or(read(b["b1"]), read(b["b2"]))}});
  auto c = five(d);
  same_as_sequential(d, {copy_call(c["b1"], c["b0"]), call_of(xor_body(), {c["b3"], c["b1"], c["b2"]})}, c,
                     {{"b3", exclusive_or(read(c["b0"]), read(c["b2"]))}});
}

// Lists of two calls, each a graph; with copies in between as they are.
UOp graphs_of_two(Device& first, Device& second, const std::map<std::string, UOp>& b, bool copies_inside) {
  std::vector<UOp> items;
  auto pair = [](Device& where, const UOp& to, const UOp& from) {
    UOp t = temporary(where.name());
    return std::vector<UOp>{call_of(add_body(1), {t, from}), call_of(add_body(2), {to, t})};
  };
  auto add = [&](Device& where, std::vector<UOp> calls, const UOp& copied_to, const UOp& copied_from) {
    UOp copy = copied_to ? copy_call(copied_to, copied_from) : UOp{};
    if (copy && copies_inside) calls.insert(calls.begin(), copy);
    if (copy && !copies_inside) items.push_back(compiled(where, {copy}).src(0));
    UOp list = batched(where, calls);
    BOOST_TEST(list.nsrc() == 1u);
    items.push_back(list.src(0));
  };
  add(first, pair(first, b.at("b3"), b.at("b1")), {}, {});
  add(second, pair(second, b.at("result"), b.at("there")), b.at("there"), b.at("b3"));
  add(first, pair(first, b.at("b2"), b.at("b4")), b.at("b4"), b.at("result"));
  return linear(items);
}

BOOST_AUTO_TEST_CASE(three_dependent_graphs, *boost::unit_test::label("GR-12")) {
  Device& d = xdev();
  auto b = five(d);
  std::vector<UOp> calls;
  for (auto [to, from] : {std::pair{"b3", "b1"}, {"b4", "b3"}, {"b2", "b4"}}) {
    UOp t = temporary(d.name());
    calls.push_back(call_of(add_body(1), {t, b[from]}));
    calls.push_back(call_of(add_body(2), {b[to], t}));
  }
  std::vector<UOp> first(calls.begin(), calls.begin() + 2), second(calls.begin() + 2, calls.begin() + 4),
      third(calls.begin() + 4, calls.end());
  std::vector<UOp> graphs;
  for (const auto& part : {first, second, third}) graphs.push_back(batched(d, part).src(0));
  UOp list = linear(graphs);
  BOOST_TEST(text_of(sizes_of(list)) == "2, 2, 2");
  BufferBinding binding(d);
  Ints start = read(b["b1"]);
  for (int i = 0; i < 5; ++i) {
    write(b["b1"], plus(start, i));
    run_linear(binding, list, jit_run());
    BOOST_TEST(read(b["b2"]) == plus(start, i + 9));
  }
  // Two queues, the first of them slow: the second graph must wait for the first, the third for the second.
  for (bool inside : {false, true}) {
    Device &slow = tb().open_streams(), &fast = tb().open_streams();
    auto c = five(slow);
    c["there"] = stored(fast.name(), Ints(kCount, 0));
    c["result"] = stored(fast.name(), Ints(kCount, 0));
    UOp chain = graphs_of_two(slow, fast, c, inside);
    BOOST_TEST(text_of(sizes_of(chain)) == (inside ? "2, 3, 3" : "2, 0, 2, 0, 2"));
    tb().delay(slow, 2000, 2000);
    BufferBinding other(slow);
    start = read(c["b1"]);
    uint64_t launches = graph_launches();
    for (int i = 0; i < 4; ++i) {
      write(c["b1"], plus(start, 10 * i));
      run_linear(other, chain, jit_run());
      BOOST_TEST(read(c["b2"]) == plus(start, 10 * i + 9));
    }
    BOOST_TEST(graph_launches() == launches + 12);
    tb().delay(slow, 0, 0);
  }
}

BOOST_AUTO_TEST_CASE(a_copy_to_a_second_device_and_a_kernel_on_the_first, *boost::unit_test::label("GR-13")) {
  for (bool streams : {false, true}) {
    auto set = [&](tb_options& o) { o.streams = streams; };
    Device &d = xdev(set), &e = xdev(set);
    auto b = five(d);
    b["there"] = stored(e.name(), Ints(kCount, 0));
    b["result"] = stored(e.name(), Ints(kCount, 0));
    same_as_sequential(
        d,
        {copy_call(b["there"], b["b0"]), call_of(xor_body(), {b["b0"], b["b1"], b["b2"]}),
         call_of(add_body(1), {b["result"], b["there"]})},
        b, {{"result", plus(read(b["b0"]), 1)}, {"b0", exclusive_or(read(b["b1"]), read(b["b2"]))}});
  }
}

BOOST_AUTO_TEST_CASE(views_over_the_whole_storage, *boost::unit_test::label("GR-14")) {
  Device& d = xdev();
  auto b = five(d);
  UOp whole = slice_node(b["b1"], DType::I32, 0, kCount), own = slice_node(b["b0"], DType::I32, 0, kCount);
  same_as_sequential(d, {copy_call(b["b0"], whole), call_of(xor_body(), {own, own, b["b2"]})}, b,
                     {{"b0", exclusive_or(read(b["b1"]), read(b["b2"]))}});
}

BOOST_AUTO_TEST_CASE(a_partial_overwrite_keeps_the_other_write, *boost::unit_test::label("GR-15")) {
  Device& d = xdev();
  auto b = five(d);
  auto low = [](const UOp& u) { return slice_node(u, DType::I32, 0, 8); };
  auto high = [](const UOp& u) { return slice_node(u, DType::I32, 32, 8); };
  Ints from_first = read(b["b1"]);
  Ints tail(from_first.begin() + 8, from_first.end());
  UOp out = stored(d.name(), Ints(8, 0));
  b["out"] = out;
  same_as_sequential(d,
                     {copy_call(b["b0"], b["b1"]), copy_call(low(b["b0"]), low(b["b2"])),
                      call_of(add_body(1, 8), {out, high(b["b0"])})},
                     b, {{"out", plus(tail, 1)}});
}

BOOST_AUTO_TEST_CASE(a_partial_overwrite_keeps_the_read_of_the_rest, *boost::unit_test::label("GR-16")) {
  Device& d = xdev();
  auto b = five(d);
  auto low = [](const UOp& u) { return slice_node(u, DType::I32, 0, 8); };
  auto high = [](const UOp& u) { return slice_node(u, DType::I32, 32, 8); };
  same_as_sequential(d,
                     {copy_call(b["b1"], b["b0"]), copy_call(low(b["b0"]), low(b["b2"])),
                      call_of(add_body(1, 8), {high(b["b0"]), low(b["b3"])})},
                     b, {{"b1", read(b["b0"])}});
}

BOOST_AUTO_TEST_CASE(an_overwrite_in_the_middle_splits, *boost::unit_test::label("GR-17")) {
  Device& d = xdev();
  auto b = five(d);
  auto part = [](const UOp& u, int64_t first, int64_t count) {
    return slice_node(u, DType::I32, 4 * first, count);
  };
  UOp lower = stored(d.name(), Ints(4, 0)), upper = stored(d.name(), Ints(4, 0));
  b["lower"] = lower, b["upper"] = upper;
  Ints all = read(b["b1"]);
  same_as_sequential(d,
                     {copy_call(b["b0"], b["b1"]), copy_call(part(b["b0"], 4, 8), part(b["b2"], 0, 8)),
                      call_of(add_body(1, 4), {lower, part(b["b0"], 0, 4)}),
                      call_of(add_body(1, 4), {upper, part(b["b0"], 12, 4)})},
                     b,
                     {{"lower", plus(Ints(all.begin(), all.begin() + 4), 1)},
                      {"upper", plus(Ints(all.begin() + 12, all.end()), 1)}});
}

BOOST_AUTO_TEST_CASE(stable_inputs_need_no_patch, *boost::unit_test::label("GR-20")) {
  Device& d = xdev();
  UOp t = temporary(d.name()), out = storage(d.name());
  UOp list = batched(d, {call_of(xor_body(), {t, param(0, d), param(1, d)}), call_of(add_body(2), {out, t})});
  std::vector<UOp> inputs = {stored(d.name(), ramp(0)), stored(d.name(), ramp(7))};
  BufferBinding binding(d);
  run_linear(binding, list, jit_run(inputs));
  Since since(d);
  for (int i = 0; i < 3; ++i) run_linear(binding, list, jit_run(inputs));
  BOOST_TEST(since(&tb_counters::graph_update) == 0u);
  BOOST_TEST(since(&tb_counters::patches_buffer) + since(&tb_counters::patches_value) +
                 since(&tb_counters::patches_sizes) ==
             0u);
  BOOST_TEST(since(&tb_counters::graph_launch) == 3u);
  BOOST_TEST(read(out) == plus(exclusive_or(ramp(0), ramp(7)), 2));
}

BOOST_AUTO_TEST_CASE(views_and_shards_of_inputs_follow_them, *boost::unit_test::label("GR-21")) {
  Device &d = xdev(), &e = xdev();
  UOp t = temporary(d.name(), 8), out = storage(d.name(), 8);
  UOp list = batched(d, {call_of(add_body(1, 8), {t, slice_node(param(0, d), DType::I32, 16, 8)}),
                         call_of(add_body(2, 8), {out, t})});
  BufferBinding binding(d);
  for (int i = 0; i < 4; ++i) {
    run_linear(binding, list, jit_run({stored(d.name(), ramp(10 * i))}));
    BOOST_TEST(read(out) == ramp(10 * i + 7, 8));
  }
  // The second shard of an input that is on two devices.
  UOp both = param_node(0, DType::I32, kCount, d.name() + "," + e.name()), second = mselect(both, 1);
  UOp t2 = temporary(e.name()), out2 = storage(e.name());
  UOp shards = batched(e, {call_of(add_body(1), {t2, second}), call_of(add_body(2), {out2, t2})});
  BOOST_TEST(text_of(sizes_of(shards)) == "2");
  BufferBinding other(e);
  for (int i = 0; i < 4; ++i) {
    RunOptions options = jit_run();
    options.input_overlay = {MultiBuffer::of_bufs({int_buffer(d, ramp(-5)), int_buffer(e, ramp(i))})};
    run_linear(other, shards, options);
    BOOST_TEST(read(out2) == ramp(i + 3));
  }
}

BOOST_AUTO_TEST_CASE(a_replay_while_the_previous_launch_runs, *boost::unit_test::label("GR-22")) {
  // Graphs of the plugin, and those of the host, whose kernels are submitted one by one; of backends that
  // read the arguments of a launch at once, and of those that do when it starts.
  for (bool host : {false, true})
    for (bool late : {false, true}) {
      ScopedConfig settings(with([&](Config& c) { c.graph = host ? 2 : 1; }));
      Device& d = xdev([&](tb_options& o) {
        o.streams = 1, o.retains_args = late;
        if (host) o.graph = 0;
      });
      tb().delay(d, 2000);
      UOp t = temporary(d.name());
      UOp list = batched(d, {call_of(add_body(1), {t, param(0, d)}), call_of(add_body(2), {param(1, d), t})});
      std::vector<BufferRef> ins, outs;
      for (int i = 0; i < 4; ++i)
        ins.push_back(int_buffer(d, ramp(100 * i))), outs.push_back(int_buffer(d, Ints(kCount, 0)));
      BOOST_TEST(text_of(sizes_of(list)) == "2");
      auto binding = std::make_unique<BufferBinding>(d);
      Since since(d);
      uint64_t launches = graph_launches();
      for (size_t i = 0; i < 4; ++i) {
        RunOptions options = jit_run();
        options.input_overlay = {ins[i], outs[i]};
        run_linear(*binding, list, options);
      }
      binding.reset(); // and the graph with it, launches may still wait
      for (int i = 0; i < 4; ++i) BOOST_TEST(read(*outs[size_t(i)]) == ramp(100 * i + 3));
      BOOST_TEST(graph_launches() == launches + 4);
      BOOST_TEST(since(&tb_counters::graph_create) == (host ? 0u : 1u));
      BOOST_TEST(since(&tb_counters::graph_launch) == (host ? 0u : 4u));
      BOOST_TEST(since(&tb_counters::kernels_run) == 8u);
      tb().reset();
    }
}

BOOST_AUTO_TEST_CASE(new_aliasing_between_inputs_is_found, *boost::unit_test::label("GR-26")) {
  for (bool streams : {false, true}) {
    Device& d = xdev([&](tb_options& o) { o.streams = streams; });
    // p1 = p0 + 1; t = p2 + 1; p1 and p2 may become one buffer.
    UOp t = storage(d.name());
    UOp plain = compiled(
        d, {call_of(add_body(1), {param(1, d), param(0, d)}), call_of(add_body(1), {t, param(2, d)})});
    UOp list = batch_graphs(d, plain);
    BOOST_TEST(text_of(sizes_of(list)) == "2");
    BufferBinding binding(d);
    BufferRef a = int_buffer(d, ramp(0)), b = int_buffer(d, ramp(50)), c = int_buffer(d, ramp(70));
    auto run = [&](const BufferRef& p0, const BufferRef& p1, const BufferRef& p2) {
      RunOptions options = jit_run();
      options.input_overlay = {p0, p1, p2};
      run_linear(binding, list, options);
      return read(t);
    };
    BOOST_TEST(run(a, b, c) == ramp(71));
    uint64_t fallbacks = graph_fallbacks();
    Since since(d);
    BOOST_TEST(run(a, b, b) == ramp(2)); // must read what the first kernel wrote
    BOOST_TEST(graph_fallbacks() == fallbacks + 1);
    BOOST_TEST(since(&tb_counters::graph_launch) == 0u);
    BOOST_TEST(run(a, c, b) == ramp(2)); // distinct again: the graph
    BOOST_TEST(graph_fallbacks() == fallbacks + 1);
    BOOST_TEST(since(&tb_counters::graph_launch) == 1u);
    // An input that is what the list itself writes.
    BOOST_TEST(run(resolve(binding, {}, t), c, b) == ramp(2));
    BOOST_TEST(graph_fallbacks() == fallbacks + 2);
    // Two inputs that are only read may be one.
    BOOST_TEST(run(a, c, a) == ramp(1));
    BOOST_TEST(graph_fallbacks() == fallbacks + 2);
  }
}

// The same inside one kernel, whose code then must allow for it.
BOOST_AUTO_TEST_CASE(new_aliasing_inside_a_kernel_is_found) {
  Device& d = xdev();
  UOp t = storage(d.name());
  UOp list = batched(d, {call_of(xor_body(), {param(1, d), param(0, d), param(2, d)}),
                         call_of(add_body(1), {t, param(1, d)})});
  BOOST_TEST(text_of(sizes_of(list)) == "2");
  BufferBinding binding(d);
  auto run = [&](const BufferRef& p0, const BufferRef& p1, const BufferRef& p2) {
    RunOptions options = jit_run();
    options.input_overlay = {p0, p1, p2};
    run_linear(binding, list, options);
    return read(t);
  };
  BufferRef a = int_buffer(d, ramp(0)), b = int_buffer(d, ramp(50)), c = int_buffer(d, ramp(70));
  Ints expected = plus(exclusive_or(ramp(0), ramp(70)), 1);
  BOOST_TEST(run(a, b, c) == expected);
  uint64_t fallbacks = graph_fallbacks();
  BOOST_TEST(run(c, a, a) == expected);
  BOOST_TEST(graph_fallbacks() == fallbacks + 1);
  BOOST_TEST(read(*a) == plus(expected, -1));
  Since since(d);
  BOOST_TEST(run(b, a, c) == plus(exclusive_or(read(*b), ramp(70)), 1));
  BOOST_TEST(graph_fallbacks() == fallbacks + 1);
  BOOST_TEST(since(&tb_counters::graph_launch) == 1u);
}

BOOST_AUTO_TEST_CASE(shards_with_assignments, *boost::unit_test::label("GR-25")) {
  Device &d = xdev(), &e = xdev();
  std::string both = d.name() + "," + e.name();
  // tmp = position * 2 + index + 1 on two devices of two elements; out = tmp + 1.
  UOp i = range_node(2, 0, AxisType::Loop), position = cast(device_position(2), DType::I32);
  UOp value = alu(Op::ADD, alu(Op::ADD, alu(Op::MUL, position, constant(DType::I32, 2)), cast(i, DType::I32)),
                  constant(DType::I32, 1));
  UOp effect = end(store(param_node(0, DType::I32, 2), i, value), std::vector<UOp>{i});
  UOp iota_body = kernel_sink(std::vector<UOp>{effect});
  UOp tmp = temporary(both, 2), out = storage(both, 2);
  UOp list = batched(d, {call_of(iota_body, {tmp}), call_of(add_body(1, 2), {out, tmp})});
  BOOST_TEST(text_of(sizes_of(list)) == "2");
  BufferBinding binding(d);
  MultiBufferRef shards = MultiBuffer::of_bufs({int_buffer(d, Ints(2, 0)), int_buffer(e, Ints(2, 0))});
  binding.seed(out, shards);
  Since since(d);
  for (int round = 0; round < 5; ++round) {
    for (const BufferRef& shard : shards->shards()) write(*shard, Ints(2, -1));
    run_linear(binding, list, jit_run());
    BOOST_TEST((read(*shards->shard(0)) == Ints{2, 3}));
    BOOST_TEST((read(*shards->shard(1)) == Ints{4, 5}));
  }
  BOOST_TEST(since(&tb_counters::graph_create) == 1u);
  BOOST_TEST(since(&tb_counters::graph_kernels) == 4u);
}

BOOST_AUTO_TEST_CASE(two_bindings_do_not_share_recorded_storage) {
  Device& d = xdev();
  UOp t = temporary(d.name()), out = temporary(d.name());
  UOp list = batched(d, {call_of(add_body(1), {t, param(0, d)}), call_of(add_body(2), {out, t})});
  BufferBinding one(d), two(d);
  UOp x = stored(d.name(), ramp(0)), y = stored(d.name(), ramp(30));
  for (int i = 0; i < 3; ++i) {
    run_linear(one, list, jit_run({x}));
    run_linear(two, list, jit_run({y}));
    BOOST_TEST(read(*resolve(one, {}, out)) == ramp(3));
    BOOST_TEST(read(*resolve(two, {}, out)) == ramp(33));
  }
}

// HIP #3887: a replayed graph of many nodes read an old value through an unchanged pointer.
BOOST_AUTO_TEST_CASE(long_graphs_read_the_present_value, *boost::unit_test::label("bug-27")) {
  for (std::string name : {"XDEV", "CPU", "INTERP"})
    for (size_t count : {1, 31, 32, 33, 199, 300}) {
      if (name == "INTERP" && count > 33) continue; // the same code as below, slower
      if (name == "CPU" && !cpu_exists()) continue;
      ScopedConfig settings(
          with([](Config& c) { c.jit_batch_size = 0, c.graph_one_kernel = 1, c.graph = 2; }));
      std::string where = name;
      if (where == "XDEV") where = tb().open_name([](tb_options& o) { o.streams = 1; });
      Device& d = device(where);
      UOp acc = stored(where, Ints(kCount, 0)), p = stored(where, Ints(kCount, 42)),
          next = stored(where, Ints(kCount, 7));
      std::vector<UOp> calls(count, call_of(accumulate_body(), {acc, p}));
      UOp list = batched(d, calls), copy = compiled(d, {copy_call(p, next)});
      BOOST_TEST(text_of(sizes_of(list)) == std::to_string(count));
      BufferBinding binding(d);
      run_linear(binding, list, jit_run());
      BOOST_TEST(read(acc) == Ints(kCount, 42 * int32_t(count)));
      write(p, Ints(kCount, 99));
      write(acc, Ints(kCount, 0));
      run_linear(binding, list, jit_run());
      BOOST_TEST(read(acc) == Ints(kCount, 99 * int32_t(count)));
      // Written by a copy on the same queue just before.
      write(acc, Ints(kCount, 0));
      run_linear(binding, copy, jit_run());
      run_linear(binding, list, jit_run());
      BOOST_TEST(read(acc) == Ints(kCount, 7 * int32_t(count)));
    }
}

BOOST_AUTO_TEST_CASE(a_graph_that_rests_keeps_what_was_replaced) {
  for (bool alternates : {true, false}) {
    Device& d = xdev([&](tb_options& o) {
      o.streams = 1;
      if (alternates) o.graph |= TOLK_GRAPH_UPDATE_MAY_BLOCK;
    });
    ScopedConfig scoped([] {
      Config config = Config::current();
      config.lru = 0; // what nobody holds is destroyed
      return config;
    }());
    UOp mid = storage(d.name()), out = storage(d.name());
    UOp list = batched(d, {call_of(add_body(1), {mid, param(0, d)}), call_of(add_body(2), {out, mid})});
    BufferBinding binding(d);
    RunOptions options = jit_run();
    auto run_with = [&](int32_t first) { // with a buffer that nobody else has
      options.input_overlay = {int_buffer(d, ramp(first))};
      run_linear(binding, list, options);
      options.input_overlay.clear();
      BOOST_TEST(read(out) == ramp(first + 3));
    };
    run_with(0);
    const uint64_t before = tb().counters(d).live_buffers; // with one input
    run_with(10);
    BOOST_TEST(tb().counters(d).live_buffers == before + (alternates ? 1 : 0));
    run_with(20);
    BOOST_TEST(tb().counters(d).live_buffers == before + (alternates ? 1 : 0));
  }
}
