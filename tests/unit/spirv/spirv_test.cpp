// SPIR-V modules of sample kernels: the Khronos validator accepts each of them, and the disassembly of a few is what it
// should be. Skipped without spirv-tools; tests/unit/vulkan runs the modules.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "kernel_builder.h"
#include "sample_kernels.h"
#include "tolk/base/error.h"
#include "tolk/render/renderer.h"
#include "tolk/render/spirv/spirv.h"
#include "tolk/render/spirv/spirv_module.h"

#include <tolk/plugin/target.h>

#if __has_include(<spirv/unified1/spirv.hpp11>)
#include <spirv/unified1/spirv.hpp11>
#define TOLK_HAS_SPIRV_HEADERS 1
#endif

namespace tolk {
namespace {

namespace fs = std::filesystem;
using test::KernelBuilder;
using Id = KernelBuilder::Id;

constexpr const char* kFeatures = "+f64,+preserve32,+preserve64,+rte32,+rte64";

bool found(const std::string& tool) { return !tool.empty() && tool.find("NOTFOUND") == std::string::npos; }

boost::test_tools::assertion_result has_tools(boost::unit_test::test_unit_id) {
  boost::test_tools::assertion_result result(found(TOLK_TEST_SPIRV_VAL) && found(TOLK_TEST_SPIRV_DIS));
  if (!result) result.message() << "spirv-val or spirv-dis was not found when the build was configured";
  return result;
}

struct TempFolder {
  fs::path path = fs::temp_directory_path() / ("tolk-spirv-" + std::to_string(getpid()));
  TempFolder() { fs::create_directories(path); }
  ~TempFolder() { fs::remove_all(path); }
};

std::string render(const KernelIR& kernel, const char* features = kFeatures) {
  return render_spirv(kernel, {.features = features});
}

std::string disassembly(const KernelIR& kernel) {
  TempFolder folder;
  std::ofstream(folder.path / "k.spv", std::ios::binary) << render(kernel);
  std::string command = "cd '" + folder.path.string() +
                        "' && '" TOLK_TEST_SPIRV_DIS "' --raw-id --no-indent --no-header k.spv > k.txt";
  BOOST_REQUIRE_EQUAL(std::system(command.c_str()), 0);
  std::ifstream in(folder.path / "k.txt");
  return {std::istreambuf_iterator<char>(in), {}};
}

// The text from the shader's first block on, without the arguments.
std::string body(const KernelIR& kernel) {
  std::string text = disassembly(kernel);
  size_t begin = text.find("OpLabel", text.find("OpLabel") + 1);
  begin = text.rfind('\n', begin) + 1;
  return text.substr(begin);
}

// Each work-item moves an element through work-group storage, across a barrier.
KernelIR reverse_in_groups() {
  KernelBuilder b("reverse_64");
  Id out = b.buffer(DType::F32, true), x = b.buffer(DType::F32, false);
  Id group = b.tile(), item = b.kernel.add(TOLK_IR_SPECIAL, DType::I32, 1, {}, {256, 64});
  Id local = b.local(DType::F32, 64);
  Id at = b.iadd(b.imul(group, b.index(64)), item);
  b.store(local, item, b.load(x, at));
  b.kernel.add(TOLK_IR_BARRIER, DType::Void, 1, {});
  b.store(out, at, b.load(local, b.op(TOLK_IR_SUB, {b.index(63), item})));
  return b.kernel;
}

bool has_fused_float(const KernelIR& kernel) {
  for (const tolk_ir_op& op : kernel.ops)
    if (op.opcode == TOLK_IR_MULACC && (op.dtype == TOLK_DTYPE_F32 || op.dtype == TOLK_DTYPE_F64))
      return true;
  return false;
}

BOOST_AUTO_TEST_CASE(the_validator_accepts_every_sample_kernel_for_vulkan,
                     *boost::unit_test::precondition(has_tools)) {
  TempFolder folder;
  std::vector<KernelIR> kernels = test::all_sample_kernels();
  kernels.push_back(reverse_in_groups());
  int count = 0;
  for (const KernelIR& kernel : kernels) {
    if (has_fused_float(kernel)) {
      BOOST_CHECK_THROW(render(kernel), InternalError);
      continue;
    }
    ++count;
    std::ofstream(folder.path / (kernel.name + ".spv"), std::ios::binary) << render(kernel);
    std::ofstream(folder.path / (kernel.name + "_plain.spv"), std::ios::binary) << render(kernel, "");
  }
  BOOST_CHECK_GT(count, 900);
  std::string command = "cd '" + folder.path.string() +
                        "' && ls *.spv | xargs -I{} -P2 sh -c \"'" TOLK_TEST_SPIRV_VAL
                        "' --target-env vulkan1.2 {} >{}.log 2>&1 || { echo {}; head -3 {}.log; exit 1; }\"";
  BOOST_CHECK_EQUAL(std::system(command.c_str()), 0);
}

BOOST_AUTO_TEST_CASE(vectors_become_vector_accesses_and_scalar_arithmetic,
                     *boost::unit_test::precondition(has_tools)) {
  BOOST_CHECK_EQUAL(body(test::alu_kernel(TOLK_IR_ADD, DType::F32, 2)), R"(%9 = OpLabel
%35 = OpIMul %2 %34 %28
%38 = OpSConvert %10 %35
%40 = OpIMul %10 %38 %39
%41 = OpIAdd %10 %27 %40
%43 = OpConvertUToPtr %42 %41
%44 = OpLoad %37 %43 Aligned 4
%45 = OpCompositeExtract %36 %44 0
%46 = OpCompositeExtract %36 %44 1
%47 = OpSConvert %10 %35
%48 = OpIMul %10 %47 %39
%49 = OpIAdd %10 %30 %48
%50 = OpConvertUToPtr %42 %49
%51 = OpLoad %37 %50 Aligned 4
%52 = OpCompositeExtract %36 %51 0
%53 = OpCompositeExtract %36 %51 1
%54 = OpFAdd %36 %45 %52
%55 = OpFAdd %36 %46 %53
%56 = OpSConvert %10 %35
%57 = OpIMul %10 %56 %39
%58 = OpIAdd %10 %24 %57
%59 = OpConvertUToPtr %42 %58
%60 = OpCompositeConstruct %37 %54 %55
OpStore %59 %60 Aligned 4
OpReturn
OpFunctionEnd
)");
}

BOOST_AUTO_TEST_CASE(work_items_share_storage_across_a_barrier, *boost::unit_test::precondition(has_tools)) {
  BOOST_CHECK_EQUAL(body(reverse_in_groups()), R"(%9 = OpLabel
%40 = OpIMul %2 %31 %36
%41 = OpIAdd %2 %40 %34
%42 = OpSConvert %10 %41
%44 = OpIMul %10 %42 %43
%45 = OpIAdd %10 %27 %44
%47 = OpConvertUToPtr %46 %45
%48 = OpLoad %35 %47 Aligned 4
%50 = OpAccessChain %49 %39 %34
OpStore %50 %48
OpControlBarrier %51 %51 %52
%54 = OpISub %2 %53 %34
%55 = OpAccessChain %49 %39 %54
%56 = OpLoad %35 %55
%57 = OpSConvert %10 %41
%58 = OpIMul %10 %57 %43
%59 = OpIAdd %10 %24 %58
%60 = OpConvertUToPtr %46 %59
OpStore %60 %56 Aligned 4
OpReturn
OpFunctionEnd
)");
}

BOOST_AUTO_TEST_CASE(loops_and_branches_are_structured, *boost::unit_test::precondition(has_tools)) {
  BOOST_CHECK_EQUAL(body(test::guarded_sum()), R"(%9 = OpLabel
OpStore %31 %33
OpBranch %34
%34 = OpLabel
%41 = OpPhi %10 %40 %9 %37 %35
OpLoopMerge %36 %35 None
OpBranch %38
%38 = OpLabel
%43 = OpSLessThan %42 %41 %30
OpBranchConditional %43 %39 %36
%39 = OpLabel
%45 = OpIMul %10 %41 %44
%46 = OpIAdd %10 %27 %45
%48 = OpConvertUToPtr %47 %46
%49 = OpLoad %2 %48 Aligned 4
%50 = OpSLessThan %42 %14 %49
OpSelectionMerge %52 None
OpBranchConditional %50 %51 %52
%51 = OpLabel
%53 = OpLoad %2 %31
%54 = OpIAdd %2 %53 %49
OpStore %31 %54
OpBranch %52
%52 = OpLabel
OpBranch %35
%35 = OpLabel
%37 = OpIAdd %10 %41 %55
OpBranch %34
%36 = OpLabel
%56 = OpLoad %2 %31
%57 = OpConvertUToPtr %47 %24
OpStore %57 %56 Aligned 4
OpReturn
OpFunctionEnd
)");
}

BOOST_AUTO_TEST_CASE(modules_ask_only_for_the_capabilities_that_they_need) {
  auto capabilities = [](const std::string& bytes) {
    std::set<uint32_t> all;
    for (size_t at = 5 * 4; at < bytes.size();) {
      uint32_t word, operand;
      std::memcpy(&word, bytes.data() + at, 4);
      if ((word & 0xffff) != spirv::kOpCapability) break;
      std::memcpy(&operand, bytes.data() + at + 4, 4);
      all.insert(operand);
      at += (word >> 16) * 4;
    }
    return all;
  };
  using spirv::kCapabilityInt64, spirv::kCapabilityPhysicalStorageBufferAddresses, spirv::kCapabilityShader;
  std::set<uint32_t> base{kCapabilityShader, kCapabilityInt64, kCapabilityPhysicalStorageBufferAddresses};
  BOOST_TEST(capabilities(render(test::vector_add(), "")) == base);
  std::set<uint32_t> with_i8 = base;
  with_i8.insert({spirv::kCapabilityInt8, spirv::kCapabilityStorageBuffer8BitAccess});
  BOOST_TEST(capabilities(render(test::alu_kernel(TOLK_IR_ADD, DType::U8, 1), "")) == with_i8);
  std::set<uint32_t> with_f64 = base;
  with_f64.insert(spirv::kCapabilityFloat64);
  KernelIR quotient = test::alu_kernel(TOLK_IR_FDIV, DType::F32, 1);
  BOOST_TEST(capabilities(render(quotient, "")) == base);
  BOOST_TEST(capabilities(render(quotient, "+f64")) == with_f64);
}

// The sum of 100 * 1000 + 30 * 40 elements: 101,230 iterations.
KernelIR long_loops() {
  KernelBuilder b("long");
  Id out = b.buffer(DType::I32, true), x = b.buffer(DType::I32, false), n = b.value(DType::I32, 0, 40);
  Id acc = b.registers(DType::I32, 1), i0 = b.index(0);
  b.store(acc, i0, i0);
  Id i = b.loop(100), j = b.loop(1000);
  b.store(acc, i0, b.add(b.load(acc, i0), b.load(x, b.iadd(b.imul(i, b.index(1000)), j))));
  b.end(j);
  b.end(i);
  Id r = b.loop(30), c = b.range(n);
  b.store(acc, i0, b.add(b.load(acc, i0), b.load(x, b.iadd(r, c))));
  b.end(c);
  b.end(r);
  b.store(out, i0, b.load(acc, i0));
  return b.kernel;
}

BOOST_AUTO_TEST_CASE(loops_are_unrolled_until_they_keep_to_the_drivers_limit,
                     *boost::unit_test::precondition(has_tools)) {
  auto loops = [](const std::string& bytes) {
    size_t count = 0;
    for (size_t at = 0; at < bytes.size(); at += 4) {
      uint32_t word;
      std::memcpy(&word, bytes.data() + at, 4);
      count += word == (4u << 16 | spirv::kOpLoopMerge);
    }
    return count;
  };
  BOOST_TEST(render(long_loops(), "") == render(long_loops(), "+loops=200000"));
  BOOST_TEST(loops(render(long_loops(), "+loops=65000")) == 4u);
  BOOST_TEST(render(long_loops(), "+loops=65000").size() > render(long_loops(), "").size());
  BOOST_CHECK_EXCEPTION(render(long_loops(), "+loops=10"), CompileError, [](const CompileError& e) {
    return std::string(e.what()).find("kernel long: a work-item goes round loops") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(the_renderer_is_found_by_kind_and_dialect) {
  tolk_target target{};
  target.kind = TOLK_TARGET_SPIRV;
  target.dialect = "vulkan1.2";
  const Renderer* renderer = find_renderer(target);
  BOOST_REQUIRE(renderer);
  BOOST_TEST(!renderer->is_text);
  BOOST_TEST(renderer->render(test::vector_add(), {}) == render(test::vector_add(), ""));
  target.dialect = "vulkan9";
  BOOST_TEST(!find_renderer(target));
}

#ifdef TOLK_HAS_SPIRV_HEADERS
BOOST_AUTO_TEST_CASE(numbers_are_those_of_the_khronos_headers) {
  using KhronosOp = spv::Op;
  using KhronosCapability = spv::Capability;
  using KhronosMode = spv::ExecutionMode;
  using KhronosDecoration = spv::Decoration;
  using KhronosClass = spv::StorageClass;
  using KhronosBuiltIn = spv::BuiltIn;
#define TOLK_SPIRV(group, NAME, value)                                                                       \
  BOOST_TEST(static_cast<uint32_t>(Khronos##group::KHRONOS_NAME(group, NAME)) == uint32_t{value});
#define KHRONOS_NAME(group, NAME) KHRONOS_NAME_##group(NAME)
#define KHRONOS_NAME_Op(NAME) Op##NAME
#define KHRONOS_NAME_Capability(NAME) NAME
#define KHRONOS_NAME_Mode(NAME) NAME
#define KHRONOS_NAME_Decoration(NAME) NAME
#define KHRONOS_NAME_Class(NAME) NAME
#define KHRONOS_NAME_BuiltIn(NAME) NAME
#include "tolk/render/spirv/numbers.def"
#undef TOLK_SPIRV
}
#endif

} // namespace
} // namespace tolk
