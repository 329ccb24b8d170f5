// SINKs and calls of SINKs as one list to run.
#include <boost/test/unit_test.hpp>
#include <set>

#include "graph_kernels.h"
#include "schedule_support.h"
#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/schedule/order/kernel_graph.h"
#include "tolk/uop/traverse.h"

using namespace mini;
using namespace support;
using tolk::schedule::copy_of_kernel;
using tolk::schedule::create_linear_with_vars;
using tolk::schedule::LinearOptions;
using tolk::schedule::LinearWithVars;
using tolk::schedule::lower_sink_to_linear;
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
UOp same(const UOp& sink) { return sink; }

// Counts how often it is asked; takes kernel graphs as they are.
struct Counting {
  int asked = 0;
  tolk::schedule::GetKernelGraph get() {
    return [this](const UOp& sink) {
      ++asked;
      return sink;
    };
  }
};

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
std::vector<std::string> variables_of(const UOp& linear) {
  std::vector<std::string> out;
  for (const UOp& u : tolk::toposort(linear))
    if (u.is(Op::VAR)) out.push_back(tolk::var_name(u));
  return out;
}

} // namespace

BOOST_AUTO_TEST_CASE(tensor_sinks_become_lists_and_kernels_stay,
                     *boost::unit_test::label("S-11") * boost::unit_test::label("S-12")) {
  UOp x = user(8), out = user(8);
  Counting counting;
  UOp sink = tolk::sink(std::vector<UOp>{state(out, {add_kernel({out, x})})});
  auto list = lower_sink_to_linear(counting.get(), sink);
  BOOST_REQUIRE(list.has_value());
  BOOST_TEST(list->is(Op::LINEAR));
  BOOST_TEST(list->nsrc() == 1u);
  BOOST_TEST(counting.asked == 1);
  BOOST_TEST(!lower_sink_to_linear(counting.get(), add_kernel({out, x}).src(0)).has_value());
  BOOST_TEST(!lower_sink_to_linear(counting.get(), x).has_value());
  BOOST_TEST(counting.asked == 1);
}

BOOST_AUTO_TEST_CASE(lowered_sinks_are_kept_by_content_unless_SCACHE_is_0,
                     *boost::unit_test::label("S-13") * boost::unit_test::label("E-01")) {
  tolk::schedule::clear_schedule_cache();
  UOp x = user(8), out = user(8);
  UOp sink = tolk::sink(std::vector<UOp>{state(out, {add_kernel({out, x})})});
  Counting counting;
  with_setting(&tolk::Config::schedule_cache, 0, [&] {
    for (int i = 0; i < 2; ++i) lower_sink_to_linear(counting.get(), sink);
    BOOST_TEST(counting.asked == 2);
    BOOST_TEST(tolk::schedule::schedule_cache_counters().entries == 0u);
    // create_schedule asks the same setting.
    auto o = options();
    o.cache = true;
    schedule({buffer({3}) + 1}, o);
    BOOST_TEST(tolk::schedule::schedule_cache_counters().entries == 0u);
    return 0;
  });
  UOp first = *lower_sink_to_linear(counting.get(), sink),
      second = *lower_sink_to_linear(counting.get(), sink);
  BOOST_TEST(counting.asked == 3);
  BOOST_TEST((first == second));
  BOOST_TEST(tolk::schedule::schedule_cache_counters().entries == 1u);
  tolk::schedule::clear_schedule_cache();
  lower_sink_to_linear(counting.get(), sink);
  BOOST_TEST(counting.asked == 4);
}

BOOST_AUTO_TEST_CASE(values_of_variables_are_no_part_of_the_key, *boost::unit_test::label("S-14")) {
  tolk::schedule::clear_schedule_cache();
  UOp n = tolk::variable("n", 1, 16), out = user(8), x = user(8);
  Counting counting;
  auto made = [&](int64_t value) {
    UOp kernel = variable_kernel(out, n);
    kernel = tolk::call(kernel.src(0), std::vector<UOp>{out, tolk::bind(n, value)});
    return create_linear_with_vars(counting.get(), tolk::sink(std::vector<UOp>{state(out, {kernel})}));
  };
  LinearWithVars five = made(5), ten = made(10);
  BOOST_TEST(counting.asked == 1);
  BOOST_TEST((five.linear == ten.linear));
  BOOST_TEST((five.vars == VarVals{{"n", 5}}));
  BOOST_TEST((ten.vars == VarVals{{"n", 10}}));
}

BOOST_AUTO_TEST_CASE(sinks_and_calls_give_lists_and_variables, *boost::unit_test::label("S-20")) {
  UOp n = tolk::variable("n", 1, 16), out = user(8), x = user(8);
  UOp kernel = tolk::call(variable_kernel(out, n).src(0), std::vector<UOp>{out, tolk::bind(n, 7)});
  LinearWithVars raw = create_linear_with_vars(same, tolk::sink(std::vector<UOp>{state(out, {kernel})}));
  BOOST_REQUIRE_EQUAL(raw.linear.nsrc(), 1u);
  BOOST_TEST((raw.linear.src(0).src(1) == out));
  BOOST_TEST((raw.vars == VarVals{{"n", 7}}));
  UOp body = two_kernels(internal(8));
  LinearWithVars called = create_linear_with_vars(same, tolk::call(body, std::vector<UOp>{out, x}));
  BOOST_REQUIRE_EQUAL(called.linear.nsrc(), 2u);
  BOOST_TEST((called.linear.src(0).src(2) == x));
  BOOST_TEST((called.linear.src(1).src(1) == out));
  BOOST_TEST(called.vars.empty());
  // They compute what they say: out = (x[0] + 1) + 1.
  host::Memory memory;
  memory.fill(x, ramp(8, 5));
  host::run_linear(called.linear, memory);
  BOOST_TEST(values(out, memory)[3] == 7.0);
}

BOOST_AUTO_TEST_CASE(calls_of_lists_are_written_out_with_storage_of_their_own,
                     *boost::unit_test::label("S-21")) {
  UOp t = internal(8), x = user(8), y = user(8), a = user(8), b = user(8);
  UOp inner = two_kernels(t);
  // One function that calls another twice, through a temporary, and a part of an argument.
  UOp mid = internal(8);
  UOp first = tolk::call(inner, std::vector<UOp>{mid, param(2)});
  UOp second = tolk::call(inner, std::vector<UOp>{param(0), state(mid, {first})});
  UOp outer = tolk::sink(std::vector<UOp>{state(param(0), {second})});
  LinearOptions plain;
  plain.memory_plan = false;
  UOp n = tolk::bind(tolk::variable("n", 0, 4), 1);
  auto made = [&](const UOp& out, const UOp& in) {
    return create_linear_with_vars(same, tolk::call(outer, std::vector<UOp>{out, n, in}), plain).linear;
  };
  UOp one = made(a, x), other = made(b, y);
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
  UOp list = create_linear_with_vars(same, tolk::call(body, std::vector<UOp>{a, half}), plain).linear;
  BOOST_TEST((list.src(0).src(2) == tolk::slice_node(x, DType::F32, 24, 2)));
  THROWS_SAYING(create_linear_with_vars(same, tolk::call(body, std::vector<UOp>{a})),
                "PARAM 1 has no argument");
  THROWS_SAYING(create_linear_with_vars(same, tolk::call(body, std::vector<UOp>{a, n})),
                "gives the variable n");
}

BOOST_AUTO_TEST_CASE(calls_are_scopes_of_variables) {
  UOp out = user(8), n = tolk::variable("n", 2, 6), m = tolk::variable("m", 2, 6);
  UOp p1 = tolk::variable("p1", 0, 8);
  UOp inner = tolk::linear(std::vector<UOp>{variable_kernel(param(0), p1)});
  // The inner call has a variable of its own, or sees the outer one.
  auto made = [&](const std::vector<UOp>& inner_arguments) {
    UOp outer = tolk::linear(std::vector<UOp>{tolk::call(inner, inner_arguments)});
    return create_linear_with_vars(same, tolk::call(outer, std::vector<UOp>{out, tolk::bind(n, 3)}));
  };
  LinearWithVars inherits = made({param(0)}), shadows = made({param(0), tolk::bind(m, 4)});
  BOOST_TEST(variables_of(inherits.linear) == std::vector<std::string>{"n"},
             boost::test_tools::per_element());
  BOOST_TEST((inherits.vars == VarVals{{"n", 3}}));
  BOOST_TEST(variables_of(shadows.linear) == std::vector<std::string>{"m"}, boost::test_tools::per_element());
  BOOST_TEST((shadows.vars == VarVals{{"m", 4}}));
  UOp wide = tolk::variable("wide", 0, 100);
  THROWS_SAYING(create_linear_with_vars(same, tolk::call(inner, std::vector<UOp>{out, tolk::bind(wide, 3)})),
                "wide in 0..100 is given for p1");
}

BOOST_AUTO_TEST_CASE(only_variables_that_kernels_use_are_returned, *boost::unit_test::label("S-22")) {
  UOp n = tolk::variable("n", 1, 16), m = tolk::variable("m", 1, 16), out = user(8);
  UOp kernel =
      tolk::call(variable_kernel(out, n).src(0), std::vector<UOp>{out, tolk::bind(n, 7), tolk::bind(m, 9)});
  UOp sink = tolk::sink(std::vector<UOp>{state(out, {kernel})});
  BOOST_TEST((create_linear_with_vars(same, sink).vars == VarVals{{"n", 7}}));
}

BOOST_AUTO_TEST_CASE(values_that_disagree_or_leave_their_bounds_are_refused,
                     *boost::unit_test::label("S-26")) {
  UOp n = tolk::variable("n", 1, 16), out = user(8);
  auto sink_of = [&](const std::vector<UOp>& binds) {
    std::vector<UOp> arguments{out};
    arguments.insert(arguments.end(), binds.begin(), binds.end());
    UOp kernel = tolk::call(variable_kernel(out, n).src(0), arguments);
    return tolk::sink(std::vector<UOp>{state(out, {kernel})});
  };
  THROWS_SAYING(create_linear_with_vars(same, sink_of({tolk::bind(n, 3), tolk::bind(n, 4)})),
                "bind mismatch on n, 3 != 4");
  UOp far = tolk::make(Op::BIND, DType::Index, {n, tolk::index_const(17)});
  THROWS_SAYING(create_linear_with_vars(same, sink_of({far})), "bound to 17, outside its bounds 1..16");
}

BOOST_AUTO_TEST_CASE(what_is_no_list_is_refused, *boost::unit_test::label("S-27")) {
  UOp out = user(8), x = user(8);
  THROWS_SAYING(create_linear_with_vars(same, add_kernel({out, x}).src(0)), "expected LINEAR, got SINK");
  THROWS_SAYING(create_linear_with_vars(same, add_kernel({out, x})), "expected LINEAR, got SINK");
  THROWS_SAYING(create_linear_with_vars(same, x), "expected LINEAR, got BUFFER");
}

BOOST_AUTO_TEST_CASE(a_capture_gets_the_unplanned_schedule_and_an_empty_one_is_returned,
                     *boost::unit_test::label("S-23")) {
  UOp out = user(8), x = user(8);
  std::vector<UOp> taken;
  VarVals values;
  LinearOptions options;
  options.capture = [&](const UOp& linear, const VarVals& vars) {
    taken.push_back(linear), values = vars;
    return true;
  };
  LinearWithVars made =
      create_linear_with_vars(same, tolk::call(two_kernels(internal(8)), std::vector<UOp>{out, x}), options);
  BOOST_TEST(made.linear.is(Op::LINEAR));
  BOOST_TEST(made.linear.nsrc() == 0u);
  BOOST_REQUIRE_EQUAL(taken.size(), 1u);
  BOOST_TEST(taken[0].src(0).src(1).is(Op::BUFFER)); // not a SLICE
  BOOST_TEST(taken[0].nsrc() == 2u);
}

BOOST_AUTO_TEST_CASE(without_a_capture_the_calls_buffers_are_held_and_temporaries_planned,
                     *boost::unit_test::label("S-25")) {
  UOp out = internal(8),
      x = internal(8); // with internal slots they could be planned, but for being arguments
  LinearOptions declines;
  declines.capture = [](const UOp&, const VarVals&) { return false; };
  for (const LinearOptions& options : {LinearOptions(), declines}) {
    UOp list =
        create_linear_with_vars(same, tolk::call(two_kernels(internal(8)), std::vector<UOp>{out, x}), options)
            .linear;
    BOOST_TEST((list.src(0).src(2) == x));
    BOOST_TEST((list.src(1).src(1) == out));
    BOOST_TEST(list.src(0).src(1).is(Op::SLICE));
  }
  // Of a SINK, what its sources name is the caller's.
  UOp t = internal(8), o = internal(8);
  UOp t1 = state(t, {add_kernel({t, x})});
  UOp list =
      create_linear_with_vars(same, tolk::sink(std::vector<UOp>{state(o, {add_kernel({o, t1})})})).linear;
  BOOST_TEST((list.src(1).src(1) == o));
  BOOST_TEST(list.src(0).src(1).is(Op::SLICE));
}

BOOST_AUTO_TEST_CASE(two_answers_for_one_cached_sink_share_no_temporaries,
                     *boost::unit_test::label("RG-09")) {
  tolk::schedule::clear_schedule_cache();
  UOp x = user(8), t = internal(8), o = user(8);
  UOp t1 = state(t, {add_kernel({t, x})});
  UOp sink = tolk::sink(std::vector<UOp>{state(o, {add_kernel({o, t1})})});
  Counting counting;
  UOp a = create_linear_with_vars(counting.get(), sink).linear,
      b = create_linear_with_vars(counting.get(), sink).linear;
  BOOST_TEST(counting.asked == 1);
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
  auto made = [&](const UOp& call) {
    return create_linear_with_vars(same, tolk::sink(std::vector<UOp>{state(call.src(1), {call})}))
        .linear.src(0);
  };
  for (const UOp& call : {kernel(far, near, {12}, {1}), kernel(far, near, {3, 4}, {4, 1}),
                          kernel(far, near, {3, 4}, {1, 3}), kernel(one_far, one, {}, {})}) {
    UOp copy = made(call);
    BOOST_REQUIRE(copy.src(0).is(Op::COPY));
    BOOST_TEST(tolk::device_text(copy.src(0)) == "CPU:1");
    BOOST_TEST((copy.src(1) == call.src(1)));
    BOOST_TEST((copy.src(2) == call.src(2)));
  }
  // On one device it stays a kernel; on two, whatever is more or less than a copy is refused.
  BOOST_TEST(made(kernel(user(12), near, {12}, {1})).src(0).is(Op::SINK));
  for (const UOp& call : {kernel(far, near, {6}, {1}), kernel(far, near, {6}, {2}),
                          kernel(far, near, {3, 4}, {3, 1}), add_kernel({far, near})})
    THROWS_SAYING(made(call), "all buffers must be on the same device: [CPU:1, CPU]");
  // Values on one tuple are on one device in this sense.
  UOp pair = user(12, "CPU,CPU:1"), other = user(12, "CPU,CPU:1");
  BOOST_TEST(made(add_kernel({pair, other})).src(0).is(Op::SINK));
}

BOOST_AUTO_TEST_CASE(nothing_is_kept_or_captured_when_a_later_step_fails) {
  tolk::schedule::clear_schedule_cache();
  UOp out = user(8), x = user(8, "CPU:1");
  int captured = 0;
  LinearOptions options;
  options.capture = [&](const UOp&, const VarVals&) { return ++captured > 0; };
  UOp root = tolk::call(two_kernels(internal(8)), std::vector<UOp>{out, x});
  BOOST_CHECK_THROW(create_linear_with_vars(same, root, options), tolk::InvalidArgument);
  BOOST_TEST(captured == 0);
  BOOST_TEST(tolk::schedule::schedule_cache_counters().entries == 0u);
}
