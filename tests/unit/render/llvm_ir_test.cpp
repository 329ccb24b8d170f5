// The text itself, for a few small kernels, and what must never be in any text.
#include <string>

#include <boost/test/unit_test.hpp>

#include "kernel_builder.h"
#include "sample_kernels.h"
#include "tolk/base/error.h"
#include "tolk/render/llvm/llvm_ir.h"
#include "tolk/render/renderer.h"

#include <tolk/plugin/target.h>

namespace tolk {
namespace {

using test::KernelBuilder;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
// The text between the first line and the attributes.
std::string body(const KernelIR& kernel, bool may_alias = true) {
  std::string text = render_llvm_ir(kernel, {.may_alias = may_alias});
  size_t begin = text.find("#0 {\n") + 5;
  return text.substr(begin, text.find("\n}\n", begin) + 1 - begin);
}

BOOST_AUTO_TEST_CASE(group_axis_0_is_a_loop_over_tiles_and_indices_are_64_bits_wide) {
  BOOST_CHECK_EQUAL(body(test::vector_add()),
                    R"(B0:
  %r1 = getelementptr inbounds ptr, ptr %bufs, i64 0
  %r2 = load ptr, ptr %r1, align 8
  %r3 = getelementptr inbounds ptr, ptr %bufs, i64 1
  %r4 = load ptr, ptr %r3, align 8
  %r5 = getelementptr inbounds ptr, ptr %bufs, i64 2
  %r6 = load ptr, ptr %r5, align 8
  %empty = icmp uge i64 %tile_begin, %tile_end
  br i1 %empty, label %done, label %T0
T0:
  %r0 = phi i64 [ %tile_begin, %B0 ], [ %tile_next, %tile_latch ]
  %r7 = mul nuw nsw i64 %r0, 8
  %r8 = getelementptr inbounds float, ptr %r4, i64 %r7
  %r9 = load <8 x float>, ptr %r8, align 4
  %r10 = getelementptr inbounds float, ptr %r6, i64 %r7
  %r11 = load <8 x float>, ptr %r10, align 4
  %r12 = fadd <8 x float> %r9, %r11
  %r13 = getelementptr inbounds float, ptr %r2, i64 %r7
  store <8 x float> %r12, ptr %r13, align 4
  br label %tile_latch
tile_latch:
  %tile_next = add nuw i64 %r0, 1
  %more = icmp ult i64 %tile_next, %tile_end
  br i1 %more, label %T0, label %done
done:
  ret void
)");
}

BOOST_AUTO_TEST_CASE(registers_become_phis_at_loops_and_behind_branches) {
  BOOST_CHECK_EQUAL(body(test::guarded_sum()),
                    R"(B0:
  %r0 = getelementptr inbounds ptr, ptr %bufs, i64 0
  %r1 = load ptr, ptr %r0, align 8
  %r2 = getelementptr inbounds ptr, ptr %bufs, i64 1
  %r3 = load ptr, ptr %r2, align 8
  %r4 = getelementptr inbounds i64, ptr %vals, i64 0
  %r5 = load i64, ptr %r4, align 8
  %r6 = icmp sgt i64 %r5, 0
  br i1 %r6, label %L7, label %X7
L7:
  %r7 = phi i64 [ 0, %B0 ], [ %r14, %N7 ]
  %r8 = phi i32 [ 100, %B0 ], [ %r13, %N7 ]
  %r9 = getelementptr inbounds i32, ptr %r3, i64 %r7
  %r10 = load i32, ptr %r9, align 4
  %r11 = icmp slt i32 0, %r10
  br i1 %r11, label %I10, label %X10
I10:
  %r12 = add i32 %r8, %r10
  br label %X10
X10:
  %r13 = phi i32 [ %r8, %L7 ], [ %r12, %I10 ]
  br label %N7
N7:
  %r14 = add nuw nsw i64 %r7, 1
  %r15 = icmp slt i64 %r14, %r5
  br i1 %r15, label %L7, label %X7, !llvm.loop !9
X7:
  %r16 = phi i32 [ 100, %B0 ], [ %r13, %N7 ]
  store i32 %r16, ptr %r1, align 4
  ret void
)");
}

BOOST_AUTO_TEST_CASE(a_loop_that_surely_runs_has_no_guard_and_one_of_one_iteration_no_blocks) {
  BOOST_CHECK(contains(body(test::row_sum()), "  br label %L10\nL10:\n"));
  KernelBuilder b("r_once");
  auto out = b.buffer(DType::I32, true);
  auto loop = b.loop(1);
  b.store(out, loop, loop);
  b.end(loop);
  BOOST_CHECK(contains(body(b.kernel), "  store i32 0, ptr %r1, align 4\n  ret void\n"));
  KernelBuilder n("r_positive");
  auto to = n.buffer(DType::I64, true);
  loop = n.range(n.value(DType::I64, 1, 9));
  n.store(to, loop, loop);
  n.end(loop);
  BOOST_CHECK(!contains(body(n.kernel), "icmp sgt"));
}

BOOST_AUTO_TEST_CASE(each_storage_has_an_alias_scope_unless_storages_may_overlap) {
  std::string apart = render_llvm_ir(test::vector_add(), {});
  BOOST_CHECK(contains(apart, "store <8 x float> %r12, ptr %r13, align 4, !alias.scope !4, !noalias !5\n"));
  BOOST_CHECK(contains(apart, "\n!4 = !{!3}\n!5 = !{!6, !9}\n"));
  BOOST_CHECK(!contains(render_llvm_ir(test::vector_add(), {.may_alias = true}), "!noalias"));
}

BOOST_AUTO_TEST_CASE(memory_is_touched_only_where_the_gate_is_true) {
  std::string text = body(test::gated_copy());
  BOOST_CHECK(contains(
      text, "%r42 = select i1 %r40, ptr %r41, ptr @otherwise0\n  %r43 = load float, ptr %r42, align 4\n"
            "  br i1 %r40, label %S0, label %U0\nS0:\n"));
  BOOST_CHECK(
      contains(render_llvm_ir(test::gated_copy(), {}),
               "@otherwise0 = private unnamed_addr constant [1 x float] [float 0x3FF0000000000000], "));
  BOOST_CHECK(contains(text, "getelementptr float, ptr %r4, i64 %r14\n  %r37 = call <8 x float> "
                             "@llvm.masked.load.v8f32.p0(ptr %r36, i32 4, <8 x i1> %r35, "));
}

BOOST_AUTO_TEST_CASE(the_bits_of_constants_survive) {
  std::pair<uint64_t, const char*> f32[] = {
      {0x3dcccccd, "float 0x3FB99999A0000000"},
      {0x80000000, "float 0x8000000000000000"},
      {0x7f7fffff, "float 0x47EFFFFFE0000000"},
      {0x00000001, "float bitcast (i32 1 to float)"},
      {0x7f800001, "float bitcast (i32 2139095041 to float)"},
      {0xff800000, "float bitcast (i32 -8388608 to float)"},
  };
  for (auto [bits, text] : f32) {
    KernelBuilder b("k");
    auto out = b.buffer(DType::F32, true);
    b.store(out, b.index(0), b.constant(DType::F32, bits));
    BOOST_CHECK_MESSAGE(contains(body(b.kernel), std::string("store ") + text + ","), text);
  }
  KernelBuilder b("k");
  auto out = b.buffer(DType::U64, true);
  b.store(out, b.index(3), b.constant(DType::U64, ~uint64_t{0}));
  BOOST_CHECK(contains(body(b.kernel), "store i64 -1,"));
}

BOOST_AUTO_TEST_CASE(no_text_has_fast_math_flags_or_calls_of_functions) {
  for (const KernelIR& kernel : test::all_sample_kernels()) {
    std::string text = render_llvm_ir(kernel, {});
    for (const char* flag :
         {" fast ", " contract ", " reassoc ", " nnan ", " ninf ", " nsz ", " arcp ", " afn "})
      BOOST_CHECK_MESSAGE(!contains(text, flag), kernel.name << " has" << flag);
    for (size_t at = text.find(" @"); at != std::string::npos; at = text.find(" @", at + 1)) {
      std::string_view rest = std::string_view(text).substr(at + 2);
      bool own = rest.starts_with("llvm.") || rest.starts_with("otherwise") || rest.starts_with(kernel.name);
      BOOST_CHECK_MESSAGE(own, kernel.name << " names " << rest.substr(0, 20));
    }
  }
}

BOOST_AUTO_TEST_CASE(what_the_target_lacks_is_refused) {
  const uint64_t lacks = TOLK_FEATURE_ALL & ~(TOLK_FEATURE_MULACC | TOLK_FEATURE_SQRT | TOLK_FEATURE_TRUNC);
  for (uint16_t opcode = 0; opcode < 64; opcode++) {
    if (!(lacks >> opcode & 1)) continue;
    KernelBuilder b("k");
    auto out = b.buffer(DType::F32, true);
    b.store(out, b.index(0), b.op(opcode, {b.load(out, b.index(0))}));
    BOOST_CHECK_THROW(render_llvm_ir(b.kernel, {}), InternalError);
  }
  KernelBuilder items("k");
  auto out = items.buffer(DType::I32, true);
  auto item = items.kernel.add(TOLK_IR_SPECIAL, DType::I32, 1, {}, {256, 32});
  items.store(out, item, item);
  BOOST_CHECK_THROW(render_llvm_ir(items.kernel, {}), InternalError);
  KernelBuilder packed("k");
  out = packed.buffer(DType::I4, true);
  packed.store(out, packed.index(0), packed.constant(DType::I4, 1));
  BOOST_CHECK_THROW(render_llvm_ir(packed.kernel, {}), InternalError);
}

BOOST_AUTO_TEST_CASE(locals_lie_one_after_the_other_at_multiples_of_64) {
  KernelIR kernel = test::shared_transpose(); // 16 x i16, then 3 x bool
  std::vector<uint64_t> offsets;
  for (uint32_t k = 0; k < kernel.ops.size(); ++k)
    if (kernel.ops[k].opcode == TOLK_IR_DEFINE_LOCAL) offsets.push_back(local_storage_offset(kernel, k));
  BOOST_CHECK(offsets == (std::vector<uint64_t>{0, 64}));
  BOOST_CHECK_EQUAL(local_storage_offset(kernel, uint32_t(kernel.ops.size())), 128u);
}

BOOST_AUTO_TEST_CASE(renderers_are_found_by_target) {
  auto target = [](uint32_t kind, const char* dialect, uint32_t version_min = 0, uint32_t version_max = 0) {
    tolk_target t{};
    t.kind = kind, t.dialect = dialect, t.version_min = version_min, t.version_max = version_max;
    return t;
  };
  const Renderer* llvm = find_renderer(target(TOLK_TARGET_LLVM_IR, "x86_64-pc-linux-gnu"));
  BOOST_REQUIRE(llvm);
  BOOST_CHECK_EQUAL(llvm->name, std::string("llvm-ir"));
  BOOST_CHECK_EQUAL(llvm->render(test::row_sum(), {}), render_llvm_ir(test::row_sum(), {}));
  const Renderer* none = find_renderer(target(TOLK_TARGET_KERNEL_IR, "kernel-ir"));
  BOOST_REQUIRE(none);
  BOOST_CHECK_EQUAL(none->render(test::row_sum(), {}), "");
  BOOST_CHECK(!find_renderer(target(TOLK_TARGET_NATIVE, "")));
  // A target says which versions it takes.
  BOOST_CHECK(find_renderer(target(TOLK_TARGET_LLVM_IR, "", 19, 19)));
  BOOST_CHECK(!find_renderer(target(TOLK_TARGET_LLVM_IR, "", 20, 0)));
  BOOST_CHECK(!find_renderer(target(TOLK_TARGET_LLVM_IR, "", 0, 18)));
  // The first that can be rendered is taken.
  tolk_target several[] = {target(TOLK_TARGET_SOURCE, "hip-cpp"), target(TOLK_TARGET_LLVM_IR, "", 20, 22),
                           target(TOLK_TARGET_KERNEL_IR, "kernel-ir")};
  BOOST_CHECK_EQUAL(first_renderable(several), 2u);
  BOOST_CHECK_EQUAL(first_renderable({several, 1}), 0u);
}

} // namespace
} // namespace tolk
