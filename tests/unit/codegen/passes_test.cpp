// The passes around the opts: merging of loops, dropping of unused ones, naming, index width.
#include <boost/test/unit_test.hpp>

#include "harness.h"
#include "samples.h"
#include "tolk/base/error.h"
#include "tolk/codegen/gates.h"
#include "tolk/codegen/loops.h"
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
  std::string merged(const UOp& ast) { return print_kernel(merge_loops(simplify(import_graph(ast)))); }
  std::string dropped(const UOp& ast) {
    return print_kernel(simplify(drop_unused_loops(simplify(import_graph(ast)))));
  }
};

UOp kernel(const UOp& store, std::vector<UOp> loops) {
  UOp effect = end(store, loops);
  return kernel_sink(std::span<const UOp>(&effect, 1));
}

// p0[i,j] = p1[i,j] or p1[j,i].
UOp copy_of(int64_t n, int64_t m, bool transposed) {
  UOp i = range_node(n, 0, AxisType::Loop), j = range_node(m, 1, AxisType::Loop);
  UOp from = transposed ? j * n + i : i * m + j;
  return kernel(
      store(param_node(0, DType::F32, n * m), i * m + j, load(param_node(1, DType::F32, n * m), from)),
      {i, j});
}

bool uses(const KernelIR& ir, DType dtype, uint16_t opcode) {
  for (const tolk_ir_op& op : ir.ops)
    if (op.opcode == opcode && op.dtype == uint8_t(dtype)) return true;
  return false;
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(passes, Fixture)

BOOST_AUTO_TEST_CASE(loops_that_walk_as_one_merge) {
  BOOST_TEST(merged(copy_of(1024, 1024, false)) == "p0[L0] = p1[L0]   END(L0:1048576)\n");
  BOOST_TEST(merged(copy_of(4, 6, true)).find("END(L0:4, L1:6)") != std::string::npos);
  // A sum over a picture.
  UOp c = range_node(3, 0, AxisType::Loop), h = range_node(7, 1, AxisType::Reduce),
      w = range_node(7, 2, AxisType::Reduce);
  UOp sum = reduce(Op::ADD, load(param_node(1, DType::F32, 147), c * 49 + h * 7 + w), std::vector<UOp>{h, w});
  BOOST_TEST(merged(kernel(store(param_node(0, DType::F32, 3), c, sum), {c})).find("R1:49") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(loops_of_different_reductions_do_not_merge) {
  UOp a = range_node(4, 0, AxisType::Loop), b = range_node(6, 1, AxisType::Loop),
      r = range_node(5, 2, AxisType::Reduce);
  UOp row = reduce(Op::ADD, load(param_node(1, DType::F32, 20), a * 5 + r), std::vector<UOp>{r});
  UOp ast = kernel(store(param_node(0, DType::F32, 24), a * 6 + b, row), {a, b});
  BOOST_TEST(merged(ast).find("END(L0:4, L1:6)") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(reductions_over_unused_loops_are_computed) {
  UOp r = range_node(7, 0, AxisType::Reduce);
  auto over = [&](Op op, DType t) {
    UOp v = reduce(op, load(param_node(1, t, 1), index_const(0)), std::vector<UOp>{r});
    return kernel(store(param_node(0, t, 1), index_const(0), v), {});
  };
  BOOST_TEST(dropped(over(Op::ADD, DType::I32)) == "p0[0] = p1[0]*7\n");
  BOOST_TEST(dropped(over(Op::MAX, DType::F32)) == "p0[0] = p1[0]\n");
  // Counts beyond 2^24 are rounded once; the zero keeps the sign of a sum of minus zeros.
  BOOST_TEST(dropped(over(Op::ADD, DType::F32)) == "p0[0] = p1[0]*7+0\n");
  BOOST_TEST(dropped(over(Op::MUL, DType::F32)).find("reduce_MUL") != std::string::npos);
  for (Op op : {Op::ADD, Op::MUL, Op::MAX})
    for (DType t : {DType::I32, DType::F32}) {
      check_plain(over(op, t), avx2_target());
      check_heuristic(over(op, t), avx2_target());
    }
}

// 70000 * 70000 elements of a view of one byte: the positions do not fit 32 bits.
BOOST_AUTO_TEST_CASE(indices_are_as_wide_as_they_must_be) {
  auto sum = [](int64_t n) {
    UOp i = range_node(n, 0, AxisType::Reduce), j = range_node(n, 1, AxisType::Reduce);
    UOp position = cast(i * n + j, DType::I64);
    UOp v = reduce(Op::MAX, position, std::vector<UOp>{i, j});
    return kernel(store(param_node(0, DType::I64, 1), index_const(0), v), {});
  };
  BOOST_TEST(uses(compile(sum(70000), avx2_target()).ir, DType::I64, TOLK_IR_RANGE));
  BOOST_TEST(uses(compile(sum(46340), avx2_target()).ir, DType::I32, TOLK_IR_RANGE));
  BOOST_TEST(!uses(compile(sum(46340), avx2_target()).ir, DType::I64, TOLK_IR_RANGE));
  // A buffer of more than 2^31 elements, and one just below.
  BOOST_TEST(uses(compile(add(int64_t{3} << 31, DType::U8), avx2_target(), {.no_opt = true}).ir, DType::I64,
                  TOLK_IR_RANGE));
  BOOST_TEST(uses(compile(add((int64_t{1} << 31) - 1, DType::U8), avx2_target(), {.no_opt = true}).ir,
                  DType::I32, TOLK_IR_RANGE));
}

BOOST_AUTO_TEST_CASE(names_say_what_a_kernel_does) {
  Kernel k = compile(matmul(64, 128, 512), avx2_target(), {.threads = 2});
  BOOST_TEST(k.info.name.substr(0, 13) == "r_64_128_512_");
  BOOST_TEST(k.info.name.size() == 13 + 8);
  BOOST_TEST(k.info.name == k.ir.name);
  BOOST_TEST(k.info.name == compile(matmul(64, 128, 512), bare_target(), {.no_opt = true}).info.name);
  BOOST_TEST(compile(add(8), avx2_target()).info.name.substr(0, 4) == "e_8_");
}

BOOST_AUTO_TEST_CASE(info_lists_buffers_variables_and_work) {
  Kernel k = compile(matmul(64, 32, 16), avx2_target(), {.no_opt = true});
  BOOST_TEST(k.info.globals == (std::vector<int>{0, 1, 2}), boost::test_tools::per_element());
  BOOST_TEST(k.info.outs == (std::vector<int>{0}), boost::test_tools::per_element());
  BOOST_TEST(k.info.ins == (std::vector<int>{1, 2}), boost::test_tools::per_element());
  BOOST_TEST(k.info.flops == 2.0 * 64 * 32 * 16);
  BOOST_TEST(k.info.bytes_touched == 4.0 * (64 * 32 + 64 * 16 + 32 * 16));
  BOOST_TEST(k.info.vars.empty());
  // Tiles do not change how much is computed.
  BOOST_TEST(
      compile_with(matmul(64, 32, 16), avx2_target(), {{OptKind::Vector, 1, 8}, {OptKind::Thread, 0, 4}})
          .info.flops == 2.0 * 64 * 32 * 16);
  for (const Sample& s : all_samples()) {
    if (s.name != "symbolic") continue;
    Kernel symbolic = compile(s.ast, avx2_target());
    BOOST_REQUIRE(symbolic.info.vars.size() == 2);
    BOOST_TEST(symbolic.info.vars[0].name == "m");
    BOOST_TEST(symbolic.info.vars[1].max == 24);
  }
  Kernel in_place = compile(add(8), avx2_target());
  BOOST_TEST(in_place.ir.params[0].access == uint32_t(TOLK_ACCESS_WRITE));
  BOOST_TEST(in_place.ir.params[1].access == uint32_t(TOLK_ACCESS_READ));
}

BOOST_AUTO_TEST_CASE(the_same_kernel_every_time) {
  for (const Sample& s : all_samples()) {
    Kernel first = compile(s.ast, bare_target(), {.threads = 2});
    // Other nodes in the global table must not matter.
    UOp noise = param_node(77, DType::F32, int64_t(s.name.size()));
    BOOST_CHECK_MESSAGE(first.ir == compile(s.ast, bare_target(), {.threads = 2}).ir, s.name);
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_kernel_is_refused) {
  UOp i = range_node(4, 0, AxisType::Loop);
  UOp open = store(param_node(0, DType::F32, 4), i, load(param_node(1, DType::F32, 4), i));
  BOOST_CHECK_THROW(compile(kernel_sink(std::span<const UOp>(&open, 1)), avx2_target()), InternalError);
  UOp buffer = buffer_node(0, DType::F32, 4, "CPU");
  UOp moved = end(store(param_node(0, DType::F32, 4), i, reshape(buffer, {2, 2})), std::vector<UOp>{i});
  BOOST_CHECK_THROW(compile(kernel_sink(std::span<const UOp>(&moved, 1)), avx2_target()), InternalError);
}

// Long chains of operations are ordinary.
BOOST_AUTO_TEST_CASE(deep_expressions_compile) {
  UOp i = range_node(16, 0, AxisType::Loop), v = load(param_node(1, DType::F32, 16), i);
  for (int k = 0; k < 20000; ++k) v = alu(k % 2 ? Op::ADD : Op::MAX, v, constant(DType::F32, double(k % 7)));
  Kernel k = compile(kernel(store(param_node(0, DType::F32, 16), i, v), {i}), avx2_target());
  BOOST_TEST(k.ir.ops.size() > 20000u);
}

BOOST_FIXTURE_TEST_CASE(a_load_loses_the_gate_that_its_use_implies, Fixture) {
  UOp i = range_node(8, 0, AxisType::Loop), out = param_node(0, DType::F32, 8),
      zero = constant(DType::F32, 0.0);
  UOp low = less(i, index_const(4)), even = less(floormod(i, index_const(2)), index_const(1));
  auto gated = [&](const UOp& value, const UOp& store_gate = UOp()) {
    int gates = 0;
    for (const UOp& u : toposort(drop_implied_gates(kernel(store(out, i, value, store_gate), {i}))))
      gates += u.is(Op::LOAD) && u.nsrc() > 2;
    return gates;
  };
  auto read = [&](int64_t size, const UOp& gate) {
    return load(param_node(1, DType::F32, size), i, gate, zero);
  };
  UOp x = read(8, low);
  BOOST_TEST(gated(where(low, x * x, zero)) == 0);
  BOOST_TEST(gated(where(logical_and(low, even), x, zero)) == 0);
  BOOST_TEST(gated(x, low) == 0);
  BOOST_TEST(gated(x) == 1);
  BOOST_TEST(gated(where(low, zero, x)) == 1); // the other branch
  BOOST_TEST(gated(where(even, x, zero)) == 1);
  BOOST_TEST(gated(where(low, read(8, logical_and(low, even)), zero)) == 1); // only half of it is known
  BOOST_TEST(gated(where(low, read(4, low), zero)) == 1);                    // p1[4] is outside
  BOOST_TEST(gated(where(low, x, zero) + x) == 1);                           // the second use needs it
}

BOOST_AUTO_TEST_SUITE_END()
