// The worked examples of the design, kernel by kernel: the index forms are those of its chapter 10, with
// loops numbered from 0 and operands in canonical order.
#include <boost/test/unit_test.hpp>

#include "programs.h"
#include "tolk/uop/print.h"

using namespace mini;

namespace {

std::string kernels(const T& root) {
  auto s = programs::schedule({root});
  std::string text;
  for (const UOp& call : s.linear.src()) text += tolk::print_kernel(call.src(0));
  return text;
}

T in(const Shape& shape, DType dtype = DType::F32) { return buffer(shape, dtype); }

} // namespace

#define SAME(root, ...) BOOST_CHECK_EQUAL(kernels(root), std::string(__VA_ARGS__))

BOOST_AUTO_TEST_SUITE(kernel_forms)

BOOST_AUTO_TEST_CASE(sum_of_a_product) {
  SAME(sum(in({4, 8}) * in({4, 8}), {1}), "p0[L0] = reduce_ADD(p1[L0*8+R1]*p2[L0*8+R1]; R1:8)   END(L0:4)\n");
}

BOOST_AUTO_TEST_CASE(softmax_in_three) {
  SAME(softmax(in({4, 8})), "p0[L0] = reduce_MAX(p1[L0*8+R1]; R1:8)   END(L0:4)\n"
                            "p0[L0] = reduce_ADD(exp(p1[L0*8+R1]-p2[L0]); R1:8)   END(L0:4)\n"
                            "p0[L0*8+L1] = exp(p1[L0*8+L1]-p2[L0])/p3[L0]   END(L0:4, L1:8)\n");
}

BOOST_AUTO_TEST_CASE(layernorm_in_three) {
  SAME(layer_norm(in({4, 8}), 0.5),
       "p0[L0] = reduce_ADD(p1[L0*8+R1]; R1:8)*0.125   END(L0:4)\n"
       "p0[L0] = sqrt(reduce_ADD((p1[L0*8+R1]-p2[L0])*(p1[L0*8+R1]-p2[L0]); R1:8)*0.125+0.5)   END(L0:4)\n"
       "p0[L0*8+L1] = (p1[L0*8+L1]-p2[L0])/p3[L0]   END(L0:4, L1:8)\n");
}

BOOST_AUTO_TEST_CASE(matmul_in_one) {
  SAME(matmul(in({4, 8}), in({8, 5})),
       "p0[L0*5+L1] = reduce_ADD(p1[L0*8+R2]*p2[L1+R2*5]; R2:8)   END(L0:4, L1:5)\n");
}

BOOST_AUTO_TEST_CASE(convolution_with_padding_is_one_gated_read) {
  SAME(conv2d(in({1, 2, 5, 5}), in({3, 2, 3, 3}), 1),
       "p0[L0*25+L1*5+L2] = reduce_ADD(p1[L1*5+L2+R3*25+R4*5+R5+-6 gated "
       "0<L1+R4&(0<L2+R5)&(L1+R4<6)&(L2+R5<6)]*p2[L0*18+R3*9+R4*3+R5]; R3:2 R4:3 R5:3)   END(L0:3, L1:5, "
       "L2:5)\n");
}

BOOST_AUTO_TEST_CASE(convolution_with_stride_divides_nothing) {
  SAME(conv2d(in({1, 2, 7, 7}), in({3, 2, 3, 3}), 0, 2),
       "p0[L0*9+L1*3+L2] = reduce_ADD(p1[L1*14+L2*2+R3*49+R4*7+R5]*p2[L0*18+R3*9+R4*3+R5]; "
       "R3:2 R4:3 R5:3)   END(L0:3, L1:3, L2:3)\n");
}

BOOST_AUTO_TEST_CASE(pad_of_exp_and_exp_of_pad) {
  SAME(pad(exp(in({4})), {1}, {1}),
       "p0[L0] = where(0<L0&(L0<5), exp(p1[L0+-1 gated 0<L0&(L0<5)]), 0)   END(L0:6)\n");
  SAME(exp(pad(in({4}), {1}, {1})), "p0[L0] = exp(p1[L0+-1 gated 0<L0&(L0<5)])   END(L0:6)\n");
}

BOOST_AUTO_TEST_CASE(stack_reads_each_source_where_it_is) {
  SAME(stack({in({4, 4}), in({4, 4})}), "p0[L0*16+L1*4+L2] = p1[L1*4+L2 gated L0<1]+p2[L1*4+L2 gated 0<L0]   "
                                        "END(L0:2, L1:4, L2:4)\n");
}

BOOST_AUTO_TEST_CASE(reshape_between_permutes) {
  SAME(contiguous(mini::reshape(permute(mini::reshape(in({4, 6}), {2, 2, 6}), {1, 0, 2}), {4, 6})),
       "p0[L0*6+L1] = p1[L1+L0//2*6+L0%2*12]   END(L0:4, L1:6)\n");
}

BOOST_AUTO_TEST_CASE(cumulative_sum_is_a_gated_window) {
  SAME(cumsum(in({8})), "p0[L0] = reduce_ADD(p1[L0+R1+-7 gated 6<L0+R1]; R1:8)   END(L0:8)\n");
}

BOOST_AUTO_TEST_CASE(positions_are_loops) {
  SAME(arange(10), "p0[L0] = i32(L0)   END(L0:10)\n");
  SAME(one_hot(in({5}, DType::I32), 10), "p0[L0*10+L1] = i32(p1[L0]==i32(L1))   END(L0:5, L1:10)\n");
}

BOOST_AUTO_TEST_CASE(gather_wraps_once_and_reads_nothing_outside) {
  std::string i = "where(index(p2[L0])<0, index(p2[L0])+100, index(p2[L0]))";
  SAME(gather(in({100, 16}), in({5}, DType::I32), 0),
       "p0[L0*16+L1] = p1[" + i + "*16+L1 gated -1<" + i + "&(" + i + "<100)]   END(L0:5, L1:16)\n");
}

BOOST_AUTO_TEST_CASE(a_store_that_reads_its_target_permuted_goes_over_a_temporary) {
  T a = in({4, 4}), v = in({4});
  SAME(assign(a, transpose(a) + 1), "p0[L0*4+L1] = p1[L0+L1*4]+1   END(L0:4, L1:4)\n"
                                    "p0[L0*4+L1] = p1[L0*4+L1]   END(L0:4, L1:4)\n");
  SAME(assign(shrink(v, {2}, {2}), in({2})), "p0[L0+2] = p1[L0]   END(L0:2)\n");
}

BOOST_AUTO_TEST_CASE(part_of_a_symbolic_axis) {
  UOp i = tolk::variable("i", 1, 10);
  T x = in({10, 4});
  SAME(sum(shrink(x, {0, 0}, {SInt(tolk::bind(i, 5)), 4}), {0}),
       "p0[L0] = reduce_ADD(p1[L0+R1*4]; R1:i)   END(L0:4)\n");
}

BOOST_AUTO_TEST_CASE(a_sum_of_a_sum_is_one_kernel_with_two_ranges) {
  SAME(sum(sum(in({3, 8, 16}), {2}), {1}),
       "p0[L0] = reduce_ADD(reduce_ADD(p1[L0*128+R1*16+R2]; R2:16); R1:8)   END(L0:3)\n");
}

BOOST_AUTO_TEST_CASE(attention_is_four_kernels) {
  SAME(attention(in({6, 4}), in({6, 4}), in({6, 4})),
       "p0[L0*6+L1] = reduce_ADD(p1[L0*4+R2]*p2[L1*4+R2]; R2:4)*0.5   END(L0:6, L1:6)\n"
       "p0[L0] = reduce_MAX(p1[L0*6+R1]; R1:6)   END(L0:6)\n"
       "p0[L0] = reduce_ADD(exp(p1[L0*6+R1]-p2[L0]); R1:6)   END(L0:6)\n"
       "p0[L0*4+L1] = reduce_ADD(exp(p1[L0*6+R2]-p2[L0])/p3[L0]*p4[L1+R2*4]; R2:6)   END(L0:6, L1:4)\n");
}

BOOST_AUTO_TEST_CASE(argmax_takes_the_first) {
  SAME(argmax(in({4, 8})),
       "p0[L0] = reduce_MAX(p1[L0*8+R1]; R1:8)   END(L0:4)\n"
       "p0[L0] = i32(8)-reduce_MAX(i32(p1[L0*8+R1]==p2[L0])*(i32(8)-i32(R1)); R1:8)   END(L0:4)\n");
}

BOOST_AUTO_TEST_SUITE_END()
