// Graphs of kernels and calls of functions as one list to run.
#include <boost/test/unit_test.hpp>
#include <set>

#include "graph_kernels.h"
#include "schedule_support.h"
#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/schedule/lower.h"
#include "tolk/uop/arena.h"
#include "tolk/uop/traverse.h"

using namespace mini;
using namespace support;
using tolk::schedule::clear_schedule_cache;
using tolk::schedule::Options;
using tolk::schedule::Schedule;
using tolk::schedule::schedule_cache_counters;
using tolk::schedule::VarVals;

namespace {

bool says(const std::exception& e, const std::string& part) {
  return std::string(e.what()).find(part) != std::string::npos;
}
#define THROWS_SAYING(expression, part)                                                                      \
  BOOST_CHECK_EXCEPTION(expression, tolk::InvalidArgument,                                                   \
                        [](const tolk::InvalidArgument& e) { return says(e, part); })

UOp param(int64_t slot, int64_t elements = 8, const std::string& device = "CPU") {
  return tolk::param_node(slot, DType::F32, elements, device);
}
UOp state(const UOp& storage, const std::vector<UOp>& effects) { return tolk::after(storage, effects); }

Options cached() {
  Options o = options();
  o.cache = true;
  return o;
}
Options unplanned() {
  Options o = options();
  o.memory_plan = false;
  return o;
}
Schedule made(const std::vector<UOp>& roots, const Options& o = options()) {
  return tolk::schedule::create_schedule(roots, o);
}
// The function's call as one that makes a state of its first argument.
Schedule called(const UOp& body, const std::vector<UOp>& arguments, const Options& o = options()) {
  return made({state(arguments[0], {tolk::call(body, arguments)})}, o);
}

template <typename F> auto with_setting(int64_t tolk::Config::* field, int64_t value, F f) {
  tolk::Config c = tolk::Config::current();
  c.*field = value;
  tolk::ScopedConfig scope(c);
  return f();
}

// Body of a function: out (PARAM 0) = t + ..., t (temporary) = in (PARAM 1) + ...
UOp two_kernels(const UOp& t) {
  UOp t1 = state(t, {add_kernel({t, param(1)})});
  return tolk::sink(std::vector<UOp>{state(param(0), {add_kernel({param(0), t1})})});
}

// A kernel that stores the value of a variable.
UOp variable_kernel(const UOp& out, const UOp& var) {
  UOp effect = tolk::store(tolk::param_node(0, out.dtype(), tolk::elements_of(bare(out))),
                           tolk::index_const(0), tolk::cast(var, out.dtype()));
  return tolk::call(tolk::kernel_sink(std::span(&effect, 1)), std::vector<UOp>{out});
}
// The same with arguments behind `out`.
UOp variable_state(const UOp& out, const UOp& var, std::vector<UOp> arguments) {
  arguments.insert(arguments.begin(), out);
  return state(out, {tolk::call(variable_kernel(out, var).src(0), arguments)});
}
std::vector<std::string> variables_of(const UOp& linear) {
  std::vector<std::string> out;
  for (const UOp& u : tolk::toposort(linear))
    if (u.is(Op::VAR)) out.push_back(tolk::var_name(u));
  return out;
}
bool is_planned(const UOp& argument) { return argument.is(Op::SLICE); }

} // namespace

BOOST_AUTO_TEST_CASE(tensor_sinks_become_lists_and_kernels_stay,
                     *boost::unit_test::label("S-11") * boost::unit_test::label("S-12")) {
  UOp x = user(8), out = user(8);
  std::vector<UOp> roots{state(out, {add_kernel({out, x})}), (T{x} + 1).u};
  tolk::Arena arena;
  tolk::ArenaScope scope(&arena);
  for (const UOp& root : roots) {
    auto body = tolk::schedule::parametrize(std::span(&root, 1)).body;
    auto lowered = tolk::schedule::lower_sink_to_linear(body, options());
    BOOST_REQUIRE(lowered);
    BOOST_TEST(lowered->linear.is(Op::LINEAR));
    BOOST_TEST(lowered->linear.nsrc() == 1u);
    // What is in the list is a kernel, and needs no schedule.
    BOOST_TEST(!tolk::schedule::lower_sink_to_linear({lowered->linear.src(0).src(0)}, options()));
  }
}

BOOST_AUTO_TEST_CASE(lowered_sinks_are_kept_by_content_unless_SCACHE_is_0,
                     *boost::unit_test::label("S-13") * boost::unit_test::label("E-01")) {
  clear_schedule_cache();
  UOp x = user(8), out = user(8);
  UOp root = state(out, {add_kernel({out, x})});
  auto before = schedule_cache_counters();
  auto lookups = [&] {
    auto now = schedule_cache_counters();
    return std::pair(now.hits - before.hits, now.misses - before.misses);
  };
  with_setting(&tolk::Config::schedule_cache, 0, [&] {
    for (int i = 0; i < 2; ++i) made({root}, cached());
    schedule({buffer({3}) + 1}, cached());
    return 0;
  });
  BOOST_TEST((lookups() == std::pair<uint64_t, uint64_t>(0, 0)));
  BOOST_TEST(schedule_cache_counters().entries == 0u);
  UOp first = made({root}, cached()).linear, second = made({root}, cached()).linear;
  BOOST_TEST((first == second));
  BOOST_TEST((lookups() == std::pair<uint64_t, uint64_t>(1, 1)));
  BOOST_TEST(schedule_cache_counters().entries == 1u);
  clear_schedule_cache();
  made({root}, cached());
  BOOST_TEST((lookups() == std::pair<uint64_t, uint64_t>(1, 2)));
}

BOOST_AUTO_TEST_CASE(values_of_variables_are_no_part_of_the_key, *boost::unit_test::label("S-14")) {
  clear_schedule_cache();
  UOp n = tolk::variable("n", 1, 16), out = user(8);
  auto bound = [&](int64_t value) {
    return made({variable_state(out, n, {tolk::bind(n, value)})}, cached());
  };
  Schedule five = bound(5), ten = bound(10);
  BOOST_TEST(schedule_cache_counters().entries == 1u);
  BOOST_TEST((five.linear == ten.linear));
  BOOST_TEST((five.vars == VarVals{{"n", 5}}));
  BOOST_TEST((ten.vars == VarVals{{"n", 10}}));
}

BOOST_AUTO_TEST_CASE(kernels_and_calls_give_lists_and_variables, *boost::unit_test::label("S-20")) {
  UOp n = tolk::variable("n", 1, 16), out = user(8), x = user(8);
  Schedule raw = made({variable_state(out, n, {tolk::bind(n, 7)})});
  BOOST_REQUIRE_EQUAL(raw.linear.nsrc(), 1u);
  BOOST_TEST((raw.linear.src(0).src(1) == out));
  BOOST_TEST((raw.vars == VarVals{{"n", 7}}));
  BOOST_TEST((tolk::storage_of(raw.results[0]) == out));
  Schedule call = called(two_kernels(internal(8)), {out, x});
  BOOST_REQUIRE_EQUAL(call.linear.nsrc(), 2u);
  BOOST_TEST((call.linear.src(0).src(2) == x));
  BOOST_TEST((call.linear.src(1).src(1) == out));
  BOOST_TEST(call.vars.empty());
  // They compute what they say: out = (x[0] + 1) + 1.
  host::Memory memory;
  memory.fill(x, ramp(8, 5));
  host::run_linear(call.linear, memory);
  BOOST_TEST(values(out, memory)[3] == 7.0);
}

// The body of a function can also be a graph of tensors that stores to its parameters.
BOOST_AUTO_TEST_CASE(functions_of_tensors_are_scheduled_once) {
  clear_schedule_cache();
  T in{param(1)}, target{param(0)};
  UOp body = tolk::sink(std::vector<UOp>{assign(target, contiguous(in * 2.0) + 1).u});
  UOp a = user(8), b = user(8), x = user(8);
  UOp first = state(a, {tolk::call(body, std::vector<UOp>{a, x})});
  UOp second = state(b, {tolk::call(body, std::vector<UOp>{b, first})});
  Schedule s = made({second}, cached());
  BOOST_TEST(s.linear.nsrc() == 4u);
  BOOST_TEST(schedule_cache_counters().entries == 2u); // the function and its caller
  host::Memory memory;
  memory.fill(x, ramp(8, 5));
  host::run_linear(s.linear, memory);
  BOOST_TEST(values(b, memory)[1] == 27.0); // (6 * 2 + 1) * 2 + 1
  UOp value = tolk::sink(std::vector<UOp>{(in + 1).u});
  THROWS_SAYING(called(value, {a, x}), "a function stores its results in its parameters");
}

BOOST_AUTO_TEST_CASE(calls_of_lists_are_written_out_with_storage_of_their_own,
                     *boost::unit_test::label("S-21")) {
  UOp t = internal(8), x = user(8), y = user(8), a = user(8), b = user(8);
  UOp inner = two_kernels(t);
  // One function that calls another twice, through a temporary.
  UOp mid = internal(8);
  UOp first = tolk::call(inner, std::vector<UOp>{mid, param(2)});
  UOp second = tolk::call(inner, std::vector<UOp>{param(0), state(mid, {first})});
  UOp outer = tolk::sink(std::vector<UOp>{state(param(0), {second})});
  UOp n = tolk::bind(tolk::variable("n", 0, 4), 1);
  UOp one = called(outer, {a, n, x}, unplanned()).linear,
      other = called(outer, {b, n, y}, unplanned()).linear;
  BOOST_REQUIRE_EQUAL(one.nsrc(), 4u);
  BOOST_TEST((one.src(0).src(2) == x)); // argument 2: the variable counts
  BOOST_TEST((one.src(3).src(1) == a));
  // Temporaries: two of `inner`, one for each call, and `mid`; none of them the body's own, none shared
  // between the two.
  std::set<int64_t> slots;
  for (const UOp& list : {one, other}) {
    for (const UOp& u : tolk::toposort(list))
      if (u.is(Op::BUFFER) && tolk::slot_of(u) < 0) slots.insert(tolk::slot_of(u));
  }
  BOOST_TEST(slots.size() == 6u);
  BOOST_TEST(!slots.contains(tolk::slot_of(t)));
  BOOST_TEST(!slots.contains(tolk::slot_of(mid)));
  host::Memory memory;
  memory.fill(x, ramp(8, 10)), memory.fill(y, ramp(8, 20));
  host::run_linear(one, memory), host::run_linear(other, memory);
  BOOST_TEST(values(a, memory)[0] == 14.0);
  BOOST_TEST(values(b, memory)[7] == 24.0);
  // Views inside arguments are replaced below; parts of parts are one part.
  UOp half = tolk::slice_node(x, DType::F32, 16, 4);
  UOp body =
      tolk::linear(std::vector<UOp>{add_kernel({param(0), tolk::slice_node(param(1, 4), DType::F32, 8, 2)})});
  UOp list = called(body, {a, half}, unplanned()).linear;
  BOOST_TEST((list.src(0).src(2) == tolk::slice_node(x, DType::F32, 24, 2)));
  THROWS_SAYING(called(body, {a}), "PARAM 1 has no argument");
  THROWS_SAYING(called(body, {a, n}), "gives the variable n");
}

BOOST_AUTO_TEST_CASE(calls_are_scopes_of_variables) {
  UOp out = user(8), n = tolk::variable("n", 2, 6);
  UOp p1 = tolk::variable("p1", 0, 8);
  UOp inner = tolk::linear(std::vector<UOp>{variable_kernel(param(0), p1)});
  // The inner call has a variable of its own, or sees the outer one.
  auto through = [&](const std::vector<UOp>& inner_arguments) {
    UOp outer = tolk::linear(std::vector<UOp>{tolk::call(inner, inner_arguments)});
    return called(outer, {out, tolk::bind(n, 3)});
  };
  UOp m = tolk::variable("m", 2, 6);
  Schedule inherits = through({param(0)}), shadows = through({param(0), m});
  BOOST_TEST(variables_of(inherits.linear) == std::vector<std::string>{"n"},
             boost::test_tools::per_element());
  BOOST_TEST((inherits.vars == VarVals{{"n", 3}}));
  BOOST_TEST(variables_of(shadows.linear) == std::vector<std::string>{"m"}, boost::test_tools::per_element());
  UOp wide = tolk::variable("wide", 0, 100);
  THROWS_SAYING(called(inner, {out, tolk::bind(wide, 3)}), "wide in 0..100 is given for p1");
}

BOOST_AUTO_TEST_CASE(only_variables_that_kernels_use_are_returned, *boost::unit_test::label("S-22")) {
  UOp n = tolk::variable("n", 1, 16), m = tolk::variable("m", 1, 16), out = user(8);
  Schedule s = made({variable_state(out, n, {tolk::bind(n, 7), tolk::bind(m, 9)})});
  BOOST_TEST((s.vars == VarVals{{"n", 7}}));
}

BOOST_AUTO_TEST_CASE(values_that_disagree_or_leave_their_bounds_are_refused,
                     *boost::unit_test::label("S-26")) {
  UOp n = tolk::variable("n", 1, 16), out = user(8);
  auto with = [&](const std::vector<UOp>& binds) { return made({variable_state(out, n, binds)}); };
  THROWS_SAYING(with({tolk::bind(n, 3), tolk::bind(n, 4)}), "bind mismatch on n, 3 != 4");
  UOp far = tolk::make(Op::BIND, DType::Index, {n, tolk::index_const(17)});
  THROWS_SAYING(with({far}), "bound to 17, outside its bounds 1..16");
}

BOOST_AUTO_TEST_CASE(what_gives_no_list_is_refused, *boost::unit_test::label("S-27")) {
  UOp out = user(8), x = user(8);
  UOp kernel = add_kernel({out, x});
  THROWS_SAYING(made({kernel}), "a root is a value or a state of storage, not CALL");
  THROWS_SAYING(made({kernel.src(0)}), "a root is a value or a state of storage, not SINK");
  UOp written = state(out, {kernel});
  THROWS_SAYING(made({(T{written} + 1).u}), "a root of a graph of kernels is a state of storage, not ADD");
  BOOST_TEST(made({x}).linear.nsrc() == 0u); // a value that is there already
}

// A capture asks for no plan: one over all of its schedules is made later.
BOOST_AUTO_TEST_CASE(arguments_stay_and_temporaries_are_planned_when_asked_for,
                     *boost::unit_test::label("S-23") * boost::unit_test::label("S-25")) {
  // With internal slots they could be planned, but for being arguments.
  UOp out = internal(8), x = user(8);
  for (bool plan : {true, false}) {
    UOp list = called(two_kernels(internal(8)), {out, x}, plan ? options() : unplanned()).linear;
    BOOST_TEST((list.src(0).src(2) == x));
    BOOST_TEST((list.src(1).src(1) == out));
    BOOST_TEST(is_planned(list.src(0).src(1)) == plan);
  }
  // What the roots name is the caller's.
  UOp t = internal(8), o = internal(8);
  UOp t1 = state(t, {add_kernel({t, x})});
  UOp list = made({state(o, {add_kernel({o, t1})})}).linear;
  BOOST_TEST((list.src(1).src(1) == o));
  BOOST_TEST(is_planned(list.src(0).src(1)));
}

BOOST_AUTO_TEST_CASE(two_answers_for_one_cached_graph_share_no_temporaries,
                     *boost::unit_test::label("RG-09")) {
  clear_schedule_cache();
  UOp x = user(8), t = internal(8), o = user(8);
  UOp t1 = state(t, {add_kernel({t, x})});
  UOp root = state(o, {add_kernel({o, t1})});
  UOp a = made({root}, cached()).linear, b = made({root}, cached()).linear;
  BOOST_TEST(schedule_cache_counters().entries == 1u);
  BOOST_TEST((a.src(0).src(1).src(0) != b.src(0).src(1).src(0)));
  // Both run, the first one's temporary still has its value afterwards.
  host::Memory memory;
  memory.fill(x, ramp(8, 1));
  host::run_linear(a, memory);
  memory.fill(x, ramp(8, 50));
  host::run_linear(b, memory);
  BOOST_TEST(values(a.src(0).src(1), memory)[0] == 2.0);
  BOOST_TEST(values(b.src(0).src(1), memory)[0] == 51.0);
}

BOOST_AUTO_TEST_CASE(kernels_that_only_copy_between_devices_become_copies) {
  auto kernel = [](const UOp& to, const UOp& from, const std::vector<int64_t>& extents,
                   const std::vector<int64_t>& strides) {
    std::vector<UOp> loops;
    UOp index = tolk::index_const(0);
    for (size_t i = 0; i < extents.size(); ++i) {
      loops.push_back(tolk::range_node(extents[i], int64_t(i), tolk::AxisType::Loop));
      index = index + loops.back() * strides[i];
    }
    UOp effect =
        tolk::end(tolk::store(tolk::param_node(0, DType::F32, tolk::elements_of(to)), index,
                              tolk::load(tolk::param_node(1, DType::F32, tolk::elements_of(from)), index)),
                  loops);
    return tolk::call(tolk::kernel_sink(std::span(&effect, 1)), std::vector<UOp>{to, from});
  };
  UOp far = user(12, "CPU:1"), near = user(12), one_far = user(1, "CPU:1"), one = user(1);
  auto only = [&](const UOp& call) { return made({state(call.src(1), {call})}).linear.src(0); };
  for (const UOp& call : {kernel(far, near, {12}, {1}), kernel(far, near, {3, 4}, {4, 1}),
                          kernel(far, near, {3, 4}, {1, 3}), kernel(one_far, one, {}, {})}) {
    UOp copy = only(call);
    BOOST_REQUIRE(copy.src(0).is(Op::COPY));
    BOOST_TEST(tolk::device_text(copy.src(0)) == "CPU:1");
    BOOST_TEST((copy.src(1) == call.src(1)));
    BOOST_TEST((copy.src(2) == call.src(2)));
  }
  // On one device it stays a kernel; on two, whatever is more or less than a copy is refused.
  BOOST_TEST(only(kernel(user(12), near, {12}, {1})).src(0).is(Op::SINK));
  for (const UOp& call : {kernel(far, near, {6}, {1}), kernel(far, near, {6}, {2}),
                          kernel(far, near, {3, 4}, {3, 1}), add_kernel({far, near})})
    THROWS_SAYING(only(call), "all buffers must be on the same device: [CPU:1, CPU]");
  // Values on one tuple are on one device in this sense.
  UOp pair = user(12, "CPU,CPU:1"), other = user(12, "CPU,CPU:1");
  BOOST_TEST(only(add_kernel({pair, other})).src(0).is(Op::SINK));
}

BOOST_AUTO_TEST_CASE(graphs_that_are_refused_are_not_kept, *boost::unit_test::label("RG-21")) {
  clear_schedule_cache();
  UOp a = user(4), b = user(4), far = user(4, "CPU:1");
  for (int i = 0; i < 2; ++i)
    THROWS_SAYING(made({state(a, {add_kernel({a, b})}), state(b, {add_kernel({b, a})})}, cached()),
                  "cycle detected");
  THROWS_SAYING(made({state(a, {add_kernel({a, far})})}, cached()), "on the same device");
  BOOST_TEST(schedule_cache_counters().entries == 0u);
}
