// The order of kernels in a graph of states.
#include "tolk/schedule/order/kernel_graph.h"

#include <boost/test/unit_test.hpp>
#include <random>
#include <set>
#include <thread>

#include "graph_kernels.h"
#include "schedule_support.h"
#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/uop/arena.h"

using namespace mini;
using namespace support;
using tolk::schedule::schedule_kernel_graph;

namespace {

UOp state(const UOp& storage, const std::vector<UOp>& effects) { return tolk::after(storage, effects); }
UOp graph(const std::vector<UOp>& states) { return tolk::sink(states); }

// Bodies of the calls, in order.
std::vector<UOp> bodies(const UOp& linear) {
  std::vector<UOp> out;
  for (const UOp& call : linear.src()) out.push_back(call.src(0));
  return out;
}

bool says(const std::exception& e, const std::string& part) {
  return std::string(e.what()).find(part) != std::string::npos;
}
#define THROWS_SAYING(expression, part)                                                                      \
  BOOST_CHECK_EXCEPTION(expression, tolk::InvalidArgument,                                                   \
                        [](const tolk::InvalidArgument& e) { return says(e, part); })

} // namespace

BOOST_AUTO_TEST_CASE(internal_slots_are_negative_falling_and_distinct_across_threads,
                     *boost::unit_test::label("S-01")) {
  constexpr int kThreads = 4, kEach = 25000;
  std::vector<std::vector<int64_t>> drawn(kThreads);
  std::vector<std::thread> threads;
  for (auto& mine : drawn)
    threads.emplace_back([&mine] {
      for (int i = 0; i < kEach; ++i) mine.push_back(tolk::fresh_internal_slot());
    });
  for (std::thread& t : threads) t.join();
  std::set<int64_t> all;
  for (const auto& mine : drawn) {
    BOOST_TEST(std::ranges::is_sorted(mine, std::greater<>()));
    all.insert(mine.begin(), mine.end());
  }
  BOOST_TEST(all.size() == size_t(kThreads * kEach));
  BOOST_TEST(*all.rbegin() < 0);
}

BOOST_AUTO_TEST_CASE(the_slot_is_the_identity_of_a_buffer, *boost::unit_test::label("S-02")) {
  BOOST_TEST((tolk::buffer_node(-7, DType::F32, 4, "CPU") == tolk::buffer_node(-7, DType::F32, 4, "CPU")));
  BOOST_TEST((tolk::buffer_node(-7, DType::F32, 4, "CPU") != tolk::buffer_node(-8, DType::F32, 4, "CPU")));
}

// Between homes, slots stay what they are: whoever brings a graph in from elsewhere must give its storage new
// ones, as lists do when they are written out.
BOOST_AUTO_TEST_CASE(imported_graphs_keep_their_slots_until_they_are_renumbered,
                     *boost::unit_test::label("S-03")) {
  UOp local = tolk::buffer_node(-1, DType::F32, 4, "CPU");
  UOp returned;
  {
    tolk::Arena arena;
    UOp inside;
    {
      tolk::ArenaScope scope(&arena);
      inside = tolk::import_graph(local);
    }
    BOOST_TEST((inside != local));
    returned = tolk::import_graph(inside);
  }
  BOOST_TEST((returned == local));
  UOp list = tolk::linear(std::vector<UOp>{add_kernel({local, tolk::param_node(0, DType::F32, 4, "CPU")})});
  UOp x = user(4);
  auto o = options();
  o.memory_plan = false;
  UOp renumbered = schedule({T{state(x, {tolk::call(list, std::vector<UOp>{x})})}}, o).linear.src(0).src(1);
  BOOST_TEST(renumbered.is(Op::BUFFER));
  BOOST_TEST((renumbered != local));
  BOOST_TEST(tolk::slot_of(renumbered) < 0);
}

BOOST_AUTO_TEST_CASE(producers_come_before_consumers_in_a_chain_and_a_diamond,
                     *boost::unit_test::label("S-04")) {
  UOp x = user(4), a = internal(4), b = internal(4), c = internal(4), d = user(4);
  UOp a1 = state(a, {add_kernel({a, x})}), b1 = state(b, {add_kernel({b, a1})}),
      c1 = state(c, {add_kernel({c, b1})});
  UOp chain = schedule_kernel_graph(graph({c1}));
  BOOST_REQUIRE_EQUAL(chain.nsrc(), 3u);
  BOOST_TEST((chain.src(0).src(1) == a));
  BOOST_TEST((chain.src(1).src(1) == b));
  BOOST_TEST((chain.src(2).src(1) == c));
  UOp c2 = state(c, {add_kernel({c, a1})}), d1 = state(d, {add_kernel({d, b1, c2})});
  UOp diamond = schedule_kernel_graph(graph({d1}));
  std::vector<UOp> written;
  for (const UOp& call : diamond.src()) written.push_back(call.src(1));
  BOOST_TEST((written == std::vector<UOp>{a, b, c, d}));
}

BOOST_AUTO_TEST_CASE(the_sources_of_AFTER_are_kernels_dependencies_and_ignored_stores,
                     *boost::unit_test::label("S-05")) {
  UOp buf = user(4), dep = user(4), x = user(4);
  UOp producer = opaque_kernel({dep, x}, "producer"), consumer = opaque_kernel({buf}, "consumer");
  UOp n = tolk::variable("n", 0, 4);
  UOp ignored = tolk::make(Op::STORE, DType::Void, {n, tolk::index_const(1)});
  UOp list = schedule_kernel_graph(
      graph({state(buf, {tolk::end(consumer, std::vector<UOp>{tolk::range_node(2, 0, tolk::AxisType::Loop)}),
                         state(dep, {producer}), ignored})}));
  BOOST_TEST((bodies(list) == std::vector<UOp>{producer.src(0), consumer.src(0)}));
  THROWS_SAYING(schedule_kernel_graph(graph({state(buf, {tolk::sink({})})})),
                "AFTER source should be CALL, END, STORE, or AFTER, not SINK");
  UOp loop = tolk::end(ignored, std::vector<UOp>{tolk::range_node(2, 0, tolk::AxisType::Loop)});
  THROWS_SAYING(schedule_kernel_graph(graph({state(buf, {loop})})), "should wrap a CALL, not STORE");
}

// With bodies that show their accesses and with bodies that do not.
BOOST_AUTO_TEST_CASE(readers_of_a_state_precede_what_supersedes_it, *boost::unit_test::label("S-06")) {
  UOp x = user(4), b = user(4), out = user(4);
  for (bool shown : {true, false}) {
    auto kernel = [&](const std::vector<UOp>& arguments, const char* name) {
      return shown ? add_kernel(arguments) : opaque_kernel(arguments, name);
    };
    UOp writer = kernel({b, x}, "writer"), reader = kernel({out, b}, "reader");
    UOp list = schedule_kernel_graph(graph({state(b, {writer}), state(out, {reader})}));
    BOOST_REQUIRE_EQUAL(list.nsrc(), 2u);
    BOOST_TEST((list.src(0).src(1) == out));
    BOOST_TEST((list.src(1).src(1) == b));
    // A reader of the new state comes last.
    UOp late = kernel({out, state(b, {writer})}, "late");
    list = schedule_kernel_graph(graph({state(out, {late})}));
    BOOST_TEST((list.src(0).src(1) == b));
  }
}

BOOST_AUTO_TEST_CASE(only_the_immediate_state_is_superseded) {
  UOp x = user(4), b = user(4), old = user(4), mid = user(4), late = user(4);
  UOp b1 = state(b, {add_kernel({b, x})}), b2 = state(b1, {add_kernel({b1, b1})});
  UOp reads[] = {state(b2, {}), state(late, {add_kernel({late, b2})}), state(mid, {add_kernel({mid, b1})}),
                 state(old, {add_kernel({old, b})})};
  UOp list = schedule_kernel_graph(tolk::sink(reads));
  std::vector<UOp> written;
  for (const UOp& call : list.src()) written.push_back(call.src(1));
  auto place = [&](const UOp& u) { return std::ranges::find(written, u) - written.begin(); };
  BOOST_REQUIRE_EQUAL(written.size(), 5u);
  BOOST_TEST(place(old) < place(b));
  BOOST_TEST(place(mid) <
             std::ranges::find(written.begin() + place(b) + 1, written.end(), b) - written.begin());
  BOOST_TEST(place(late) == 4);
}

// The same kernel graph when the second kernel names the buffer, not its state: what a kernel writes it finds
// as its AFTER says.
BOOST_AUTO_TEST_CASE(results_may_be_named_by_their_buffer) {
  UOp x = user(4), r = internal(4), b = user(4);
  for (bool shown : {true, false}) {
    auto kernel = [&](const std::vector<UOp>& arguments, const char* name) {
      return shown ? add_kernel(arguments) : opaque_kernel(arguments, name);
    };
    UOp first = kernel({b, x}, "first"), b1 = state(b, {first});
    UOp second = kernel({r, b1}, "second");
    UOp third = kernel({b, state(r, {second})}, "third");
    UOp list = schedule_kernel_graph(graph({state(b1, {third})}));
    BOOST_REQUIRE_EQUAL(list.nsrc(), 3u);
    BOOST_TEST((list.src(0).src(1) == b));
    BOOST_TEST((list.src(1).src(1) == r));
    BOOST_TEST((list.src(2).src(2) == r));
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_buffer_state_is_refused_by_name, *boost::unit_test::label("S-07")) {
  UOp b = user(4);
  UOp bad = opaque_kernel({b, tolk::constant(DType::F32, 1.0)}, "k");
  THROWS_SAYING(schedule_kernel_graph(graph({state(b, {bad})})),
                "input to kernel must resolve to a buffer state, not CONST");
  THROWS_SAYING(schedule_kernel_graph(b), "not BUFFER");
}

BOOST_AUTO_TEST_CASE(every_kind_of_state_is_accepted_and_leaves_its_storage,
                     *boost::unit_test::label("S-08") * boost::unit_test::label("S-09")) {
  UOp b = user(8), p = tolk::param_node(3, DType::F32, 8, "CPU"), many = user(8, "CPU,CPU:1"), o = user(8);
  UOp x = user(8), b1 = state(b, {opaque_kernel({b, x}, "w")});
  UOp n = tolk::bind(tolk::variable("n", 1, 8), 5);
  UOp view = reshape(T{b1}, {2, 4}).u, half = tolk::slice_node(user(8), DType::F32, 16, 4);
  std::vector<UOp> parts{tolk::mselect(many, 0), tolk::mselect(many, 1)};
  UOp k = opaque_kernel({o, view, p, tolk::mselect(many, 1), tolk::mstack(parts), n, half}, "k");
  UOp list = schedule_kernel_graph(graph({state(o, {k})}));
  BOOST_REQUIRE_EQUAL(list.nsrc(), 2u);
  UOp call = list.src(1);
  BOOST_REQUIRE_EQUAL(call.nsrc(), 7u); // the BIND is no argument of a kernel
  BOOST_TEST((call.src(1) == o));
  BOOST_TEST((call.src(2) == b));
  BOOST_TEST((call.src(3) == p));
  BOOST_TEST((call.src(4) == tolk::mselect(many, 1)));
  BOOST_TEST((call.src(5) == tolk::mstack(parts)));
  BOOST_TEST((call.src(6) == half));
  // Below MSELECT and MSTACK edges are the same: the writer of `many` comes behind its readers.
  UOp writer = state(many, {opaque_kernel({many}, "overwrite")});
  list = schedule_kernel_graph(graph({writer, state(o, {k})}));
  BOOST_TEST((list.src(list.nsrc() - 1).src(1) == many));
}

BOOST_AUTO_TEST_CASE(kernels_that_need_each_others_old_contents_are_a_cycle,
                     *boost::unit_test::label("S-10") * boost::unit_test::label("RG-21")) {
  UOp a = user(4), b = user(4);
  for (bool shown : {true, false}) {
    UOp first = shown ? add_kernel({a, b}) : opaque_kernel({a, b}, "first"),
        second = shown ? add_kernel({b, a}) : opaque_kernel({b, a}, "second");
    UOp swap = graph({state(a, {first}), state(b, {second})});
    THROWS_SAYING(schedule_kernel_graph(swap), "cycle detected");
    // Whoever can break a cycle gets the graph in place of the error.
    size_t edges = 0;
    UOp none = schedule_kernel_graph(
        swap, [&](const tolk::schedule::KernelGraph& g) { edges = g.dependencies().edges().size(); });
    BOOST_TEST(!none);
    BOOST_TEST(edges == 2u);
  }
}

// A kernel that reads contents which something it needs has overwritten.
BOOST_AUTO_TEST_CASE(contents_that_are_gone_are_a_cycle_too) {
  UOp a = user(4), x = user(4), o = user(4);
  UOp a1 = state(a, {add_kernel({a, x})});
  THROWS_SAYING(schedule_kernel_graph(graph({state(o, {add_kernel({o, a, a1})})})), "cycle detected");
}

// Where the order in which kernels are met is not the order that states ask for.
BOOST_AUTO_TEST_CASE(kernels_wait_for_what_their_states_say_whenever_they_are_met) {
  UOp x = user(4), b = user(4), c = user(4), o = user(4), o2 = user(4), z = user(4);
  auto order = [](const UOp& list) {
    std::string names;
    for (const UOp& call : list.src()) names += call.src(0).arg().text();
    return names;
  };
  UOp consumer = opaque_kernel({b, o}, "C"), producer = opaque_kernel({c, x}, "P");
  // Met under o first; its state of b is behind the producer.
  UOp list = schedule_kernel_graph(graph({state(o, {consumer}), state(b, {consumer, state(c, {producer})})}));
  BOOST_TEST(order(list) == "PC");
  // Met under o first; what it supersedes is another's result.
  UOp first = opaque_kernel({b, x}, "F"), b1 = state(b, {first});
  list = schedule_kernel_graph(graph({state(o, {consumer}), state(b1, {consumer})}));
  BOOST_TEST(order(list) == "FC");
  // A state that names no kernel of its own is behind those of its dependencies: the reader of what F
  // overwrites comes first, so F is late, and who waits for it later.
  UOp waiting = opaque_kernel({o, state(z, {b1})}, "W"), old = opaque_kernel({o2, b}, "O");
  list = schedule_kernel_graph(graph({state(o, {waiting}), state(o2, {old})}));
  BOOST_TEST(order(list) == "OFW");
  // Kernels that a state repeats are not behind their own results.
  UOp both = opaque_kernel({b, c, x}, "B"), next = opaque_kernel({b, state(c, {both})}, "N"),
      last = opaque_kernel({b, x}, "L");
  UOp early = state(b, {both, next});
  list = schedule_kernel_graph(graph({state(early, {both, last})}));
  BOOST_TEST(order(list) == "BNL");
}

// Two kernels that each write a part of one state read nothing of each other's.
BOOST_AUTO_TEST_CASE(parts_of_one_state_may_be_written_apart) {
  UOp x = user(4), b = user(8);
  auto half = [&](int64_t offset) { return tolk::slice_node(b, DType::F32, offset, 4); };
  UOp low = state(half(0), {add_kernel({half(0), x})}), high = state(half(16), {add_kernel({half(16), x})});
  UOp o = user(8);
  UOp list = schedule_kernel_graph(graph({state(o, {add_kernel({o, low, high})})}));
  BOOST_REQUIRE_EQUAL(list.nsrc(), 3u);
  BOOST_TEST((list.src(2).src(1) == o));
  BOOST_TEST((list.src(2).src(3) == half(16)));
}

// What has been written in parts is read, and overwritten, as a join: in any order of the parts it is one state.
BOOST_AUTO_TEST_CASE(joins_are_read_and_overwritten_as_all_of_their_parts) {
  UOp x = user(4), b = user(8), low_out = user(4), out = user(8);
  UOp low = tolk::slice_node(b, DType::F32, 0, 4), high = tolk::slice_node(b, DType::F32, 16, 4);
  UOp low1 = state(b, {add_kernel({low, x})}), high1 = state(b, {add_kernel({high, x})});
  UOp whole = state(b, {low1, high1}), again = state(b, {high1, low1});
  UOp overwritten = state(again, {add_kernel({again, x})});
  UOp reads_low = state(low_out, {add_kernel({low_out, state(low, {low1})})});
  UOp reads_whole = state(out, {add_kernel({out, whole})});
  // The overwriting kernel is met first, and comes last.
  UOp list = schedule_kernel_graph(graph({overwritten, reads_low, reads_whole}));
  std::vector<UOp> written;
  for (const UOp& call : list.src()) written.push_back(call.src(1));
  BOOST_REQUIRE_EQUAL(written.size(), 5u);
  BOOST_TEST((written[4] == b));
  BOOST_TEST((std::set<int64_t>{slot_of(written[2]), slot_of(written[3])} ==
              std::set<int64_t>{slot_of(low_out), slot_of(out)}));
  tolk::schedule::KernelGraph kernels(graph({overwritten, reads_whole}));
  BOOST_TEST(kernels.contents(whole) == kernels.contents(again));
  BOOST_TEST(kernels.contents(whole) != kernels.contents(low1));
  BOOST_TEST(kernels.is_superseded(kernels.contents(low1)));
  BOOST_TEST(!kernels.is_superseded(kernels.contents(overwritten)));
}

BOOST_AUTO_TEST_CASE(a_kernel_under_two_states_runs_once) {
  UOp a = user(4), b = user(4), x = user(4);
  UOp both = opaque_kernel({a, b, x}, "both");
  UOp o = user(4);
  UOp reader = opaque_kernel({o, state(b, {both})}, "reader");
  UOp list = schedule_kernel_graph(graph({state(a, {both}), state(o, {reader})}));
  BOOST_TEST((bodies(list) == std::vector<UOp>{both.src(0), reader.src(0)}));
}

// What create_schedule makes, as a graph of states, put in order again: the values are the same.
BOOST_AUTO_TEST_CASE(graphs_of_real_kernels_compute_the_same_in_the_order_found_here) {
  for (int round = 0; round < 3; ++round) {
    T x = buffer({4, 6}, DType::F64), s = buffer({6}, DType::F64);
    std::vector<T> roots;
    if (round == 0) roots = {softmax(x), sum(x, {0})};
    if (round == 1) roots = {assign(s, s + 1), s * 3.0, sum(x * reshape(s, {1, 6}), {1})};
    if (round == 2) {
      T s1 = assign(s, s + 1), s2 = assign(s1, s1 * 2.0);
      roots = {s2, s1 * 5.0, s - 1.0, layer_norm(x)};
    }
    auto o = options();
    o.memory_plan = false;
    auto made = schedule(roots, o);
    UOp list = schedule_kernel_graph(states_of(made.linear));
    BOOST_TEST(list.nsrc() == made.linear.nsrc());
    host::Memory a, b;
    for (host::Memory* memory : {&a, &b})
      memory->fill(storage(x), ramp(24)), memory->fill(storage(s), ramp(6));
    host::run_linear(made.linear, a), host::run_linear(list, b);
    for (const UOp& result : made.results)
      BOOST_TEST(values(result, a) == values(result, b), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(kernel_graphs_are_ordered_in_linear_work) {
  auto seconds = [](int count) {
    UOp s = user(4), out = user(4), at = s;
    std::vector<UOp> states;
    for (int i = 0; i < count; ++i) { // each update is read once before the next
      at = state(at, {add_kernel({at, at})});
      UOp o = internal(4);
      states.push_back(state(o, {add_kernel({o, at})}));
    }
    states.push_back(at);
    UOp sink = graph(states);
    double best = 1e9;
    for (int i = 0; i < 3; ++i) {
      std::clock_t begin = std::clock();
      BOOST_TEST(schedule_kernel_graph(sink).nsrc() == size_t(2 * count));
      best = std::min(best, double(std::clock() - begin) / CLOCKS_PER_SEC);
    }
    return best;
  };
  double few = seconds(500), many = seconds(5000);
  BOOST_TEST_MESSAGE("1000 kernels " << few * 1e3 << " ms, 10000 kernels " << many * 1e3 << " ms");
  BOOST_TEST(many < 40 * few); // a square would be 100
}
