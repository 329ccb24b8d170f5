// Decompositions other than the float functions: random bits, dtypes without arithmetic, integer division.
#include <boost/test/unit_test.hpp>
#include <tolk/plugin/target.h>

#include "harness.h"
#include "samples.h"
#include "tolk/uop/build.h"

using namespace tolk_test;
using namespace tolk;
using namespace tolk::codegen;

namespace {

Target without_arithmetic(std::initializer_list<DType> dtypes) {
  Target t = avx2_target();
  for (DType d : dtypes) t.dtype_alu &= ~(uint64_t{1} << int(d));
  return t;
}

bool computes_in(const KernelIR& ir, DType dtype) {
  for (const tolk_ir_op& op : ir.ops)
    if (op.dtype == uint8_t(dtype) && op.opcode >= TOLK_IR_ADD && op.opcode <= TOLK_IR_XOR) return true;
  return false;
}

} // namespace

BOOST_AUTO_TEST_SUITE(decompositions)

BOOST_AUTO_TEST_CASE(threefry_gives_the_published_answers) {
  struct Case {
    uint32_t counter[2], key[2], result[2];
  };
  for (const Case& c : {Case{{0, 0}, {0, 0}, {0x6b200159, 0x99ba4efe}},
                        Case{{0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}, {0x1cb996fc, 0xbb002be7}},
                        Case{{0x243f6a88, 0x85a308d3}, {0x13198a2e, 0x03707344}, {0xc4923a9c, 0x483df7a0}}}) {
    UOp i = range_node(4, 0, AxisType::Loop);
    UOp value =
        alu(Op::THREEFRY, load(param_node(1, DType::U64, 4), i), load(param_node(2, DType::U64, 4), i));
    UOp effect = end(store(param_node(0, DType::U64, 4), i, value), std::vector<UOp>{i});
    auto joined = [](const uint32_t* w) { return int64_t(uint64_t(w[1]) << 32 | w[0]); };
    for (bool vector : {false, true}) {
      std::vector<Data> buffers(3);
      for (Data& d : buffers) d.dtype = DType::U64, d.integers.assign(4, 0);
      buffers[1].integers.assign(4, joined(c.counter));
      buffers[2].integers.assign(4, joined(c.key));
      std::vector<Opt> opts;
      if (vector) opts = {{OptKind::Vector, 0, 4}};
      run(compile_with(kernel_sink(std::span<const UOp>(&effect, 1)), avx2_target(), opts), buffers);
      for (int64_t got : buffers[0].integers) BOOST_TEST(got == joined(c.result));
    }
  }
}

BOOST_AUTO_TEST_CASE(dtypes_without_arithmetic_go_through_wider_ones) {
  for (DType t :
       {DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2, DType::I8, DType::U8, DType::I16, DType::U16})
    BOOST_TEST_CONTEXT(name(t)) {
      Target target = without_arithmetic({t});
      check_heuristic(add(21, t), target);
      check_plain(row_reduce(Op::MAX, 4, 9, t), target);
      BOOST_TEST(!computes_in(compile(add(21, t), target).ir, t));
      if (bits(t) < 16) continue;
      check_heuristic(matmul(3, 9, 5, false, t), target);
      BOOST_TEST(!computes_in(compile(matmul(3, 9, 5, false, t), target).ir, t));
    }
}

BOOST_AUTO_TEST_CASE(sums_of_small_floats_are_kept_wide) {
  // 4096 ones: f16 itself stops at 2048.
  std::vector<Data> buffers(2);
  buffers[0].dtype = buffers[1].dtype = DType::F16;
  buffers[0].floats = {0};
  buffers[1].floats.assign(4096, 1);
  run(compile(row_reduce(Op::ADD, 1, 4096, DType::F16), without_arithmetic({DType::F16}), {.no_opt = true}),
      buffers);
  BOOST_TEST(buffers[0].floats[0] == 4096);
}

// All pairs of interesting values: quotients and remainders round down, and nothing traps.
BOOST_AUTO_TEST_CASE(floor_division_of_every_sign) {
  for (DType t : {DType::I8, DType::I32, DType::I64, DType::U8, DType::U64}) {
    std::vector<int64_t> values{0, 1, 2, 3, 5, 7, 8, 100};
    if (is_signed(t))
      for (int64_t v : {-1, -2, -3, -7, -8, -100}) values.push_back(v);
    int64_t least = bits(t) == 64 ? INT64_MIN : -(int64_t{1} << (bits(t) - 1));
    if (is_signed(t)) values.push_back(least), values.push_back(-(least + 1));
    int64_t n = int64_t(values.size() * values.size());
    UOp i = range_node(n, 0, AxisType::Loop);
    UOp a = load(param_node(2, t, n), i), b = load(param_node(3, t, n), i);
    UOp effects[] = {end(store(param_node(0, t, n), i, alu(Op::FLOORDIV, a, b)), std::vector<UOp>{i}),
                     end(store(param_node(1, t, n), i, alu(Op::FLOORMOD, a, b)), std::vector<UOp>{i})};
    UOp ast = kernel_sink(effects);
    std::vector<Data> got(4);
    for (Data& d : got) d.dtype = t, d.integers.assign(size_t(n), 0);
    for (size_t k = 0; k < size_t(n); ++k) {
      got[2].integers[k] = values[k / values.size()];
      got[3].integers[k] = values[k % values.size()];
    }
    std::vector<Data> want = got;
    evaluate(ast, want);
    for (bool plain : {true, false}) {
      run(compile(ast, avx2_target(), {.no_opt = plain}), got);
      for (size_t k = 0; k < size_t(n); ++k)
        for (size_t o : {size_t(0), size_t(1)})
          BOOST_REQUIRE_MESSAGE(got[o].integers[k] == want[o].integers[k],
                                name(t) << " " << got[2].integers[k] << (o ? " mod " : " div ")
                                        << got[3].integers[k] << ": got " << got[o].integers[k] << ", want "
                                        << want[o].integers[k]);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_multiply_add_is_fused_only_in_sums_of_products) {
  auto count = [](const KernelIR& ir) {
    int n = 0;
    for (const tolk_ir_op& op : ir.ops) n += op.opcode == TOLK_IR_MULACC;
    return n;
  };
  BOOST_TEST(count(compile(matmul(4, 4, 4), avx2_target(), {.no_opt = true}).ir) == 1);
  BOOST_TEST(count(compile(matmul(4, 4, 4), bare_target(), {.no_opt = true}).ir) == 0);
  UOp i = range_node(8, 0, AxisType::Loop);
  auto in = [&](int slot) { return load(param_node(slot, DType::F32, 8), i); };
  UOp effect = end(store(param_node(0, DType::F32, 8), i, in(1) * in(2) + in(3)), std::vector<UOp>{i});
  BOOST_TEST(count(compile(kernel_sink(std::span<const UOp>(&effect, 1)), avx2_target()).ir) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
