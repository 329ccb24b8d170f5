// The acceptance rows of memory planning. Whatever a plan does, no two values that are needed at the same
// time may share a byte: every plan here is held against the calls by a check of its own.
#include <boost/test/unit_test.hpp>
#include <map>
#include <set>

#include "graph_kernels.h"
#include "schedule_support.h"
#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/schedule/memory/memory_plan.h"

using namespace mini;
using namespace support;
using tolk::schedule::inline_slice_calls;
using tolk::schedule::MemoryPlanStats;
using tolk::schedule::plan_memory;
using tolk::schedule::ViewLimits;

namespace {

// Calls as lists of numbers of buffers: the first is written from the others. What is read before it was
// written is the user's; a program of numbers, as the rows have them.
using Program = std::vector<std::vector<int>>;

struct Planned {
  UOp linear;
  MemoryPlanStats stats;
  std::map<int, UOp> buffers, places; // by number; places of those that were planned
};

UOp linear_of(const Program& program, std::map<int, UOp>& buffers, const std::map<int, int64_t>& elements) {
  std::vector<UOp> calls;
  for (const std::vector<int>& line : program) {
    std::vector<UOp> arguments;
    for (int n : line) {
      UOp& b = buffers[n];
      auto size = elements.find(n);
      if (!b) b = internal(size == elements.end() ? 64 : size->second);
      arguments.push_back(b);
    }
    calls.push_back(add_kernel(arguments));
  }
  return tolk::linear(calls);
}

int64_t bytes_of(const UOp& u) {
  return int64_t(tolk::storage_bytes(u.dtype(), uint64_t(tolk::elements_of(u))));
}

// The check: a live value is from its first call to its last, whether they name all of it or a part. Places
// of two such do not meet in bytes.
void no_overlap(const UOp& plain, const UOp& planned) {
  struct Live {
    UOp arena; // null: it stayed where it was
    int64_t begin, bytes;
    size_t first, last;
  };
  std::map<int64_t, Live> live; // by slot of the buffer
  for (size_t i = 0; i < plain.nsrc(); ++i)
    for (size_t k = 1; k < plain.src(i).nsrc(); ++k) {
      UOp was = plain.src(i).src(k), is = planned.src(i).src(k);
      UOp whole = was.is(Op::SLICE) ? was.src(0) : was;
      BOOST_REQUIRE(whole.is(Op::BUFFER));
      if (tolk::slot_of(whole) >= 0) {
        BOOST_TEST((was == is)); // a user's
        continue;
      }
      Live now{{}, 0, bytes_of(whole), i, i};
      if (was != is) {
        BOOST_REQUIRE(is.is(Op::SLICE));
        now.arena = is.src(0), now.begin = is.arg().i(0) - (was.is(Op::SLICE) ? was.arg().i(0) : 0);
        BOOST_REQUIRE(now.arena.is(Op::BUFFER));
        BOOST_TEST((is.dtype() == was.dtype()));
        BOOST_TEST(tolk::elements_of(is) == tolk::elements_of(was));
        BOOST_TEST(now.begin % 256 == 0);
        BOOST_TEST((now.begin >= 0 && now.begin + now.bytes <= bytes_of(now.arena)));
      }
      Live& l = live.try_emplace(tolk::slot_of(whole), now).first->second;
      BOOST_TEST((l.arena == now.arena && l.begin == now.begin)); // the same place at every use
      l.last = i;
    }
  for (auto& [a, x] : live)
    for (auto& [b, y] : live) {
      if (a >= b || !x.arena || x.arena != y.arena || x.last < y.first || y.last < x.first) continue;
      BOOST_TEST((x.begin + x.bytes <= y.begin || y.begin + y.bytes <= x.begin),
                 "buffers " << a << " and " << b << " overlap");
    }
}

Planned plan(const Program& program, const std::set<int>& pins = {},
             const std::map<int, int64_t>& elements = {}) {
  Planned out;
  UOp plain = linear_of(program, out.buffers, elements);
  std::vector<UOp> held;
  for (int n : pins) held.push_back(out.buffers[n]);
  out.linear = plan_memory(plain, held, &out.stats);
  if (out.linear != plain) no_overlap(plain, out.linear);
  for (size_t i = 0; i < program.size(); ++i)
    for (size_t k = 0; k < program[i].size(); ++k)
      if (UOp u = out.linear.src(i).src(k + 1); u.is(Op::SLICE)) out.places[program[i][k]] = u;
  return out;
}

// [0 1 2][1 2 3][4 3][5 2]: the lists name what a call touches; 1, 2 and 3 are first read, so the user's. To
// have them planned, they are written first.
const Program kSimple{{1}, {2}, {3}, {0, 1, 2}, {1, 2, 3}, {4, 3}, {5, 2}};

template <typename F> auto with_setting(int64_t tolk::Config::* field, int64_t value, F f) {
  tolk::Config c = tolk::Config::current();
  c.*field = value;
  tolk::ScopedConfig scope(c);
  return f();
}

} // namespace

BOOST_AUTO_TEST_CASE(a_simple_plan_has_no_overlap, *boost::unit_test::label("MP-01")) {
  Planned p = plan(kSimple);
  BOOST_TEST(p.places.size() == 6u);
  BOOST_TEST(p.stats.buffers == 6u);
  // At most four are alive at once.
  BOOST_TEST(p.stats.bytes_after <= 4 * 256);
  // As the row lists it, without the writes before: what is read first has its contents from elsewhere.
  Planned raw = plan({{0, 1, 2}, {1, 2, 3}, {4, 3}, {5, 2}});
  BOOST_TEST(raw.places.contains(0));
  BOOST_TEST(!raw.places.contains(2));
}

BOOST_AUTO_TEST_CASE(pinned_buffers_are_never_planned,
                     *boost::unit_test::label("MP-02") * boost::unit_test::label("S-17")) {
  Planned p = plan(kSimple, {0, 2});
  BOOST_TEST(!p.places.contains(0));
  BOOST_TEST(!p.places.contains(2));
  BOOST_TEST(p.places.contains(1)); // of equal shape, but not the pinned node
  BOOST_TEST(p.places.contains(5));
  std::map<int, UOp> buffers;
  UOp plain = linear_of(kSimple, buffers, {});
  std::vector<UOp> all;
  for (auto& [n, b] : buffers) all.push_back(b);
  BOOST_TEST((plan_memory(plain, all) == plain));
}

BOOST_AUTO_TEST_CASE(views_of_one_buffer_live_and_move_together, *boost::unit_test::label("MP-03")) {
  UOp x = user(64);
  auto part = [](const UOp& b, int64_t offset, int64_t elements, DType as = DType::F32) {
    return tolk::slice_node(b, as, offset, elements);
  };
  // Whole written, parts read; parts written one by one, the whole read; parts from parts,
  // and the same as another dtype.
  UOp a = internal(64), b = internal(64), c = internal(64), d = internal(64), e = internal(64);
  std::vector<std::vector<UOp>> variants{
      {add_kernel({a, x}), add_kernel({b, part(a, 0, 32)}), add_kernel({c, part(a, 128, 32), b}),
       add_kernel({x, c})},
      {add_kernel({part(a, 0, 32), x}), add_kernel({part(a, 128, 32), x}), add_kernel({b, a}),
       add_kernel({c, b, part(a, 64, 16)}), add_kernel({x, c})},
      {add_kernel({d, x}), add_kernel({e, d}), add_kernel({part(e, 0, 16), part(e, 128, 16)}),
       add_kernel({x, e})},
      {add_kernel({d, x}), add_kernel({e, d}),
       add_kernel({part(e, 0, 16, DType::I32), part(e, 128, 16, DType::I32)}),
       add_kernel({c, part(e, 0, 16)}), add_kernel({x, c})}};
  for (const std::vector<UOp>& calls : variants) {
    UOp plain = tolk::linear(calls), planned = plan_memory(plain);
    no_overlap(plain, planned);
    for (size_t i = 0; i < calls.size(); ++i)
      for (size_t k = 1; k < calls[i].nsrc(); ++k) {
        UOp was = calls[i].src(k), is = planned.src(i).src(k);
        if (!was.is(Op::SLICE)) continue;
        BOOST_TEST(is.is(Op::SLICE));
        BOOST_TEST(is.src(0).is(Op::BUFFER)); // one part of the arena, not a part of a part
        BOOST_TEST(tolk::elements_of(is) == tolk::elements_of(was));
      }
    host::Memory before, after;
    before.fill(x, ramp(64, 1)), after.fill(x, ramp(64, 1));
    host::run_linear(plain, before), host::run_linear(planned, after);
    BOOST_TEST(values(x, before) == values(x, after), boost::test_tools::per_element());
  }
}

// An offset that is known only when it runs may be anywhere in the buffer.
BOOST_AUTO_TEST_CASE(parts_at_open_offsets_move_with_the_whole) {
  UOp x = user(64), a = internal(64), b = internal(64), n = tolk::variable("n", 0, 12);
  UOp open = tolk::make(Op::SLICE, DType::F32, {a, n * 4}, tolk::Arg({8, 16}, {}));
  UOp plain = tolk::linear(std::vector<UOp>{add_kernel({b, x}), add_kernel({a, b}), add_kernel({x, open})});
  UOp planned = plan_memory(plain);
  UOp whole = planned.src(1).src(1), moved = planned.src(2).src(2);
  BOOST_REQUIRE(whole.is(Op::SLICE));
  BOOST_TEST((moved.src(0) == whole.src(0)));
  BOOST_TEST((moved.src(1) == open.src(1)));
  BOOST_TEST(moved.arg().i(0) == whole.arg().i(0) + 8);
  BOOST_TEST(tolk::elements_of(moved) == 16);
  // Written there alone, the rest is from elsewhere.
  plain = tolk::linear(std::vector<UOp>{add_kernel({open, x}), add_kernel({x, a})});
  BOOST_TEST((plan_memory(plain) == plain));
}

BOOST_AUTO_TEST_CASE(small_and_different_sizes, *boost::unit_test::label("MP-04")) {
  Planned p = plan({{0}, {1, 0}, {2, 1, 0}, {3, 2}}, {}, {{0, 8}, {1, 1}, {2, 3}, {3, 700}});
  BOOST_TEST(p.places.size() == 4u);
  BOOST_TEST(p.stats.bytes_before == 32 + 4 + 12 + 2800);
  // The row's sizes: 32, 4 and 6 bytes, all alive at once.
  UOp x = user(8), a = internal(8), b = internal(1), c = internal(6, "CPU", DType::I8);
  MemoryPlanStats stats;
  UOp plain = tolk::linear(std::vector<UOp>{add_kernel({a, x}), add_kernel({b, a}),
                                            opaque_kernel({c, b}, "c"), opaque_kernel({x, a, b, c}, "x")}),
      planned = plan_memory(plain, {}, &stats);
  no_overlap(plain, planned);
  BOOST_TEST(stats.buffers == 3u);
  BOOST_TEST(stats.bytes_before == 32 + 4 + 6);
  BOOST_TEST(planned.src(2).src(1).is(Op::SLICE));
}

BOOST_AUTO_TEST_CASE(huge_sizes_are_planned_until_sums_leave_63_bits, *boost::unit_test::label("MP-05")) {
  UOp x = user(1);
  UOp big = internal(int64_t(1) << 45, "CPU", DType::I8), small = internal(4);
  UOp planned = plan_memory(
      tolk::linear(std::vector<UOp>{opaque_kernel({big, x}, "a"), opaque_kernel({small, big}, "b")}));
  BOOST_TEST(planned.src(0).src(1).is(Op::SLICE));
  BOOST_TEST(tolk::elements_of(planned.src(0).src(1).src(0)) >= int64_t(1) << 45);
  std::vector<UOp> calls;
  for (int i = 0; i < 3; ++i)
    calls.push_back(opaque_kernel({internal(int64_t(1) << 62, "CPU", DType::I8), x}, "k"));
  BOOST_CHECK_EXCEPTION(plan_memory(tolk::linear(calls)), tolk::InvalidArgument,
                        [](const tolk::InvalidArgument& e) {
                          return std::string(e.what()).find("too large") != std::string::npos;
                        });
}

BOOST_AUTO_TEST_CASE(copies_have_an_arena_of_their_own, *boost::unit_test::label("MP-06") *
                                                            boost::unit_test::label("MP-07") *
                                                            boost::unit_test::label("MP-08")) {
  UOp x = user(64);
  // 1 is a copy of 0, 2 is computed from 1.
  UOp zero = internal(64), one = internal(64), two = internal(64), three = internal(64);
  UOp planned = plan_memory(
      tolk::linear(std::vector<UOp>{add_kernel({zero, x}), copy_call(one, zero), add_kernel({two, one}),
                                    add_kernel({three, two}), add_kernel({x, three})}));
  auto arena = [](const UOp& u) { return u.src(0); };
  UOp p0 = planned.src(0).src(1), p1 = planned.src(1).src(1), p2 = planned.src(2).src(1),
      p3 = planned.src(3).src(1);
  BOOST_TEST((arena(p1) != arena(p2))); // MP-06
  BOOST_TEST((arena(p2) == arena(p3))); // MP-07: computed ones share,
  BOOST_TEST((arena(p0) == arena(p1))); // and both sides of copies do
  // MP-08: the source of a copy beside what is only computed.
  UOp a = internal(64), b = internal(64), c = internal(64);
  planned = plan_memory(tolk::linear(
      std::vector<UOp>{add_kernel({a, x}), add_kernel({b, a}), copy_call(c, b), add_kernel({x, a, c})}));
  BOOST_TEST((arena(planned.src(0).src(1)) != arena(planned.src(2).src(1))));
  BOOST_TEST((arena(planned.src(1).src(1)) == arena(planned.src(2).src(1))));
}

BOOST_AUTO_TEST_CASE(copied_buffers_rest_as_long_as_they_lived, *boost::unit_test::label("MP-09")) {
  std::vector<UOp> calls, staged;
  UOp out = user(64, "CPU:1");
  for (int i = 0; i < 6; ++i) {
    UOp there = internal(64, "CPU:1");
    staged.push_back(there);
    calls.push_back(copy_call(there, user(64)));
    calls.push_back(add_kernel({out, there}));
  }
  UOp planned = plan_memory(tolk::linear(calls));
  int reused = 0;
  for (int i = 0; i < 6; ++i)
    for (int j = i + 1; j < 6; ++j) {
      int last = 2 * i + 1, lifetime = 2, first = 2 * j;
      UOp x = planned.src(size_t(2 * i)).src(1), y = planned.src(size_t(2 * j)).src(1);
      BOOST_REQUIRE((x.is(Op::SLICE) && y.is(Op::SLICE) && x.src(0) == y.src(0)));
      int64_t at_x = x.arg().i(0), at_y = y.arg().i(0);
      bool meet = at_x < at_y + bytes_of(y) && at_y < at_x + bytes_of(x);
      BOOST_TEST((!meet || first >= last + 1 + lifetime));
      reused += meet;
    }
  // It may rest no longer either: every second one lies where the one two before it lay.
  BOOST_TEST(reused == 6);
  BOOST_TEST(bytes_of(planned.src(0).src(1).src(0)) == 2 * 256);
  no_overlap(tolk::linear(calls), planned);
}

BOOST_AUTO_TEST_CASE(a_plan_depends_on_the_calls_alone, *boost::unit_test::label("MP-10")) {
  std::map<int, UOp> buffers, others;
  Program program;
  for (int i = 1; i < 60; ++i)
    program.push_back({i, i - (i > 1), (i * 7) % (i + 1) ? i - (i > 1) : i - (i > 1)});
  program[0] = {1};
  std::map<int, int64_t> sizes;
  for (int i = 1; i < 60; ++i) sizes[i] = 1 + (i * 977) % 1000;
  UOp plain = linear_of(program, buffers, sizes), again = linear_of(program, others, sizes); // other slots
  MemoryPlanStats a, b, c;
  UOp first = plan_memory(plain, {}, &a), second = plan_memory(plain, {}, &b),
      third = plan_memory(again, {}, &c);
  BOOST_TEST(a.bytes_after == b.bytes_after);
  BOOST_TEST(a.bytes_after == c.bytes_after);
  for (size_t i = 0; i < program.size(); ++i)
    for (const UOp& other : {second, third})
      BOOST_TEST((first.src(i).src(1).arg() == other.src(i).src(1).arg()));
}

BOOST_AUTO_TEST_CASE(buffers_deep_inside_arguments_are_replaced_there,
                     *boost::unit_test::label("MP-11") * boost::unit_test::label("S-19")) {
  UOp x0 = user(64), x1 = user(64, "CPU:1"), x = user(64, "CPU,CPU:1");
  UOp left = internal(64), right = internal(64, "CPU:1"), both = internal(64, "CPU,CPU:1"),
      out = user(64, "CPU,CPU:1");
  std::vector<UOp> parts{left, right};
  UOp half = tolk::slice_node(tolk::mselect(both, 1), DType::F32, 128, 32);
  UOp plain = tolk::linear(std::vector<UOp>{add_kernel({left, x0}), add_kernel({right, x1}),
                                            add_kernel({both, tolk::mstack(parts)}), add_kernel({x1, half}),
                                            add_kernel({out, both})});
  MemoryPlanStats stats;
  UOp planned = plan_memory(plain, {}, &stats);
  BOOST_TEST(stats.arenas == 3u); // one for each placement
  UOp l = planned.src(0).src(1), r = planned.src(1).src(1), b = planned.src(2).src(1);
  BOOST_TEST(tolk::device_text(l.src(0)) == "CPU");
  BOOST_TEST(tolk::device_text(r.src(0)) == "CPU:1");
  BOOST_TEST(tolk::device_text(b.src(0)) == "CPU,CPU:1");
  std::vector<UOp> placed{l, r};
  BOOST_TEST((planned.src(2).src(2) == tolk::mstack(placed)));
  UOp moved = planned.src(3).src(2);
  BOOST_TEST(moved.is(Op::SLICE));
  BOOST_TEST((moved.src(0) == tolk::mselect(b, 1)));
  BOOST_TEST(moved.arg().i(0) == 128);
  BOOST_TEST((planned.src(4).src(2) == b));
  host::Memory before, after;
  for (host::Memory* m : {&before, &after}) m->fill(x0, ramp(64)), m->fill(x1, ramp(64, 100));
  host::run_linear(plain, before), host::run_linear(planned, after);
  for (int position : {0, 1}) {
    UOp at = tolk::mselect(out, position);
    BOOST_TEST(before.get(at, 5).f == after.get(at, 5).f);
  }
  BOOST_TEST(before.get(x1, 5).f == after.get(x1, 5).f);
}

BOOST_AUTO_TEST_CASE(devices_without_views_keep_their_buffers, *boost::unit_test::label("MP-12")) {
  tolk::schedule::ViewLimitsTable limits;
  limits["CPU:1"].alignment = 0;
  limits["CPU:2"].alignment = 4096;
  limits["CPU:3"].largest_offset = 255;
  auto planned_on = [&](const std::string& device) {
    UOp x = user(64, device), a = internal(64, device), b = internal(64, device);
    return plan_memory(
        tolk::linear(std::vector<UOp>{add_kernel({a, x}), add_kernel({b, a}), add_kernel({x, a, b})}), {},
        nullptr, limits);
  };
  BOOST_TEST(planned_on("CPU").src(0).src(1).is(Op::SLICE));
  BOOST_TEST(planned_on("CPU:1").src(0).src(1).is(Op::BUFFER));
  // One of a tuple is enough.
  BOOST_TEST(planned_on("CPU,CPU:1").src(0).src(1).is(Op::BUFFER));
  UOp aligned = planned_on("CPU,CPU:2");
  BOOST_TEST(aligned.src(0).src(1).arg().i(0) % 4096 == 0);
  BOOST_TEST(aligned.src(1).src(1).arg().i(0) % 4096 == 0);
  BOOST_TEST((aligned.src(0).src(1).arg().i(0) != aligned.src(1).src(1).arg().i(0)));
  // Beyond what a launch can address there is no place: the second one stays.
  UOp near = planned_on("CPU:3");
  int slices = near.src(0).src(1).is(Op::SLICE) + near.src(1).src(1).is(Op::SLICE);
  BOOST_TEST(slices == 1);
}

BOOST_AUTO_TEST_CASE(what_is_read_before_it_was_written_keeps_its_storage,
                     *boost::unit_test::label("MP-13")) {
  UOp state = internal(64), out = user(64), t = internal(64), halves = internal(64);
  UOp low = tolk::slice_node(halves, DType::F32, 0, 32);
  UOp plain = tolk::linear(std::vector<UOp>{
      add_kernel({t, state}), add_kernel({state, t}), // contents from the run before
      add_kernel({low, t}), add_kernel({out, halves}) // the upper half was written by nobody here
  });
  UOp planned = plan_memory(plain);
  BOOST_TEST((planned.src(0).src(2) == state));
  BOOST_TEST((planned.src(1).src(1) == state));
  BOOST_TEST((planned.src(2).src(1) == low));
  BOOST_TEST((planned.src(3).src(2) == halves));
  BOOST_TEST(planned.src(0).src(1).is(Op::SLICE));
  // A kernel that updates in place reads, too.
  UOp counter = internal(64);
  UOp update = add_kernel({counter, counter});
  UOp load_self = tolk::load(tolk::param_node(0, DType::F32, 64), tolk::index_const(0));
  UOp effect = tolk::store(tolk::param_node(0, DType::F32, 64), tolk::index_const(0), load_self);
  update = tolk::call(tolk::kernel_sink(std::span(&effect, 1)), std::vector<UOp>{counter});
  UOp alone = tolk::linear(std::vector<UOp>{update});
  BOOST_TEST((plan_memory(alone) == alone));
  // A compiled kernel shows the same through the SINK inside it.
  UOp program = tolk::make(Op::PROGRAM, DType::Void, {update.src(0)}, tolk::Arg(0));
  UOp compiled = tolk::linear(std::vector<UOp>{tolk::call(program, std::vector<UOp>{counter})});
  BOOST_TEST((plan_memory(compiled) == compiled));
}

BOOST_AUTO_TEST_CASE(temporaries_are_slices_of_a_byte_arena_and_share_it,
                     *boost::unit_test::label("S-15") * boost::unit_test::label("S-16")) {
  Planned p = plan({{0}, {1, 0}, {2, 1}, {3, 2}, {4, 3}, {5, 4}});
  BOOST_TEST(p.places.size() == 6u);
  UOp arena = p.places.at(0).src(0);
  BOOST_TEST(arena.is(Op::BUFFER));
  BOOST_TEST((arena.dtype() == DType::I8));
  BOOST_TEST(tolk::slot_of(arena) < 0);
  for (auto& [n, place] : p.places) BOOST_TEST((place.src(0) == arena));
  BOOST_TEST(tolk::elements_of(arena) <= 2 * 256);
}

BOOST_AUTO_TEST_CASE(NO_MEMORY_PLANNER_returns_the_same_node,
                     *boost::unit_test::label("S-18") * boost::unit_test::label("E-01")) {
  std::map<int, UOp> buffers;
  UOp plain = linear_of(kSimple, buffers, {});
  with_setting(&tolk::Config::no_memory_planner, 1, [&] {
    MemoryPlanStats stats{1, 2, 3, 4};
    BOOST_TEST((plan_memory(plain, {}, &stats) == plain));
    BOOST_TEST(stats.buffers == 0u);
    // create_schedule asks the same setting, and keeps the two kinds apart.
    auto o = options();
    o.cache = true;
    BOOST_TEST(schedule({softmax(buffer({4, 8}))}, o).linear.src(0).src(1).is(Op::BUFFER));
    return 0;
  });
  BOOST_TEST((plan_memory(plain) != plain));
  auto o = options();
  o.cache = true;
  BOOST_TEST(schedule({softmax(buffer({4, 8}))}, o).linear.src(0).src(1).is(Op::SLICE));
}

BOOST_AUTO_TEST_CASE(slice_calls_are_written_out_unless_their_result_is_held,
                     *boost::unit_test::label("RG-06")) {
  UOp x = user(64), a = internal(64), v = internal(16), w = internal(4), out = user(64);
  UOp plain = tolk::linear(std::vector<UOp>{add_kernel({a, x}), view_call(v, a, 64), view_call(w, v, 16),
                                            add_kernel({out, v, w})});
  UOp inlined = inline_slice_calls(plain);
  BOOST_REQUIRE_EQUAL(inlined.nsrc(), 2u);
  BOOST_TEST((inlined.src(1).src(2) == tolk::slice_node(a, DType::F32, 64, 16)));
  BOOST_TEST((inlined.src(1).src(3) == tolk::slice_node(a, DType::F32, 80, 4)));
  UOp planned = plan_memory(plain);
  BOOST_REQUIRE_EQUAL(planned.nsrc(), 2u);
  UOp place = planned.src(0).src(1);
  BOOST_TEST(
      (planned.src(1).src(2) == tolk::slice_node(place.src(0), DType::F32, place.arg().i(0) + 64, 16)));
  host::Memory memory;
  memory.fill(x, ramp(64, 3));
  host::run_linear(planned, memory);
  BOOST_TEST(values(out, memory)[0] == 1 + 4 + 4.0);
  // Held: the call stays, and what it names lives as long as the name.
  planned = plan_memory(plain, std::span(&v, 1));
  BOOST_REQUIRE_EQUAL(planned.nsrc(), 3u);
  BOOST_TEST((planned.src(1) == plain.src(1)));
  BOOST_TEST((planned.src(0).src(1) == a));
  BOOST_TEST((planned.src(2).src(2) == v));
  BOOST_TEST((planned.src(2).src(3) == tolk::slice_node(v, DType::F32, 16, 4)));
  // A name that is given again means the latest.
  UOp b = internal(64);
  UOp again = inline_slice_calls(
      tolk::linear(std::vector<UOp>{add_kernel({a, x}), add_kernel({b, x}), view_call(v, a, 0),
                                    add_kernel({out, v}), view_call(v, b, 0), add_kernel({out, v})}));
  BOOST_REQUIRE_EQUAL(again.nsrc(), 4u);
  BOOST_TEST((again.src(2).src(2).src(0) == a));
  BOOST_TEST((again.src(3).src(2).src(0) == b));
  // Nothing to do: the same node.
  UOp none = tolk::linear(std::vector<UOp>{add_kernel({a, x})});
  BOOST_TEST((inline_slice_calls(none) == none));
}
