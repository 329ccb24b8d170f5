// What create_schedule hands back: the form of results, of arguments, and what was computed before.
#include <boost/test/unit_test.hpp>
#include <limits>

#include "schedule_support.h"
#include "tolk/base/error.h"
#include "tolk/schedule/tensor/realized.h"
#include "tolk/uop/spec.h"

using namespace mini;
using namespace support;

namespace {
T in(const Shape& shape, DType dtype = DType::F64) { return buffer(shape, dtype); }
using V = std::vector<double>;
} // namespace

BOOST_AUTO_TEST_CASE(a_computed_root_gets_a_fresh_user_buffer_of_its_shape) {
  T x = in({2, 3});
  auto s = schedule({x + 1});
  UOp result = s.results[0];
  BOOST_TEST((tolk::shape_of(result) == Shape{2, 3}));
  UOp buffer = tolk::storage_of(result);
  BOOST_REQUIRE(buffer.is(Op::BUFFER));
  BOOST_TEST(tolk::slot_of(buffer) >= 0);
  BOOST_TEST((buffer != storage(x)));
  BOOST_TEST(!result.in_arena());
  BOOST_TEST((s.linear.src(0).src(1) == buffer));
  auto again = schedule({x + 1});
  BOOST_TEST((tolk::storage_of(again.results[0]) != buffer));
}

BOOST_AUTO_TEST_CASE(views_on_top_of_a_computed_root_stay_views) {
  T x = in({2, 3});
  auto s = schedule({transpose(x + 1), flip(x * 2.0, {0}), expand(sum(x), {4, 5})});
  BOOST_TEST(s.results[0].is(Op::PERMUTE));
  BOOST_TEST(s.results[1].is(Op::FLIP));
  BOOST_TEST(tolk::elements_of(tolk::storage_of(s.results[2])) == 1);
  host::Memory memory;
  memory.fill(storage(x), ramp(6));
  host::run_linear(s.linear, memory);
  BOOST_TEST(values(s.results[0], memory) == (V{1, 4, 2, 5, 3, 6}), boost::test_tools::per_element());
  BOOST_TEST(values(s.results[1], memory) == (V{6, 8, 10, 0, 2, 4}), boost::test_tools::per_element());
  BOOST_TEST(values(s.results[2], memory) == V(20, 15), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_root_that_asks_for_its_order_gets_it) {
  T x = in({2, 3});
  auto s = schedule({contiguous(transpose(x + 1))});
  BOOST_TEST(s.linear.nsrc() == 1u);
  BOOST_TEST(s.results[0].is(Op::RESHAPE));
  BOOST_TEST(s.results[0].src(0).is(Op::BUFFER));
}

BOOST_AUTO_TEST_CASE(dense_views_of_storage_become_slices) {
  T x = in({8});
  auto s = schedule(
      {shrink(x, {2}, {4}), mini::reshape(x, {2, 4}), T{tolk::bitcast(shrink(x, {1}, {2}).u, DType::I64)}});
  BOOST_TEST(s.linear.nsrc() == 0u);
  UOp slice = s.results[0];
  BOOST_REQUIRE(slice.is(Op::SLICE));
  BOOST_TEST(slice.arg().i(0) == 16);
  BOOST_TEST(tolk::elements_of(slice) == 4);
  BOOST_TEST((slice.src(0) == storage(x)));
  BOOST_TEST((s.results[1] == mini::reshape(x, {2, 4}).u));
  BOOST_TEST(
      (s.results[2].is(Op::SLICE) && s.results[2].dtype() == DType::I64 && s.results[2].arg().i(0) == 8));
  // A slice of a slice is one slice.
  auto t = schedule({shrink(T{slice}, {1}, {2})});
  BOOST_REQUIRE(t.results[0].is(Op::SLICE));
  BOOST_TEST(t.results[0].arg().i(0) == 24);
  BOOST_TEST((t.results[0].src(0) == storage(x)));
}

BOOST_AUTO_TEST_CASE(other_views_of_storage_stay_as_they_are) {
  T x = in({4, 4});
  auto s = schedule({transpose(x), shrink(x, {0, 1}, {4, 2})});
  BOOST_TEST(s.linear.nsrc() == 0u);
  BOOST_TEST((s.results[0] == transpose(x).u));
  BOOST_TEST((s.results[1] == shrink(x, {0, 1}, {4, 2}).u));
}

BOOST_AUTO_TEST_CASE(zeros_around_a_view_are_computed) {
  T x = in({2});
  auto s = schedule({pad(x, {1}, {1})});
  BOOST_TEST(s.linear.nsrc() == 1u);
}

BOOST_AUTO_TEST_CASE(equal_roots_share_one_buffer) {
  T x = in({4});
  auto s = schedule({x + 1, x + 1, mini::reshape(x + 1, {2, 2})});
  BOOST_TEST(s.linear.nsrc() == 1u);
  BOOST_TEST((s.results[0] == s.results[1]));
  BOOST_TEST((tolk::storage_of(s.results[2]) == tolk::storage_of(s.results[0])));
}

BOOST_AUTO_TEST_CASE(a_value_that_was_computed_is_read_and_not_computed_again) {
  T x = in({4}), y = exp(x * 0.5), z = y + 1;
  auto first = schedule({y});
  tolk::schedule::set_realized(y.u, first.results[0]);
  BOOST_TEST((tolk::schedule::realized_form(y.u) == first.results[0]));
  auto second = schedule({z, y});
  BOOST_TEST(second.linear.nsrc() == 1u);
  BOOST_TEST((second.linear.src(0).src(2) == tolk::storage_of(first.results[0])));
  BOOST_TEST((second.results[1] == first.results[0]));
  // The link dies with the node, the storage does not need the node.
  UOp kept = first.results[0];
  y = x, z = x;
  BOOST_TEST((tolk::shape_of(kept) == Shape{4}));
}

BOOST_AUTO_TEST_CASE(realised_storage_must_fit_the_value) {
  T x = in({4}), y = x + 1;
  BOOST_CHECK_THROW(tolk::schedule::set_realized(y.u, in({5}).u), tolk::InternalError);
  BOOST_CHECK_THROW(tolk::schedule::set_realized(y.u, in({4}, DType::F32).u), tolk::InternalError);
}

BOOST_AUTO_TEST_CASE(temporaries_have_negative_slots_that_differ_between_schedules) {
  T x = in({4, 4});
  auto o = options();
  o.memory_plan = false;
  o.cache = true;
  std::vector<int64_t> slots;
  for (int i = 0; i < 2; ++i) {
    auto s = schedule({x / sum(x)}, o);
    BOOST_REQUIRE(s.linear.nsrc() == 2u);
    UOp temporary = s.linear.src(0).src(1);
    BOOST_REQUIRE(temporary.is(Op::BUFFER));
    slots.push_back(tolk::slot_of(temporary));
    BOOST_TEST((s.linear.src(1).src(2) == storage(x)));
  }
  BOOST_TEST(slots[0] < 0);
  BOOST_TEST(slots[1] < slots[0]);
}

BOOST_AUTO_TEST_CASE(planned_temporaries_are_slices_of_one_arena) {
  T x = in({4, 8});
  auto s = schedule({softmax(x)});
  BOOST_REQUIRE(s.linear.nsrc() == 3u);
  UOp top = s.linear.src(0).src(1), total = s.linear.src(1).src(1);
  BOOST_REQUIRE(top.is(Op::SLICE) && total.is(Op::SLICE));
  BOOST_TEST((top.src(0) == total.src(0)));
  BOOST_TEST(tolk::slot_of(top.src(0)) < 0);
  BOOST_TEST((top.src(0).dtype() == DType::I8));
  BOOST_TEST((s.linear.src(2).src(1).is(Op::BUFFER)));
}

BOOST_AUTO_TEST_CASE(schedules_pass_the_verifier) {
  T x = in({4, 8}, DType::F32), i = in({3}, DType::I32);
  auto s = schedule({softmax(x), gather(x, i, 0), sum(x), T{tolk::copy_to(x.u, "CPU:1")},
                     assign(x, transpose(mini::reshape(x, {8, 4})))});
  BOOST_CHECK_NO_THROW(tolk::verify(s.linear, tolk::Stage::KernelGraph));
}

BOOST_AUTO_TEST_CASE(values_without_elements_need_no_kernel) {
  T none = in({0, 3});
  auto s = schedule({none + 1, sum(none, {1}), sum(none, {0}), max(none, {0})});
  BOOST_TEST((tolk::shape_of(s.results[0]) == Shape{0, 3}));
  host::Memory memory;
  host::run_linear(s.linear, memory);
  BOOST_TEST(values(s.results[2], memory) == V(3, 0), boost::test_tools::per_element());
  BOOST_TEST(values(s.results[3], memory) == V(3, -std::numeric_limits<double>::infinity()),
             boost::test_tools::per_element());
  T filled = concat({in({2, 3}), none}, 0);
  auto t = schedule({filled});
  BOOST_TEST((tolk::shape_of(t.results[0]) == Shape{2, 3}));
  for (const UOp& call : t.linear.src())
    for (const UOp& argument : call.src().subspan(1)) BOOST_TEST(tolk::elements_of(argument) > 0);
}

BOOST_AUTO_TEST_CASE(values_on_two_devices_do_not_meet) {
  T a = buffer({4}, DType::F32, "CPU"), b = buffer({4}, DType::F32, "CPU:1");
  BOOST_CHECK_EXCEPTION(schedule({a + b}), tolk::InvalidArgument, [](const tolk::InvalidArgument& e) {
    std::string text = e.what();
    return text.find("(4) on CPU and (4) on CPU:1") != std::string::npos;
  });
  auto s = schedule({T{tolk::copy_to(a.u, "CPU:1")} + b});
  BOOST_TEST(s.linear.nsrc() == 2u);
  BOOST_TEST(tolk::device_text(tolk::storage_of(s.results[0])) == "CPU:1");
}

BOOST_AUTO_TEST_CASE(constants_are_computed_where_they_are_used) {
  T b = buffer({4}, DType::F32, "CPU:1");
  T c = contiguous(exp(cast(arange(4), DType::F32)));
  auto s = schedule({c + b});
  for (const UOp& call : s.linear.src())
    for (const UOp& argument : call.src().subspan(1)) {
      UOp base = argument.is(Op::SLICE) ? argument.src(0) : argument;
      BOOST_TEST(tolk::device_text(base) == "CPU:1");
    }
  auto d = schedule({c});
  BOOST_TEST(tolk::device_text(tolk::storage_of(d.results[0])) == "CPU");
  auto moved = schedule({T{tolk::copy_to(exp(cast(arange(4), DType::F32)).u, "CPU:2")}});
  BOOST_TEST(moved.linear.nsrc() == 1u);
  BOOST_TEST(tolk::device_text(tolk::storage_of(moved.results[0])) == "CPU:2");
}
