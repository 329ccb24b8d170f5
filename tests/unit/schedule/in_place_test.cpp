// Writes to existing storage: hazards inside a store, order between stores and readers. Stores that
// need each other's old contents are in old_contents_test.cpp.
#include <boost/test/unit_test.hpp>

#include "schedule_support.h"
#include "tolk/base/error.h"

using namespace mini;
using namespace support;

namespace {

struct Run {
  host::Memory memory;
  size_t calls = 0;
  std::vector<std::vector<double>> results;
};

// Fills the buffers, runs, and reads the results.
void run(Run& r, const std::vector<T>& roots, const std::vector<std::pair<T, std::vector<double>>>& inputs) {
  for (const auto& [t, v] : inputs) r.memory.fill(storage(t), v);
  auto s = schedule(roots);
  r.calls = s.linear.nsrc();
  BOOST_TEST_INFO(listing(s.linear));
  host::run_linear(s.linear, r.memory, s.vars);
  for (const UOp& result : s.results) r.results.push_back(values(result, r.memory));
}

T in(const Shape& shape) { return buffer(shape, DType::F64); }
using V = std::vector<double>;

} // namespace

BOOST_AUTO_TEST_CASE(elementwise_updates_write_in_place) {
  T a = in({4});
  Run r;
  run(r, {assign(a, a + 1)}, {{a, {1, 2, 3, 4}}});
  BOOST_TEST(r.calls == 1u);
  BOOST_TEST(r.results[0] == (V{2, 3, 4, 5}), boost::test_tools::per_element());
  BOOST_TEST(values(storage(a), r.memory) == (V{2, 3, 4, 5}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_transposed_update_goes_through_a_temporary) {
  T a = in({2, 2});
  Run r;
  run(r, {assign(a, transpose(a) + 1)}, {{a, {1, 2, 3, 4}}});
  BOOST_TEST(r.calls == 2u);
  BOOST_TEST(r.results[0] == (V{2, 4, 3, 5}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_reduction_over_the_target_goes_through_a_temporary) {
  T a = in({2, 2});
  Run r;
  run(r, {assign(a, a + sum(a, {1}, true))}, {{a, {1, 2, 3, 4}}});
  BOOST_TEST(r.results[0] == (V{4, 5, 10, 11}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(parts_that_overlap_go_through_a_temporary_and_others_do_not) {
  T a = in({8});
  Run r;
  run(r, {assign(shrink(a, {2}, {4}), shrink(a, {3}, {4}))}, {{a, ramp(8)}});
  BOOST_TEST(r.calls == 2u);
  BOOST_TEST(values(storage(a), r.memory) == (V{0, 1, 3, 4, 5, 6, 6, 7}), boost::test_tools::per_element());
  Run q;
  run(q, {assign(shrink(a, {0}, {4}), shrink(a, {4}, {4}) + 1)}, {{a, ramp(8)}});
  BOOST_TEST(q.calls == 1u);
  BOOST_TEST(values(storage(a), q.memory) == (V{5, 6, 7, 8, 4, 5, 6, 7}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(strided_targets_are_written_where_they_are) {
  T a = in({6}), b = in({3});
  Run r;
  T every_second = mini::reshape(window(a, 0, 3, 1, 2), {3});
  run(r, {assign(every_second, b * 10.0)}, {{a, ramp(6)}, {b, {1, 2, 3}}});
  BOOST_TEST(r.calls == 1u);
  BOOST_TEST(values(storage(a), r.memory) == (V{10, 1, 20, 3, 30, 5}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(readers_of_the_old_contents_come_first) {
  T a = in({3}), s = a + 5;
  Run r;
  run(r, {assign(a, a + 1), s}, {{a, {1, 2, 3}}});
  BOOST_TEST(r.calls == 2u);
  BOOST_TEST(r.results[0] == (V{2, 3, 4}), boost::test_tools::per_element());
  BOOST_TEST(r.results[1] == (V{6, 7, 8}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(every_reader_sees_the_contents_it_names) {
  T a = in({2});
  T a1 = assign(a, a + 1), first = a1 * 2.0, a2 = assign(a1, a1 + 1), second = a2 * 3.0, old = a * 5.0;
  Run r;
  run(r, {second, first, old, a2}, {{a, {1, 10}}});
  BOOST_TEST(r.results[0] == (V{9, 36}), boost::test_tools::per_element());
  BOOST_TEST(r.results[1] == (V{4, 22}), boost::test_tools::per_element());
  BOOST_TEST(r.results[2] == (V{5, 50}), boost::test_tools::per_element());
  BOOST_TEST(r.results[3] == (V{3, 12}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_swap_through_a_temporary_takes_three_kernels) {
  T a = in({3}), b = in({3}), t = contiguous(a);
  Run r;
  run(r, {assign(a, b), assign(b, t)}, {{a, {1, 2, 3}}, {b, {4, 5, 6}}});
  BOOST_TEST(r.calls == 3u);
  BOOST_TEST(r.results[0] == (V{4, 5, 6}), boost::test_tools::per_element());
  BOOST_TEST(r.results[1] == (V{1, 2, 3}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_write_to_a_view_is_seen_through_the_whole_buffer) {
  T a = in({4});
  UOp buffer = storage(a);
  UOp view = tolk::shrink(buffer, {1}, {2});
  T v = in({2});
  UOp effect = tolk::store_to(view, (v * 2.0).u);
  UOp written = tolk::after(view, std::span(&effect, 1));
  UOp whole = tolk::after(buffer, std::span(&written, 1));
  T after{whole};
  T third = assign(after, after + 100); // supersedes the state that `written` names too
  T reader = T{written} * 3.0;
  Run r;
  run(r, {after * 1.0, reader, third}, {{a, {1, 2, 3, 4}}, {v, {7, 8}}});
  BOOST_TEST(r.results[0] == (V{1, 14, 16, 4}), boost::test_tools::per_element());
  BOOST_TEST(r.results[1] == (V{42, 48}), boost::test_tools::per_element());
  BOOST_TEST(r.results[2] == (V{101, 114, 116, 104}), boost::test_tools::per_element());
}

// Two nodes that name one state, the second of which nothing supersedes: its reader, made after the store
// that ends the state, still runs before it.
BOOST_AUTO_TEST_CASE(states_with_the_same_stores_are_one_state) {
  T a = in({4}), v = in({2});
  UOp buffer = storage(a), view = tolk::shrink(buffer, {1}, {2});
  UOp effect = tolk::store_to(view, (v * 2.0).u);
  T written{tolk::after(view, std::span(&effect, 1))}, whole{tolk::after(buffer, std::span(&effect, 1))};
  T ended = assign(whole, whole + 100);
  for (const std::vector<T>& roots :
       {std::vector<T>{ended, written * 3.0}, std::vector<T>{written * 3.0, ended}}) {
    Run r;
    run(r, roots, {{a, {1, 2, 3, 4}}, {v, {7, 8}}});
    size_t reader = roots[0].u == ended.u;
    BOOST_TEST(r.results[reader] == (V{42, 48}), boost::test_tools::per_element());
    BOOST_TEST(r.results[1 - reader] == (V{101, 114, 116, 104}), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(a_rolling_buffer_shifts_by_one_row_a_step) {
  T image = in({4, 3}), x = in({1, 1, 6, 6}), w1 = in({2, 1, 3, 3}), w2 = in({1, 2, 3, 3});
  T busy = conv2d(relu(conv2d(x, w1, 1)), w2, 1); // keeps the arena in use
  for (bool plan : {true, false}) {
    host::Memory memory;
    memory.fill(storage(image), V(12, 0));
    memory.fill(storage(x), ramp(36)), memory.fill(storage(w1), ramp(18, -9)),
        memory.fill(storage(w2), ramp(18, -9));
    for (int step = 1; step <= 6; ++step) {
      T next = assign(image, concat({shrink(image, {1, 0}, {3, 3}), full({1, 3}, step, DType::F64)}, 0));
      auto o = options();
      o.memory_plan = plan;
      auto s = schedule({next, busy}, o);
      host::run_linear(s.linear, memory);
      V got = values(s.results[0], memory), want;
      for (int row = 0; row < 4; ++row)
        for (int c = 0; c < 3; ++c) want.push_back(std::max(0, step - 3 + row));
      BOOST_TEST(got == want, boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(assigning_to_a_computed_value_is_only_a_value) {
  T a = in({3}), y = a + 1;
  Run r;
  run(r, {assign(y, a * 7.0), y}, {{a, {1, 2, 3}}});
  BOOST_TEST(r.results[0] == (V{7, 14, 21}), boost::test_tools::per_element());
  BOOST_TEST(r.results[1] == (V{2, 3, 4}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(stores_that_change_nothing_vanish) {
  T a = in({3}), none = in({0});
  BOOST_TEST(schedule({assign(a, a)}).linear.nsrc() == 0u);
  BOOST_TEST(schedule({assign(none, none + 1)}).linear.nsrc() == 0u);
}

BOOST_AUTO_TEST_CASE(targets_that_repeat_elements_are_refused) {
  T a = in({1, 3});
  BOOST_CHECK_THROW(schedule({assign(expand(a, {2, 3}), full({2, 3}, 1, DType::F64))}),
                    tolk::InvalidArgument);
  T b = in({5});
  BOOST_CHECK_THROW(schedule({assign(window(b, 0, 4, 2), full({4, 2}, 1, DType::F64))}),
                    tolk::InvalidArgument);
}

BOOST_AUTO_TEST_CASE(a_store_through_a_bitcast_converts_the_value) {
  T a = buffer({2}, DType::I64);
  T as_float{tolk::bitcast(a.u, DType::F64)};
  Run r;
  run(r, {assign(as_float, full({2}, 1.5, DType::F64))}, {{a, {0, 0}}});
  BOOST_TEST(r.results[0] == (V{1.5, 1.5}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_copy_into_existing_storage_needs_no_second_buffer) {
  T x = in({4}), there = buffer({4}, DType::F64, "CPU:1");
  Run r;
  run(r, {assign(there, T{tolk::copy_to((x + 1).u, "CPU:1")})}, {{x, {1, 2, 3, 4}}});
  BOOST_TEST(r.calls == 2u);
  BOOST_TEST(values(storage(there), r.memory) == (V{2, 3, 4, 5}), boost::test_tools::per_element());
  // Into part of it.
  Run q;
  run(q, {assign(shrink(there, {1}, {2}), T{tolk::copy_to(shrink(x, {2}, {2}).u, "CPU:1")})},
      {{x, {1, 2, 3, 4}}, {there, {0, 0, 0, 0}}});
  BOOST_TEST(q.calls == 1u);
  BOOST_TEST(values(storage(there), q.memory) == (V{0, 3, 4, 0}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(slices_of_a_written_buffer_are_seen_to_overlap) {
  // Two handles on one buffer, as realised views leave them.
  UOp buffer = tolk::buffer_node(tolk::fresh_user_slot(), DType::F64, 8, "CPU");
  T low{tolk::slice_node(buffer, DType::F64, 0, 4)}, high{tolk::slice_node(buffer, DType::F64, 16, 4)};
  Run r;
  r.memory.fill(buffer, ramp(8));
  T reader = high * 10.0;
  run(r, {assign(low, high + 1), reader}, {});
  BOOST_TEST(r.results[0] == (V{3, 4, 5, 6}), boost::test_tools::per_element());
  BOOST_TEST(r.results[1] == (V{20, 30, 40, 50}), boost::test_tools::per_element());
  BOOST_TEST(values(buffer, r.memory) == (V{3, 4, 5, 6, 4, 5, 6, 7}), boost::test_tools::per_element());
}
