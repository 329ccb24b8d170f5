// Each action alone: what it makes of the AST, and when it refuses.
#include <boost/test/unit_test.hpp>

#include "harness.h"
#include "samples.h"
#include "tolk/base/error.h"
#include "tolk/uop/arena.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"
#include "tolk/uop/symbolic/symbolic.h"
#include "tolk/uop/traverse.h"

using namespace tolk_test;
using namespace tolk;
using namespace tolk::codegen;

namespace {

struct Fixture {
  Arena arena;
  ArenaScope scope{&arena};
  // The AST after the actions, printed; or the reason why the last one does not fit.
  std::string after(const UOp& ast, std::initializer_list<Opt> opts) {
    Schedule s(simplify(import_graph(ast)));
    for (const Opt& o : opts)
      if (auto why = apply(s, o)) return *why;
    return print_kernel(simplify(s.ast));
  }
  std::string refused(const UOp& ast, const Opt& opt) {
    Schedule s(simplify(import_graph(ast)));
    UOp before = s.ast;
    auto why = apply(s, opt);
    BOOST_CHECK(s.ast == before || !why);
    return why.value_or("it applied");
  }
};

UOp in_place_add(int64_t n) {
  UOp i = range_node(n, 0, AxisType::Loop), p = param_node(0, DType::F32, n);
  UOp effect = end(store(p, i, load(p, i) + one_of(DType::F32)), std::vector<UOp>{i});
  return kernel_sink(std::span<const UOp>(&effect, 1));
}
UOp symbolic_copy() {
  UOp i = range_node(variable("n", 1, 100), 0, AxisType::Loop);
  UOp effect = end(store(param_node(0, DType::F32, 100), i, load(param_node(1, DType::F32, 100), i)),
                   std::vector<UOp>{i});
  return kernel_sink(std::span<const UOp>(&effect, 1));
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(opts, Fixture)

BOOST_AUTO_TEST_CASE(work_items_share_a_reduction) {
  UOp sums = row_reduce(Op::ADD, 3, 64);
  std::string text = after(sums, {{OptKind::Group, 1, 16}});
  BOOST_TEST(text.find(":4") != std::string::npos, text);
  BOOST_TEST(text.find(":16") != std::string::npos, text);
  BOOST_TEST(refused(sums, {OptKind::Group, 0, 2}) == "only a loop of a reduction is shared by work-items");
  BOOST_TEST(refused(sums, {OptKind::Group, 1, 6}) == "the amount is not a power of two, 2 to 1024");
  BOOST_TEST(refused(row_reduce(Op::ADD, 3, 60), {OptKind::Group, 1, 8}) ==
             "the amount does not divide the extent");
  BOOST_TEST(refused(row_reduce(Op::MAX, 3, 64, DType::F16), {OptKind::Group, 1, 8}) ==
             "work-group storage holds no values below 32 bits");
  // Uneven shares would miss a barrier or count twice: every amount and order gives the sums.
  for (int64_t amount : {2, 8, 16, 64})
    for (bool first : {true, false}) {
      Opt group{OptKind::Group, 1, amount}, local{OptKind::Local, 0, 3};
      check(sums, group_targets()[0], first ? std::vector{group, local} : std::vector{local, group});
    }
}

BOOST_AUTO_TEST_CASE(upcast_splits_a_loop) {
  std::string text = after(add(12), {{OptKind::Upcast, 0, 4}});
  BOOST_TEST(text.find("END(L0:3, u1:4)") != std::string::npos, text);
  text = after(add(12), {{OptKind::Upcast, 0, 0}});
  BOOST_TEST(text.find("END(u1:12)") != std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(upcast_of_an_awkward_extent_overlaps) {
  std::string text = after(add(14), {{OptKind::Upcast, 0, 4}});
  BOOST_TEST(text.find("END(L0:4, u1:4)") != std::string::npos, text);
  BOOST_TEST(text.find("max(") != std::string::npos, text);
  check(add(14), avx2_target(), {{OptKind::Upcast, 0, 4}});
}

BOOST_AUTO_TEST_CASE(a_kernel_that_reads_what_it_writes_gets_a_second_nest_instead) {
  std::string text = after(in_place_add(14), {{OptKind::Upcast, 0, 4}});
  BOOST_TEST(text.find("END(L0:3, u1:4)") != std::string::npos, text);
  BOOST_TEST(text.find("END(L2:2)") != std::string::npos, text);
  check(in_place_add(14), avx2_target(), {{OptKind::Upcast, 0, 4}});
  check(in_place_add(13), avx2_target(), {{OptKind::Vector, 0, 4}});
}

BOOST_AUTO_TEST_CASE(symbolic_loops_are_split_by_their_size_at_run_time) {
  for (int64_t n : {1, 3, 4, 39, 100}) {
    check(symbolic_copy(), avx2_target(), {{OptKind::Vector, 0, 8}}, 0, Fill::Small, {n});
    check(symbolic_copy(), avx2_target(), {{OptKind::Thread, 0, 4}, {OptKind::Vector, 0, 8}}, 0, Fill::Small,
          {n});
    check(symbolic_copy(), avx2_target(), {{OptKind::Thread, 0, 7}}, 0, Fill::Small, {n});
  }
}

BOOST_AUTO_TEST_CASE(unroll_of_an_awkward_extent_adds_a_second_reduction) {
  std::string text = after(row_reduce(Op::ADD, 3, 11), {{OptKind::Unroll, 1, 4}});
  BOOST_TEST(text.find("R1:2 r2:4") != std::string::npos, text);
  BOOST_TEST(text.find("R3:3") != std::string::npos, text);
  check(row_reduce(Op::ADD, 3, 11), avx2_target(), {{OptKind::Unroll, 1, 4}});
  check(row_reduce(Op::MAX, 3, 11), avx2_target(), {{OptKind::Unroll, 1, 4}});
  check(row_reduce(Op::MUL, 3, 5), avx2_target(), {{OptKind::Unroll, 1, 2}});
}

BOOST_AUTO_TEST_CASE(vectors_of_outputs_and_of_reductions) {
  check(matmul(4, 16, 8), avx2_target(), {{OptKind::Vector, 1, 8}});
  check(matmul(4, 16, 8, true), avx2_target(), {{OptKind::Vector, 2, 8}});
  check(matmul(4, 16, 13, true), avx2_target(), {{OptKind::Vector, 2, 8}});
  std::string text = after(matmul(4, 32, 8), {{OptKind::Upcast, 1, 16}, {OptKind::Vector, 3, 8}});
  BOOST_TEST(text.find("END(L0:4, L1:2, u3:2, v4:8)") != std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(two_vector_axes_never_meet_in_a_value) {
  std::string text = after(matmul(8, 16, 8), {{OptKind::Vector, 1, 8}, {OptKind::Vector, 2, 8}});
  BOOST_TEST(text == "a value would depend on two vector axes");
}

BOOST_AUTO_TEST_CASE(threads_cut_the_outer_loop) {
  std::string text = after(matmul(10, 8, 4), {{OptKind::Thread, 0, 4}});
  BOOST_TEST(text.find("t3:4") != std::string::npos, text);
  Kernel k = compile_with(matmul(10, 8, 4), avx2_target(), {{OptKind::Thread, 0, 4}});
  BOOST_TEST(k.info.grid[0] == 4);
  check(matmul(10, 8, 4), avx2_target(), {{OptKind::Thread, 0, 4}});
  check(matmul(10, 8, 4), avx2_target(), {{OptKind::Thread, 0, 5}, {OptKind::Thread, 1, 3}});
  BOOST_TEST(compile_with(matmul(10, 8, 4), avx2_target(), {{OptKind::Thread, 0, 5}, {OptKind::Thread, 1, 3}})
                 .info.grid[0] == 15);
}

BOOST_AUTO_TEST_CASE(work_items_take_neighbouring_elements) {
  std::string text = after(add(12), {{OptKind::Local, 0, 4}});
  BOOST_TEST(text.find("L0:3") != std::string::npos, text);
  Kernel k = compile_with(matmul(8, 12, 4), avx2_target(),
                          {{OptKind::Local, 0, 2}, {OptKind::Local, 1, 4}, {OptKind::Thread, 1, 3}});
  BOOST_TEST(k.info.local[0] == 8);
  BOOST_TEST(k.info.grid[0] == 3);
  check(matmul(8, 12, 4), avx2_target(),
        {{OptKind::Local, 0, 2}, {OptKind::Local, 1, 4}, {OptKind::Thread, 1, 3}});
  check(add(13), avx2_target(), {{OptKind::PadTo, 0, 8}, {OptKind::Local, 0, 8}});
  BOOST_TEST(refused(add(12), {OptKind::Local, 0, 5}) == "the amount does not divide the extent");
  BOOST_TEST(refused(row_reduce(Op::ADD, 2, 4), {OptKind::Local, 1, 2}) ==
             "only an output loop becomes work-items");
}

// Beyond the end nothing is read, and what stands there does not count: for a maximum of negative numbers not
// as 0.
BOOST_AUTO_TEST_CASE(padding_adds_only_identities) {
  check(row_reduce(Op::MAX, 3, 5), avx2_target(), {{OptKind::PadTo, 1, 8}, {OptKind::Vector, 1, 8}});
  check(row_reduce(Op::MUL, 3, 5), avx2_target(), {{OptKind::PadTo, 1, 4}, {OptKind::Unroll, 1, 4}});
  check(matmul(5, 7, 6), avx2_target(),
        {{OptKind::PadTo, 0, 4},
         {OptKind::PadTo, 1, 8},
         {OptKind::PadTo, 2, 4},
         {OptKind::Vector, 1, 8},
         {OptKind::Upcast, 0, 4}});
  std::vector<Data> buffers(2);
  buffers[0].floats = {0};
  buffers[1].floats = {-3, -2, -5, -9, -4};
  run(compile_with(row_reduce(Op::MAX, 1, 5), avx2_target(),
                   {{OptKind::PadTo, 0, 8}, {OptKind::Vector, 0, 8}}),
      buffers);
  BOOST_TEST(buffers[0].floats[0] == -2);
  // exp(0) is 1, but there are only five of them.
  UOp r = range_node(5, 0, AxisType::Reduce);
  UOp sum = reduce(Op::ADD, alu(Op::EXP, load(param_node(1, DType::F32, 5), r)), std::vector<UOp>{r});
  UOp effect = store(param_node(0, DType::F32, 1), index_const(0), sum);
  buffers[1].floats = {0, 0, 0, 0, 0};
  run(compile_with(kernel_sink(std::span<const UOp>(&effect, 1)), avx2_target(), {{OptKind::PadTo, 0, 8}}),
      buffers);
  BOOST_TEST(buffers[0].floats[0] == 5);
}

BOOST_AUTO_TEST_CASE(merged_pictures_keep_their_gates) {
  std::string text = after(convolution(1, 2, 3, 6, 3, 1, 1), {{OptKind::Merge, 1, 2}});
  BOOST_TEST(text.find("L1:36") != std::string::npos, text);
  check(convolution(1, 2, 3, 6, 3, 1, 1), avx2_target(), {{OptKind::Merge, 1, 2}, {OptKind::Vector, 1, 8}});
  check(convolution(1, 2, 3, 6, 3, 2, 1), avx2_target(), {{OptKind::Merge, 1, 2}, {OptKind::Vector, 1, 8}});
}

BOOST_AUTO_TEST_CASE(sink_moves_a_loop_inside) {
  std::string text = after(matmul(4, 5, 6), {{OptKind::Sink, 0, 1}});
  BOOST_TEST(text.find("END(L1:5, L0:4)") != std::string::npos, text);
  check(convolution(1, 3, 4, 6, 3, 1, 1), avx2_target(), {{OptKind::Sink, 3, 5}});
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused_and_changes_nothing) {
  UOp mm = matmul(6, 7, 8);
  BOOST_TEST(refused(mm, {OptKind::Upcast, 9, 2}) == "there is no axis 9");
  BOOST_TEST(refused(mm, {OptKind::Upcast, 2, 2}) == "only an output loop can be upcast");
  BOOST_TEST(refused(mm, {OptKind::Unroll, 0, 2}) == "only a loop of a reduction can be unrolled");
  BOOST_TEST(refused(mm, {OptKind::Upcast, 0, 7}) == "the amount exceeds the extent");
  BOOST_TEST(refused(mm, {OptKind::Upcast, 0, 1}) == "the amount is not 2 to 256");
  BOOST_TEST(refused(mm, {OptKind::Thread, 2, 2}) == "only an output loop can be threaded");
  BOOST_TEST(refused(mm, {OptKind::Merge, 0, 2}) == "only loops of one kind merge");
  BOOST_TEST(refused(mm, {OptKind::PadTo, 2, 4}) == "the extent is a multiple already");
  BOOST_TEST(refused(symbolic_copy(), {OptKind::Upcast, 0, 0}) == "the extent is not known");
  BOOST_CHECK_THROW(compile_with(mm, avx2_target(), {{OptKind::Upcast, 9, 2}}), InvalidArgument);
}

BOOST_AUTO_TEST_CASE(names_of_opts) {
  BOOST_TEST(to_string({OptKind::Upcast, 0, 4}) == "UPCAST(0,4)");
  BOOST_TEST(to_string({OptKind::Sink, 3, 5}) == "SINK(3,5)");
}

BOOST_AUTO_TEST_SUITE_END()
