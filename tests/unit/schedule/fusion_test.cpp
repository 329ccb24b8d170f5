// Where values are stored, and what that costs: kernels' forms in the cases where the decision could go
// either way.
#include <boost/test/unit_test.hpp>

#include "schedule_support.h"
#include "tolk/uop/traverse.h"

using namespace mini;
using namespace support;

namespace {
T in(const Shape& shape, DType dtype = DType::F32) { return buffer(shape, dtype); }
size_t kernels(const std::vector<T>& roots) { return schedule(roots).linear.nsrc(); }
// Elements that all kernels write.
int64_t written(const UOp& linear) {
  int64_t n = 0;
  for (const UOp& call : linear.src()) n += tolk::elements_of(call.src(1));
  return n;
}
} // namespace

BOOST_AUTO_TEST_CASE(an_epilogue_stays_in_the_kernel_of_its_reduction) {
  T y = relu(matmul(in({4, 8}), in({8, 5})) * 0.5 + in({5}));
  // Used twice, with a loop between: stored once, behind the relu.
  auto s = schedule({matmul(y, in({5, 6})), sum(y, {0})});
  BOOST_TEST(s.linear.nsrc() == 3u);
  BOOST_TEST(tolk::print_kernel(s.linear.src(0).src(0)).find("max(reduce_ADD") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_epilogue_with_two_ways_that_meet_again_is_one) {
  T r = matmul(in({4, 8}), in({8, 5}));
  T silu = r / (exp(r * -1.0) + 1);
  auto s = schedule({matmul(silu, in({5, 6}))});
  BOOST_TEST(s.linear.nsrc() == 2u);
  BOOST_TEST(tolk::print_kernel(s.linear.src(0).src(0)).find("exp") != std::string::npos);
  BOOST_TEST(tolk::print_kernel(s.linear.src(1).src(0)).find("exp") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_reduction_is_computed_once_per_element) {
  T r = sum(in({6, 8}), {1});                    // (6)
  BOOST_TEST(kernels({r + flip(r, {0})}) == 2u); // two ways to read it in one kernel
  BOOST_TEST(kernels({expand(mini::reshape(r, {6, 1}), {6, 2}) * in({6, 2})}) ==
             2u); // a loop that its index lacks
  BOOST_TEST(kernels({mini::reshape(expand(mini::reshape(r, {6, 1}), {6, 2}), {12}) * in({12})}) ==
             2u);                                         // the same, folded into one loop
  BOOST_TEST(kernels({window(r, 0, 4, 3) * 2.0}) == 2u);  // windows overlap
  BOOST_TEST(kernels({r * 2.0, r * 3.0}) == 3u);          // two kernels
  BOOST_TEST(kernels({shrink(r, {0}, {2}) * 2.0}) == 1u); // part of it, once
  BOOST_TEST(kernels({flip(permute(sum(in({3, 4, 5}), {2}), {1, 0}), {0}) * 2.0}) == 1u);
  BOOST_TEST(kernels({r * r + r}) == 1u);
  // Padded by much, most of it would be computed for nothing; by little, it is not worth a kernel.
  BOOST_TEST(kernels({pad(r, {6}, {0}) + in({12})}) == 2u);
  BOOST_TEST(kernels({pad(sum(in({60, 8}), {1}), {1}, {1}) + in({62})}) == 1u);
}

BOOST_AUTO_TEST_CASE(reductions_of_storage_nest_when_each_element_is_needed_once) {
  BOOST_TEST(kernels({max(sum(in({3, 4, 5}), {2}), {1})}) == 1u);
  BOOST_TEST(kernels({sum(exp(sum(in({3, 4, 5}), {2})), {1})}) == 1u);
}

BOOST_AUTO_TEST_CASE(a_large_contraction_has_a_kernel_of_its_own) {
  T x = in({1, 16, 16, 16}), y = in({1, 8, 16, 16});
  T a = conv2d(x, in({32, 16, 1, 1})) + in({32, 1, 1}), b = conv2d(y, in({32, 8, 3, 3}), 1) * in({32, 1, 1});
  auto s = schedule({relu(a + b)});
  BOOST_TEST(s.linear.nsrc() == 2u);
  for (const UOp& call : s.linear.src()) {
    int reductions = 0;
    for (const UOp& u : tolk::toposort(call.src(0))) reductions += u.is(Op::REDUCE);
    BOOST_TEST(reductions == 1);
  }
  // The scale or bias of the one that was cut stays with it.
  BOOST_TEST(s.linear.src(0).nsrc() - 1 >= 4u);
  BOOST_TEST(kernels({mean(relu(a), {2, 3})}) == 2u);
  // Small ones may share.
  BOOST_TEST(kernels({matmul(in({4, 8}), in({8, 5})) + matmul(in({4, 3}), in({3, 5}))}) == 1u);
}

BOOST_AUTO_TEST_CASE(cheap_values_are_computed_again) {
  T x = in({64, 64}), y = x * 2.0 + 1;
  BOOST_TEST(kernels({sum(y, {0}), sum(y, {1}), y * y}) == 3u);
  BOOST_TEST(kernels({conv2d(relu(in({1, 2, 8, 8})), in({4, 2, 3, 3}), 1)}) == 1u);
}

BOOST_AUTO_TEST_CASE(costly_values_are_stored_when_a_loop_repeats_them_often) {
  // The exponentials of a large attention: once per score, and not once per score and channel.
  T q = in({8, 256, 64}), k = in({8, 256, 64}), v = in({8, 256, 64});
  BOOST_TEST(kernels({attention(q, k, v)}) == 5u);
  // What is normalised before a large product.
  T normal = layer_norm(in({128, 256})) * in({256}) + in({256});
  auto s = schedule({matmul(normal, in({256, 512}))});
  BOOST_TEST(s.linear.nsrc() == 4u);
  // Small work is not worth a kernel.
  BOOST_TEST(kernels({attention(in({8, 8, 4}), in({8, 8, 4}), in({8, 8, 4}))}) == 4u);
  // Broadcasting along the innermost loop repeats nothing.
  BOOST_TEST(kernels({exp(in({512, 1})) * in({512, 2048})}) == 1u);
}

BOOST_AUTO_TEST_CASE(what_the_user_stores_is_used_by_all) {
  T x = in({8, 8}), y = exp(x * 0.5), stored = contiguous(y);
  auto s = schedule({sum(stored, {0}), sum(y, {1})});
  BOOST_TEST(s.linear.nsrc() == 3u);
  BOOST_TEST(tolk::print_kernel(s.linear.src(2).src(0)).find("exp") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_stored_reshape_keeps_the_loops_of_what_it_reshapes) {
  auto s = schedule({contiguous(mini::reshape(in({4, 6}) + in({4, 1}), {24}))});
  BOOST_TEST(s.linear.nsrc() == 1u);
  BOOST_TEST(listing(s.linear) == "p0[L0*6+L1] = p1[L0*6+L1]+p2[L0]   END(L0:4, L1:6)\n");
}

BOOST_AUTO_TEST_CASE(a_pad_and_its_load_share_one_gate) {
  T x = in({4});
  BOOST_TEST(listing(schedule({pad(x, {1}, {1}) + 1}).linear).find("where") == std::string::npos);
  BOOST_TEST(listing(schedule({pad(cast(x, DType::F64), {1}, {1})}).linear).find("where") ==
             std::string::npos);
  BOOST_TEST(listing(schedule({pad(pad(x, {1}, {1}), {2}, {0}) + 1}).linear) ==
             "p0[L0] = p1[L0+-3 gated 2<L0&(L0<7)]+1   END(L0:8)\n");
  // A pad that is cut away again leaves nothing.
  BOOST_TEST(listing(schedule({shrink(pad(x, {3}, {3}), {3}, {4}) + 1}).linear) ==
             "p0[L0] = p1[L0]+1   END(L0:4)\n");
  // Only zeros are left.
  BOOST_TEST(listing(schedule({shrink(pad(x, {3}, {3}), {0}, {3}) + 1}).linear) ==
             "p0[L0] = 0+1   END(L0:3)\n");
}

BOOST_AUTO_TEST_CASE(gathered_positions_gate_what_they_read) {
  T x = in({6}), i = in({3}, DType::I32), u = in({3}, DType::U8);
  BOOST_TEST(listing(schedule({gather(x, u, 0)}).linear) ==
             "p0[L0] = p1[index(p2[L0]) gated index(p2[L0])<6]   END(L0:3)\n");
  // Positions that are known to be inside need no test.
  T known = arange(3, DType::I32) + 2;
  std::string text = listing(schedule({gather(x, known, 0)}).linear);
  BOOST_TEST(text.find("gated") == std::string::npos);
  BOOST_TEST(listing(schedule({gather(exp(x), i, 0)}).linear).find("where(-1<") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(loops_of_size_one_do_not_exist) {
  auto s = schedule({sum(in({1, 4, 1}) + in({1, 4, 1}), {2}), sum(in({1, 1}))});
  for (const UOp& call : s.linear.src())
    for (const UOp& u : tolk::toposort(call.src(0)))
      if (u.is(Op::RANGE)) BOOST_TEST(u.vmax() > 0);
}

BOOST_AUTO_TEST_CASE(equal_layers_have_equal_kernels) {
  auto layer = [](const T& x) { return relu(conv2d(x, in({4, 4, 3, 3}), 1) + in({4, 1, 1})); };
  T x = in({1, 4, 6, 6});
  auto s = schedule({layer(layer(layer(x)))});
  BOOST_REQUIRE_EQUAL(s.linear.nsrc(), 3u);
  BOOST_TEST((s.linear.src(0).src(0) == s.linear.src(1).src(0)));
  BOOST_TEST((s.linear.src(1).src(0) == s.linear.src(2).src(0)));
}

BOOST_AUTO_TEST_CASE(axis_numbers_count_result_loops_then_reductions_from_zero) {
  auto s = schedule({matmul(in({4, 8}), in({8, 5}))});
  BOOST_TEST(listing(s.linear) ==
             "p0[L0*5+L1] = reduce_ADD(p1[L0*8+R2]*p2[L1+R2*5]; R2:8)   END(L0:4, L1:5)\n");
}

BOOST_AUTO_TEST_CASE(a_diamond_keeps_its_order) {
  T a = contiguous(exp(in({4}))), b = contiguous(a + 1), c = contiguous(a * 2.0), d = b + c;
  auto s = schedule({d});
  BOOST_REQUIRE_EQUAL(s.linear.nsrc(), 4u);
  UOp first = s.linear.src(0).src(1);
  BOOST_TEST((s.linear.src(1).src(2) == first));
  BOOST_TEST((s.linear.src(2).src(2) == first));
  BOOST_TEST((s.linear.src(3).src(2) == s.linear.src(1).src(1)));
}

BOOST_AUTO_TEST_CASE(only_what_is_needed_is_written) {
  T x = in({4, 8});
  BOOST_TEST(written(schedule({softmax(x)}).linear) == 4 + 4 + 32);
  BOOST_TEST(written(schedule({layer_norm(x)}).linear) == 4 + 4 + 32);
}
