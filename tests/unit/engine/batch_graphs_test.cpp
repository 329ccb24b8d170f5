// Which calls become graphs: capabilities, devices, sizes, views.
#include "captured_stderr.h"
#include "graph_support.h"

using namespace tolk;
using namespace tolk::test;
using namespace tolk::engine;

namespace {

Device& xdev(uint32_t graph = ~0u) {
  return tb().open([&](tb_options& o) {
    if (graph != ~0u) o.graph = graph;
  });
}
constexpr uint32_t kAllGraphs = TOLK_GRAPH_KERNELS | TOLK_GRAPH_COPIES | TOLK_GRAPH_FILLS |
                                TOLK_GRAPH_CROSS_DEVICE | TOLK_GRAPH_UPDATE_BUFFERS |
                                TOLK_GRAPH_UPDATE_VALUES | TOLK_GRAPH_UPDATE_SIZES;

// A chain of `count` kernels on a device, each adding 1 to what the one before made.
std::vector<UOp> chain(const std::string& device, size_t count) {
  std::vector<UOp> calls;
  UOp at = stored(device, ramp(0));
  for (size_t i = 0; i < count; ++i) {
    UOp next = storage(device);
    calls.push_back(call_of(add_body(1), {next, at}));
    at = next;
  }
  return calls;
}

UOp kernel_on(const std::string& device) {
  return call_of(xor_body(), {storage(device), storage(device), storage(device)});
}
UOp kernel_on(const std::string& device, const UOp& out) {
  return call_of(xor_body(), {out, storage(device), storage(device)});
}

std::vector<size_t> split(Device& lead, const std::vector<UOp>& calls) {
  return sizes_of(batched(lead, calls));
}

} // namespace

BOOST_AUTO_TEST_CASE(a_device_with_graphs_gets_one_and_others_get_programs,
                     *boost::unit_test::label("J-08")) {
  Device &with = xdev(), &without = xdev(0);
  BOOST_TEST(text_of(split(with, chain(with.name(), 5))) == "5");
  UOp plain = batched(without, chain(without.name(), 5));
  BOOST_TEST(plain.nsrc() == 5u);
  for (const UOp& item : plain.src()) BOOST_TEST(item.src(0).is(Op::PROGRAM));
}

BOOST_AUTO_TEST_CASE(the_first_batch_is_capped_and_the_cap_doubles, *boost::unit_test::label("J-09")) {
  Device& d = xdev();
  UOp many = compiled(d, chain(d.name(), 83)), thirty = compiled(d, chain(d.name(), 30)),
      fewer = compiled(d, chain(d.name(), 29));
  BOOST_TEST(text_of(sizes_of(batch_graphs(d, many))) == "32, 51");
  ScopedConfig four(with([](Config& c) { c.jit_batch_size = 4; }));
  BOOST_TEST(text_of(sizes_of(batch_graphs(d, thirty))) == "4, 8, 16, 2");
  UOp last = batch_graphs(d, fewer);
  BOOST_TEST(text_of(sizes_of(last)) == "4, 8, 16, 0"); // one kernel is left alone
  BOOST_TEST(last.src(3).src(0).is(Op::PROGRAM));
}

BOOST_AUTO_TEST_CASE(without_a_limit_one_graph_takes_all, *boost::unit_test::label("P-03")) {
  Device& d = xdev();
  UOp list = compiled(d, chain(d.name(), 200));
  BOOST_TEST(text_of(sizes_of(graph_split_rewrite(d, list, 0))) == "200");
  BOOST_TEST(text_of(sizes_of(graph_split_rewrite(d, list, 50))) == "50, 100, 50");
  ScopedConfig none(with([](Config& c) { c.jit_batch_size = 0; }));
  BOOST_TEST(text_of(sizes_of(batch_graphs(d, list))) == "200");
}

BOOST_AUTO_TEST_CASE(a_batched_list_gives_the_same_bytes, *boost::unit_test::label("J-19")) {
  Device& d = xdev();
  UOp a = stored(d.name(), ramp(3)), b = stored(d.name(), ramp(40, kCount, 3));
  UOp t0 = storage(d.name()), t1 = storage(d.name()), out = storage(d.name());
  std::vector<UOp> calls = {call_of(xor_body(), {t0, a, b}), call_of(add_body(7), {t1, t0}),
                            call_of(xor_body(), {out, t1, a})};
  UOp plain = compiled(d, calls), graph = batch_graphs(d, plain);
  BOOST_REQUIRE(graph.nsrc() == 1);
  BOOST_TEST(is_graph_call(graph.src(0)));
  BOOST_TEST((graph_linear(graph.src(0)) == plain)); // the same calls in the same order
  BOOST_TEST((batch_graphs(d, graph) == graph));
  BufferBinding binding(d);
  run_linear(binding, plain, jit_run());
  Ints expected = exclusive_or(plus(exclusive_or(ramp(3), ramp(40, kCount, 3)), 7), ramp(3));
  BOOST_TEST(read(out) == expected);
  write(out, Ints(kCount, -1));
  uint64_t launches = tb().counters(d).graph_launch;
  run_linear(binding, graph, jit_run());
  BOOST_TEST(read(out) == expected);
  BOOST_TEST(tb().counters(d).graph_launch == launches + 1);
}

BOOST_AUTO_TEST_CASE(copies_join_where_graphs_hold_them, *boost::unit_test::label("J-20")) {
  for (bool copies : {true, false}) {
    Device& d = xdev(copies ? kAllGraphs : kAllGraphs & ~uint32_t{TOLK_GRAPH_COPIES});
    UOp a = storage(d.name()), b = storage(d.name());
    std::vector<UOp> calls = {kernel_on(d.name(), a), copy_call(b, a),
                              call_of(add_body(1), {storage(d.name()), b})};
    UOp list = batched(d, calls);
    BOOST_TEST(text_of(sizes_of(list)) == (copies ? "3" : "0, 0, 0"));
    if (!copies) BOOST_TEST(list.src(1).src(0).is(Op::COPY));
  }
}

BOOST_AUTO_TEST_CASE(a_call_of_another_backend_ends_the_batch, *boost::unit_test::label("J-21")) {
  Device &x = xdev(), &y = tb("YDEV").open();
  auto k = [](Device& d) { return kernel_on(d.name()); };
  BOOST_TEST(text_of(split(x, {k(x), k(x), k(y), k(x), k(x)})) == "2, 0, 2");
}

BOOST_AUTO_TEST_CASE(views_need_no_call, *boost::unit_test::label("J-22")) {
  Device& d = xdev();
  UOp a = storage(d.name()), v = temporary(d.name(), 8), out = storage(d.name(), 8),
      out2 = storage(d.name(), 8);
  UOp slice = slice_node(param_node(1, DType::I32, kCount), DType::I32, 32, 8);
  std::vector<UOp> calls = {call_of(add_body(5), {a, stored(d.name(), ramp(0))}), call_of(slice, {v, a}),
                            call_of(add_body(1, 8), {out, v}), call_of(xor_body(8), {out2, v, out})};
  UOp plain = compiled(d, calls), list = batch_graphs(d, plain);
  BOOST_TEST(text_of(sizes_of(list)) == "3");
  for (const UOp& inner : graph_linear(list.src(0)).src()) BOOST_TEST(!inner.src(0).is(Op::SLICE));
  BufferBinding one(d), two(d);
  run_linear(one, list, jit_run());
  Ints expected = plus(ramp(8, 8), 6), second = exclusive_or(plus(ramp(8, 8), 5), expected);
  BOOST_TEST(read(out) == expected);
  BOOST_TEST(read(out2) == second);
  write(out, Ints(8, 0)), write(out2, Ints(8, 0));
  run_linear(two, plain, jit_run());
  BOOST_TEST(read(out) == expected);
  BOOST_TEST(read(out2) == second);
}

// A view that a user's node names stays a call.
BOOST_AUTO_TEST_CASE(views_under_a_users_name_stay) {
  Device& d = xdev();
  UOp a = storage(d.name()), v = storage(d.name(), 8), out = storage(d.name(), 8);
  UOp slice = slice_node(param_node(1, DType::I32, kCount), DType::I32, 32, 8);
  std::vector<UOp> calls = {call_of(add_body(5), {a, stored(d.name(), ramp(0))}), call_of(slice, {v, a}),
                            call_of(add_body(1, 8), {out, v})};
  UOp list = batched(d, calls);
  BOOST_TEST(text_of(sizes_of(list)) == "0, 0, 0");
  BOOST_TEST(list.src(1).src(0).is(Op::SLICE));
}

BOOST_AUTO_TEST_CASE(nothing_changes_without_graphs_or_with_JIT_2, *boost::unit_test::label("J-23")) {
  Device &with_graphs = xdev(), &without = xdev(0);
  UOp a = compiled(with_graphs, chain(with_graphs.name(), 5)),
      b = compiled(without, chain(without.name(), 5));
  BOOST_TEST((batch_graphs(without, b) == b));
  ScopedConfig two(with([](Config& c) { c.jit = 2; }));
  BOOST_TEST((batch_graphs(with_graphs, a) == a));
}

BOOST_AUTO_TEST_CASE(the_setting_GRAPH_asks_for_graphs_of_the_host_or_for_none) {
  Device &with_graphs = xdev(), &without = xdev(0);
  UOp a = compiled(with_graphs, chain(with_graphs.name(), 5)),
      b = compiled(without, chain(without.name(), 5));
  {
    ScopedConfig none(with([](Config& c) { c.graph = 0; }));
    BOOST_TEST((batch_graphs(with_graphs, a) == a));
  }
  ScopedConfig host(with([](Config& c) { c.graph = 2; }));
  UOp list = batch_graphs(without, b);
  BOOST_TEST(text_of(sizes_of(list)) == "5");
  BufferBinding binding(without);
  for (int i = 0; i < 3; ++i) run_linear(binding, list, jit_run());
  BOOST_TEST(tb().counters(without).launches == 15u);
  BOOST_TEST(read(b.src(4).src(1)) == plus(ramp(0), 5));
}

BOOST_AUTO_TEST_CASE(the_arguments_are_the_params_in_the_order_met, *boost::unit_test::label("P-02")) {
  Device& d = xdev();
  auto param = [&](int slot) { return param_node(slot, DType::I32, kCount, d.name()); };
  UOp t = storage(d.name());
  std::vector<UOp> calls = {
      call_of(xor_body(), {t, param(3), param(1)}),
      call_of(xor_body(8), {storage(d.name(), 8), slice_node(param(0), DType::I32, 4, 8),
                            slice_node(param(3), DType::I32, 0, 8)}),
      call_of(add_body(1), {param(2), t})};
  UOp list = compiled(d, calls);
  UOp graph = create_graph_call(list.src());
  BOOST_TEST(is_graph_call(graph));
  BOOST_TEST((graph_linear(graph) == list));
  BOOST_TEST((std::vector<UOp>(graph.src().begin() + 1, graph.src().end()) ==
              std::vector<UOp>{param(3), param(1), param(0), param(2)}));
}

BOOST_AUTO_TEST_CASE(one_kernel_is_a_graph_only_on_request, *boost::unit_test::label("P-07")) {
  Device& d = xdev();
  UOp list = compiled(d, chain(d.name(), 1));
  BOOST_TEST((batch_graphs(d, list) == list));
  ScopedConfig one(with([](Config& c) { c.graph_one_kernel = 1; }));
  BOOST_TEST(text_of(sizes_of(batch_graphs(d, list))) == "1");
}

BOOST_AUTO_TEST_CASE(a_batch_is_reported, *boost::unit_test::label("P-08")) {
  Device& d = xdev();
  UOp list = compiled(d, chain(d.name(), 7));
  for (int level : {1, 2}) {
    ScopedConfig debug(with([&](Config& c) { c.debug = level; }));
    std::string text = captured_stderr([&] { batch_graphs(d, list); });
    BOOST_TEST(contains(text, "JIT GRAPHing batch with 7 kernels") == (level == 2), text);
  }
}

BOOST_AUTO_TEST_CASE(graphs_of_one_device_take_its_kernels_alone, *boost::unit_test::label("P-17")) {
  uint32_t flags = TOLK_GRAPH_KERNELS;
  Device &d = xdev(flags), &e = xdev(flags);
  std::vector<Device*> one = {&d}, two = {&d, &e};
  UOp list = compiled(d, {kernel_on(d.name())}), kernel = list.src(0);
  BOOST_TEST(graph_supports(d, one, kernel));
  BOOST_TEST(graph_supports(d, {}, kernel));
  BOOST_TEST(!graph_supports(d, two, kernel));
  std::vector<Device*> other = {&e};
  BOOST_TEST(!graph_supports(d, other, kernel));
  BOOST_TEST(!graph_supports(d, one, copy_call(storage(d.name()), storage(d.name()))));
  BOOST_TEST(!graph_supports(
      d, one,
      call_of(xor_body(), {storage(d.name()), storage(d.name()), storage(d.name())}))); // not compiled
}

BOOST_AUTO_TEST_CASE(graphs_of_a_backend_take_kernels_and_copies_of_its_devices,
                     *boost::unit_test::label("P-18")) {
  Device &d = xdev(), &e = xdev(), &y = tb("YDEV").open();
  std::vector<Device*> one = {&d}, both = {&d, &e};
  UOp here = compiled(d, {kernel_on(d.name())}).src(0), there = compiled(d, {kernel_on(e.name())}).src(0);
  BOOST_TEST(graph_supports(d, both, here));
  BOOST_TEST(graph_supports(d, one, there));
  BOOST_TEST(graph_supports(d, one, copy_call(storage(e.name()), storage(d.name()))));
  BOOST_TEST(!graph_supports(d, one, compiled(y, {kernel_on(y.name())}).src(0)));
  BOOST_TEST(!graph_supports(d, one, copy_call(storage(y.name()), storage(d.name()))));
  // Devices that cannot copy from one another.
  Device &f = tb().open([](tb_options& o) { o.copy_hook = 0; }),
         &g = tb().open([](tb_options& o) { o.copy_hook = 0; });
  std::vector<Device*> apart = {&f};
  BOOST_TEST(!graph_supports(f, apart, copy_call(storage(g.name()), storage(f.name()))));
}

BOOST_AUTO_TEST_CASE(a_run_of_83_kernels_is_two_graphs_with_the_same_result_each_time,
                     *boost::unit_test::label("GR-01")) {
  Device& d = xdev();
  std::vector<UOp> calls = chain(d.name(), 83);
  UOp list = batched(d, calls);
  BOOST_TEST(text_of(sizes_of(list)) == "32, 51");
  BufferBinding binding(d);
  for (int i = 0; i < 5; ++i) {
    write(calls[82].src(1), Ints(kCount, 0));
    run_linear(binding, list, jit_run());
    BOOST_TEST(read(calls[82].src(1)) == plus(ramp(0), 83));
  }
}

BOOST_AUTO_TEST_CASE(three_chained_kernels_are_one_graph, *boost::unit_test::label("GR-02")) {
  Device& d = xdev();
  BOOST_TEST(text_of(split(d, chain(d.name(), 3))) == "3");
}

BOOST_AUTO_TEST_CASE(a_foreign_kernel_in_the_middle, *boost::unit_test::label("GR-03")) {
  Device &d = xdev(), &y = tb("YDEV").open([](tb_options& o) { o.graph = 0; });
  auto k = [](Device& on) { return kernel_on(on.name()); };
  BOOST_TEST(text_of(split(d, {k(d), k(d), k(y), k(d)})) == "2, 0, 0");
}

BOOST_AUTO_TEST_CASE(several_foreign_kernels, *boost::unit_test::label("GR-04")) {
  Device &d = xdev(), &y = tb("YDEV").open([](tb_options& o) { o.graph = 0; }), &z = tb("YDEV").open();
  auto k = [](Device& on) { return kernel_on(on.name()); };
  BOOST_TEST(text_of(split(d, {k(d), k(d), k(y), k(y), k(d)})) == "2, 0, 0, 0");
  BOOST_TEST(text_of(split(d, {k(d), k(d), k(z), k(z), k(d)})) == "2, 2, 0");
}

BOOST_AUTO_TEST_CASE(two_devices_of_one_backend, *boost::unit_test::label("GR-05")) {
  uint32_t alone = kAllGraphs & ~uint32_t{TOLK_GRAPH_CROSS_DEVICE};
  auto k = [](Device& on) { return kernel_on(on.name()); };
  Device &a = xdev(alone), &b = xdev(alone), &c = xdev(), &d = xdev();
  BOOST_TEST(text_of(split(a, {k(a), k(a), k(b), k(b), k(a)})) == "2, 2, 0");
  BOOST_TEST(text_of(split(c, {k(c), k(c), k(d), k(d), k(c)})) == "5");
}

BOOST_AUTO_TEST_CASE(a_transfer_in_between, *boost::unit_test::label("GR-06")) {
  uint32_t alone = TOLK_GRAPH_KERNELS;
  for (bool joined : {false, true}) {
    Device &a = xdev(joined ? kAllGraphs : alone), &b = xdev(joined ? kAllGraphs : alone);
    auto k = [](Device& on) { return kernel_on(on.name()); };
    UOp there = storage(b.name()), here = storage(a.name());
    UOp list = batched(a, {k(a), k(a), kernel_on(b.name(), there), copy_call(here, there), k(b), k(a)});
    BOOST_TEST(text_of(sizes_of(list)) == (joined ? "6" : "2, 0, 0, 0, 0"));
  }
}

BOOST_AUTO_TEST_CASE(a_copy_to_another_backend, *boost::unit_test::label("GR-07")) {
  Device &d = xdev(), &y = tb("YDEV").open();
  UOp here = storage(d.name()), there = storage(y.name());
  UOp list = batched(d, {kernel_on(d.name()), kernel_on(d.name(), here), copy_call(there, here),
                         call_of(add_body(1), {storage(y.name()), there})});
  BOOST_TEST(text_of(sizes_of(list)) == "2, 0, 0");
}

BOOST_AUTO_TEST_CASE(arguments_far_inside_their_storage, *boost::unit_test::label("GR-19")) {
  Device& d = tb().open([](tb_options& o) { o.offset_max = (uint64_t{1} << 32) - 1; });
  UOp huge = storage(d.name(), int64_t{1} << 33, DType::U8); // never allocated
  auto kernel_at = [&](int64_t offset, DType dtype) {
    UOp i = range_node(4, 0, AxisType::Loop), out = param_node(0, DType::U8, 4);
    UOp value = cast(load(param_node(1, dtype, 4), i), DType::U8);
    UOp effect = end(store(out, i, value), std::vector<UOp>{i});
    UOp body = kernel_sink(std::vector<UOp>{effect});
    return compiled(d, {call_of(body, {storage(d.name(), 4, DType::U8), slice_node(huge, dtype, offset, 4)})})
        .src(0);
  };
  std::vector<Device*> one = {&d};
  int64_t limit = (int64_t{1} << 32) - 1;
  BOOST_TEST(graph_supports(d, one, kernel_at(limit, DType::U8)));
  BOOST_TEST(!graph_supports(d, one, kernel_at(limit + 1, DType::U8)));
  BOOST_TEST(graph_supports(d, one, kernel_at(limit - 3, DType::I32)));
  BOOST_TEST(!graph_supports(d, one, kernel_at(limit + 1, DType::I32)));
  UOp nested = slice_node(slice_node(huge, DType::U8, limit - 7, 64), DType::I32, 8, 4);
  UOp far = kernel_at(0, DType::I32);
  BOOST_TEST(!graph_supports(d, one, call_of(far.src(0), {far.src(1), nested})));
}

BOOST_AUTO_TEST_CASE(a_kernel_for_another_ordinal_is_not_recorded_on_the_first,
                     *boost::unit_test::label("RG-05")) {
  uint32_t alone = kAllGraphs & ~uint32_t{TOLK_GRAPH_CROSS_DEVICE};
  Device &a = xdev(alone), &b = xdev(alone);
  UOp x = stored(a.name(), ramp(0)), y = stored(b.name(), ramp(100));
  UOp ax = storage(a.name()), ay = storage(a.name()), bx = storage(b.name()), by = storage(b.name());
  UOp list = batched(a, {call_of(add_body(1), {ax, x}), call_of(add_body(2), {ay, ax}),
                         call_of(add_body(3), {bx, y}), call_of(add_body(4), {by, bx})});
  BOOST_TEST(text_of(sizes_of(list)) == "2, 2");
  tb().reset();
  BufferBinding binding(a);
  run_linear(binding, list, jit_run());
  BOOST_TEST(read(ay) == plus(ramp(0), 3));
  BOOST_TEST(read(by) == plus(ramp(100), 7));
  std::vector<tb_record> launches = tb().launches();
  BOOST_REQUIRE(launches.size() == 4u);
  for (size_t i = 0; i < 4; ++i) BOOST_TEST(launches[i].device == (i < 2 ? a : b).index());
}

BOOST_AUTO_TEST_CASE(a_view_inside_a_batch_reads_the_viewed_storage, *boost::unit_test::label("RG-06")) {
  Device& d = xdev();
  UOp a = temporary(d.name()), v = temporary(d.name()), out = storage(d.name());
  UOp all = slice_node(param_node(1, DType::I32, kCount), DType::I32, 0, kCount);
  UOp list = batched(d, {call_of(add_body(1), {a, stored(d.name(), ramp(10))}), call_of(all, {v, a}),
                         call_of(add_body(1), {out, v})});
  BOOST_TEST(text_of(sizes_of(list)) == "2");
  BufferBinding binding(d);
  run_linear(binding, list, jit_run());
  BOOST_TEST(read(out) == plus(ramp(10), 2));
}

BOOST_AUTO_TEST_CASE(batch_settings_take_effect_at_use_and_end_with_their_scope,
                     *boost::unit_test::label("E-01")) {
  Device& d = xdev();
  UOp list = compiled(d, chain(d.name(), 12));
  auto sizes = [&] { return text_of(sizes_of(batch_graphs(d, list))); };
  BOOST_TEST(sizes() == "12");
  try {
    ScopedConfig outer(with([](Config& c) { c.jit_batch_size = 2; }));
    BOOST_TEST(sizes() == "2, 4, 6");
    {
      ScopedConfig inner(with([](Config& c) { c.jit_batch_size = 3; }));
      BOOST_TEST(sizes() == "3, 6, 3");
    }
    BOOST_TEST(sizes() == "2, 4, 6");
    throw InvalidArgument("out of the scope");
  } catch (const InvalidArgument&) {
  }
  BOOST_TEST(sizes() == "12");
  UOp one = compiled(d, chain(d.name(), 1));
  {
    ScopedConfig scope(with([](Config& c) { c.graph_one_kernel = 1; }));
    BOOST_TEST(text_of(sizes_of(batch_graphs(d, one))) == "1");
  }
  BOOST_TEST((batch_graphs(d, one) == one));
  setenv("JIT_BATCH_SIZE", "5", 1);
  setenv("GRAPH_ONE_KERNEL", "1", 1);
  Config read = Config::from_environment();
  unsetenv("JIT_BATCH_SIZE");
  unsetenv("GRAPH_ONE_KERNEL");
  BOOST_TEST(read.jit_batch_size == 5);
  BOOST_TEST(read.graph_one_kernel == 1);
  ScopedConfig from_environment(read);
  BOOST_TEST(sizes() == "5, 7");
}

BOOST_AUTO_TEST_CASE(the_batch_size_can_change_between_captures, *boost::unit_test::label("RG-18")) {
  Device& d = xdev();
  UOp list = compiled(d, chain(d.name(), 12));
  for (auto [size, sizes] :
       {std::pair<int64_t, const char*>{4, "4, 8"}, {0, "12"}, {7, "7, 5"}, {4, "4, 8"}}) {
    ScopedConfig scope(with([&](Config& c) { c.jit_batch_size = size; }));
    UOp graphs = batch_graphs(d, list);
    BOOST_TEST(text_of(sizes_of(graphs)) == sizes);
    BufferBinding binding(d);
    write(list.src(11).src(1), Ints(kCount, 0));
    run_linear(binding, graphs, jit_run());
    BOOST_TEST(read(list.src(11).src(1)) == ramp(12));
  }
}
