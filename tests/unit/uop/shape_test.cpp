// Shapes of tensor graphs and the errors of their constructors.
#include <limits>
#include <type_traits>

#include <boost/test/unit_test.hpp>

#include "thrown.h"
#include "tolk/base/error.h"
#include "tolk/uop/build.h"

using namespace tolk;
using tolk::test::contains;
using tolk::test::message_of;

namespace {

UOp tensor(const Shape& shape, DType dtype = DType::F32) {
  return reshape(buffer_node(50, dtype, max_numel(shape), "CPU"), shape);
}
std::string shape_text(const UOp& u) { return to_string(shape_of(u)); }

// The message of the InvalidArgument that `f` throws.
} // namespace

BOOST_AUTO_TEST_CASE(movement_ops_have_the_shapes_they_promise) {
  UOp x = tensor({4, 1, 8});
  BOOST_TEST(shape_text(x) == "(4,1,8)");
  BOOST_TEST(shape_text(reshape(x, {2, 16})) == "(2,16)");
  BOOST_TEST(shape_text(permute(x, {2, 0, 1})) == "(8,4,1)");
  BOOST_TEST(shape_text(expand(x, {4, 5, 8})) == "(4,5,8)");
  BOOST_TEST(shape_text(pad(x, {1, 0, 2}, {0, 3, 1})) == "(5,4,11)");
  BOOST_TEST(shape_text(shrink(x, {1, 0, 2}, {2, 1, 6})) == "(2,1,6)");
  BOOST_TEST(shape_text(flip(x, 4)) == "(4,1,8)");
  BOOST_TEST(shape_text(window(x, 2, 3, 2, 2, 3)) == "(4,1,3,2)");
  BOOST_TEST(shape_text(gather(x, tensor({3, 2}, DType::I32), 0)) == "(3,2,1,8)");
  BOOST_TEST(shape_text(reduce_axis(Op::ADD, x, 5)) == "(1,1,1)");
  BOOST_TEST(shape_text(contiguous(x)) == "(4,1,8)");
  BOOST_TEST(shape_text(copy_to(x, "CPU:1")) == "(4,1,8)");
  BOOST_TEST(shape_text(iota(DType::I32, 7)) == "(7)");
  BOOST_TEST(shape_text(buffer_node(1, DType::F32, 12, "CPU")) == "(12)");
  BOOST_TEST(shape_text(alu(Op::ADD, constant(DType::F32, 1.0), x)) == "(4,1,8)");
  BOOST_TEST(shape_text(constant(DType::F32, 1.0)) == "()");
}

BOOST_AUTO_TEST_CASE(movements_that_change_nothing_are_their_source) {
  UOp x = tensor({4, 1, 8});
  BOOST_TEST((reshape(x, {4, 1, 8}) == x));
  BOOST_TEST((reshape(reshape(x, {32}), {4, 1, 8}) == x));
  BOOST_TEST((permute(x, {0, 1, 2}) == x));
  BOOST_TEST((permute(permute(x, {2, 0, 1}), {1, 2, 0}) == x));
  BOOST_TEST((expand(x, {4, 1, 8}) == x));
  BOOST_TEST((pad(x, {0, 0, 0}, {0, 0, 0}) == x));
  BOOST_TEST((shrink(x, {0, 0, 0}, {4, 1, 8}) == x));
  BOOST_TEST((flip(x, 2) == x));
  BOOST_TEST((reduce_axis(Op::MAX, x, 2) == x));
}

BOOST_AUTO_TEST_CASE(symbolic_sizes_travel_through_shapes) {
  UOp n = variable("n", 1, 16);
  UOp x = reshape(shrink(buffer_node(51, DType::F32, 16 * 8, "CPU"), {0}, {SInt(n) * 8}), {SInt(n), 8});
  BOOST_TEST(shape_text(x) == "(n,8)");
  BOOST_TEST(max_numel(shape_of(x)) == 128);
  BOOST_TEST(shape_text(reduce_axis(Op::ADD, x, 2)) == "(n,1)");
  BOOST_TEST(shape_text(pad(x, {0, 1}, {0, 1})) == "(n,10)");
  BOOST_TEST(shape_of(x)[0].max() == 16);
  BOOST_TEST(!shape_of(x)[0].is_const());
  BOOST_TEST(
      contains(message_of<InvalidArgument>([&] { (void)shape_of(x)[0].value("an export"); }), "an export"));
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused_with_both_shapes) {
  UOp x = tensor({4, 1, 8});
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { reshape(x, {5, 8}); }), "(4,1,8)"));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { reshape(x, {5, 8}); }), "40"));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { reshape(x, {-4, -8}); }), "negative"));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { permute(x, {0, 1}); }), "every axis"));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { permute(x, {0, 1, 1}); }), "every axis"));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { permute(x, {0, 1, 3}); }), "3"));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { expand(x, {5, 1, 8}); }), "(5,1,8)"));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { expand(x, {4, 8}); }), "(4,8)"));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { pad(x, {0, 0, -1}, {0, 0, 0}); }), "negative"));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { pad(x, {0}, {0}); }), "every axis"));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { shrink(x, {0, 0, 4}, {4, 1, 5}); }), "axis 2"));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { shrink(x, {-1, 0, 0}, {4, 1, 8}); }), "axis 0"));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { flip(x, 8); }), "(4,1,8)"));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { window(x, 2, 4, 3, 2, 1); }), "(4,1,8)"));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { window(x, 3, 1, 1, 1, 1); }), "axis 3"));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { window(x, 2, 1, 1, 0, 1); }), "positive"));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { gather(x, tensor({2}), 0); }), "integers"));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { gather(x, tensor({2}, DType::I64), 5); }), "axis 5"));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { reduce_axis(Op::ADD, x, 8); }), "(4,1,8)"));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { bitcast(x, DType::F64); }), "equal width"));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { variable("n", 3, 2); }), "n"));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { bind(variable("n", 1, 2), 3); }), "3"));
  BOOST_CHECK_THROW(numel({int64_t(1) << 40, int64_t(1) << 40}), InvalidArgument);
}

BOOST_AUTO_TEST_CASE(a_size_is_made_of_every_integer_type) {
  auto holds = []<typename... T>(T... values) { return ((SInt(values) == 7 && SInt(7) == values) && ...); };
  BOOST_TEST(
      holds(char(7), int8_t(7), uint8_t(7), short(7), uint16_t(7), 7, 7U, 7L, 7UL, 7LL, 7ULL, size_t(7)));
  static_assert(!std::is_convertible_v<double, SInt> && !std::is_convertible_v<UOp, SInt>);
  size_t n = 4;
  long long m = 2;
  unsigned k = 3;
  BOOST_TEST(to_string(Shape{n, m, k, std::vector<int>(5).size()}) == "(4,2,3,5)");
  BOOST_TEST(((SInt(2) * n + m - k) == 7));
  BOOST_TEST((SInt(-1) != std::numeric_limits<uint64_t>::max()));
  BOOST_TEST((SInt(uint64_t(1) << 62) == int64_t(1) << 62));
  BOOST_TEST(contains(message_of<InvalidArgument>([] { SInt(uint64_t(1) << 63); }), "9223372036854775808"));
  BOOST_TEST(contains(message_of<InvalidArgument>([] { return Shape{std::numeric_limits<size_t>::max()}; }),
                      "2^63 - 1"));
}

BOOST_AUTO_TEST_CASE(sizes_that_overflow_are_refused) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max(), kMin = std::numeric_limits<int64_t>::min();
  BOOST_TEST((SInt(kMax - 1) + SInt(1) == kMax));
  BOOST_TEST((SInt(kMin + 1) - SInt(1) == kMin));
  BOOST_TEST((floordiv(SInt(kMin + 1), SInt(-1)) == kMax));
  BOOST_TEST(
      contains(message_of<InvalidArgument>([] { return SInt(kMax) + SInt(1); }), "9223372036854775807 + 1"));
  BOOST_TEST(contains(message_of<InvalidArgument>([] { return SInt(kMin) - SInt(1); }), "overflows 64 bits"));
  BOOST_TEST(
      contains(message_of<InvalidArgument>([] { return SInt(kMax) * SInt(2); }), "9223372036854775807 * 2"));
  BOOST_TEST(contains(message_of<InvalidArgument>([] { return floordiv(SInt(kMin), SInt(-1)); }), "/ -1"));
  // A pad that no buffer can hold.
  BOOST_TEST(contains(message_of<InvalidArgument>([] { return shape_of(pad(tensor({8}), {kMax}, {0})); }),
                      "overflows 64 bits"));
}

BOOST_AUTO_TEST_CASE(a_window_may_end_exactly_at_the_edge) {
  UOp x = tensor({8});
  BOOST_TEST(shape_text(window(x, 0, 3, 4, 2, 1)) == "(3,4)"); // last element 2*2 + 3 = 7
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { window(x, 0, 3, 5, 2, 1); }), "leaves"));
}
