#include <functional>

#include <boost/test/unit_test.hpp>

#include "parse_kernel.h"
#include "sample_kernels.h"
#include "thrown.h"
#include "tolk/base/error.h"

using namespace tolk;

namespace {

bool accepts(const KernelIR& k) {
  try {
    verify(k);
    return true;
  } catch (const InternalError&) {
    return false;
  }
}

std::string complaint(const KernelIR& k) {
  return test::message_of<InternalError>([&] { verify(k); });
}

KernelIR kernel_of(const std::string& lines) {
  return test::parse_kernel_ir(
      "kernel k\nparam buffer f32 rw 64\nparam buffer f32 r 64\nparam buffer i32 w 64\n"
      "param value i32 0 9\n" +
      lines);
}

// Operations that the rejected fragments below build on.
const char* const kPrelude =
    "%0 = PARAM f32 [0]\n%1 = PARAM f32 [1]\n%2 = PARAM i32 [2]\n%3 = PARAM i32 [3]\n"
    "%4 = CONST i32 1\n%5 = CONST f32 0\n%6 = CONST bool 1\n%7 = CONST f32x4 0\n"
    "%8 = CONST i64 1\n%9 = CONST boolx2 1\n";

} // namespace

BOOST_AUTO_TEST_SUITE(verifier)

BOOST_AUTO_TEST_CASE(good_kernels_pass) {
  BOOST_CHECK_NO_THROW(verify(test::every_opcode()));
  BOOST_CHECK_NO_THROW(verify(test::vector_add()));
  BOOST_CHECK_NO_THROW(verify(kernel_of(kPrelude)));
}

// Changes each field of each operation of a kernel in which every value matters for a type or a place.
BOOST_AUTO_TEST_CASE(a_change_of_any_single_field_is_rejected) {
  const KernelIR good = test::every_opcode();
  for (size_t i = 0; i < good.ops.size(); i++) {
    auto rejects = [&](const char* field, const std::function<void(tolk_ir_op&)>& change) {
      KernelIR bad = good;
      change(bad.ops[i]);
      BOOST_TEST(!accepts(bad), "op " << i << " (" << ir_op_name(good.ops[i].opcode) << "): " << field);
    };
    rejects("opcode unknown", [](tolk_ir_op& o) { o.opcode = 63 + 64; });
    rejects("opcode 0", [](tolk_ir_op& o) { o.opcode = 0; });
    rejects("dtype unknown", [](tolk_ir_op& o) { o.dtype = 99; });
    rejects("dtype other", [](tolk_ir_op& o) { o.dtype = TOLK_DTYPE_I4; });
    rejects("flags unknown", [](tolk_ir_op& o) { o.flags |= 2; });
    rejects("no lanes", [](tolk_ir_op& o) { o.lanes = 0; });
    rejects("one source more", [](tolk_ir_op& o) { o.source_count++; });
    rejects("first source", [](tolk_ir_op& o) { o.first_source++; });
    rejects("first attribute", [](tolk_ir_op& o) { o.first_attr += 7; });
    rejects("reserved", [](tolk_ir_op& o) { o.reserved = 1; });
    if (good.ops[i].source_count > 0) rejects("one source less", [](tolk_ir_op& o) { o.source_count--; });
    // A wider constant or storage is a change of meaning only where somebody reads it.
    rejects("lanes", [](tolk_ir_op& o) { o.lanes += 3; });
  }
  for (size_t i = 0; i < good.sources.size(); i++) {
    KernelIR bad = good;
    bad.sources[i] = static_cast<uint32_t>(good.ops.size()) - 1;
    BOOST_TEST(!accepts(bad), "source " << i);
    bad.sources[i] = UINT32_MAX;
    BOOST_TEST(!accepts(bad), "source " << i);
  }
  for (size_t i = 0; i < good.params.size(); i++) {
    auto rejects = [&](const char* field, const std::function<void(tolk_param&)>& change) {
      KernelIR bad = good;
      change(bad.params[i]);
      BOOST_TEST(!accepts(bad), "param " << i << ": " << field);
    };
    rejects("kind", [](tolk_param& p) { p.kind = 2; });
    rejects("other kind", [](tolk_param& p) { p.kind = 1 - p.kind; });
    rejects("access", [](tolk_param& p) { p.access = 4; });
    rejects("dtype", [](tolk_param& p) { p.dtype = TOLK_DTYPE_F64; });
    rejects("reserved", [](tolk_param& p) { p.reserved = 1; });
    rejects("min", [](tolk_param& p) { p.min = p.kind == TOLK_PARAM_VALUE ? p.max : 1, p.max = p.min - 1; });
  }
  KernelIR bad = good;
  bad.name = "a b";
  BOOST_TEST(!accepts(bad));
  bad.name = "";
  BOOST_TEST(!accepts(bad));
  bad = good;
  bad.sources.push_back(0);
  BOOST_TEST(!accepts(bad));
  bad = good;
  bad.attrs.push_back(0);
  BOOST_TEST(!accepts(bad));
}

BOOST_AUTO_TEST_CASE(each_rule_rejects_its_violation) {
  const char* const fragments[] = {
      // storage
      "%10 = ADD f32 %0 %0",
      "%10 = LOAD f32 %5 %4",
      "%10 = LOAD i32 %0 %4",
      "%10 = LOAD f32 %0 %5",
      "%10 = LOAD f32 %0 %4 %6",
      "%10 = LOAD f32 %0 %4 %4 %5",
      "%10 = LOAD f32 %0 %4 %6 %7",
      "%10 = LOAD f32x4 %0 %4 %9 %7",
      "%10 = LOAD i32 %2 %4",
      "%10 = STORE f32 %1 %4 %5",
      "%10 = STORE f32 %0 %4 %7",
      "%10 = STORE f32 %0 %4 %4",
      "%10 = STORE f32 %0 %5 %5",
      "%10 = STORE f32 %0 %4 %5\n%11 = NEG f32 %10",
      "%10 = DEFINE_REG f32x4 [2]\n%11 = LOAD f32 %10 %4",
      "%10 = DEFINE_REG f32x4 [2]\n%11 = SPLAT i32x4 %4\n%12 = LOAD f32x4 %10 %11",
      "%10 = DEFINE_REG f32 [0]",
      "%10 = DEFINE_LOCAL f32x2 [4]",
      "%10 = RANGE i32 %4\n%11 = DEFINE_LOCAL f32 [4]\n%12 = END %10",
      "%10 = PARAM f32 [2]",
      "%10 = PARAM i32 [9]",
      "%10 = PARAM f32x2 [0]",
      // indices and constants
      "%10 = SPECIAL i32 [3, 0]",
      "%10 = SPECIAL i32 [259, 0]",
      "%10 = SPECIAL f32 [0, 0]",
      "%10 = SPECIAL i32 [0, 4294967296]",
      "%10 = CONST bool 2",
      // blocks
      "%10 = RANGE i32 %4",
      "%10 = RANGE i32 %8\n%11 = END %10",
      "%10 = RANGE f32 %5\n%11 = END %10",
      "%10 = IF %4\n%11 = ENDIF %10",
      "%10 = IF %9\n%11 = ENDIF %10",
      "%10 = IF %6",
      "%10 = IF %6\n%11 = END %10",
      "%10 = RANGE i32 %4\n%11 = ENDIF %10",
      "%10 = END %4",
      "%10 = RANGE i32 %4\n%11 = IF %6\n%12 = END %10\n%13 = ENDIF %11",
      "%10 = RANGE i32 %4\n%11 = END %10\n%12 = END %10",
      "%10 = RANGE i32 %4\n%11 = END %10\n%12 = NEG i32 %10",
      "%10 = RANGE i32 %4\n%11 = NEG i32 %4\n%12 = END %10\n%13 = NEG i32 %11",
      "%10 = IF %6\n%11 = NEG i32 %4\n%12 = ENDIF %10\n%13 = NEG i32 %11",
      ("%10 = RANGE i32 %4\n%11 = NEG i32 %4\n%12 = END %10\n%13 = RANGE i32 %4\n%14 = NEG i32 %11\n%15 = "
       "END "
       "%13"),
      "%10 = IF %6\n%11 = BARRIER\n%12 = ENDIF %10",
      "%10 = IF %6\n%11 = RANGE i32 %4\n%12 = BARRIER\n%13 = END %11\n%14 = ENDIF %10",
      // vectors
      "%10 = SPLAT f32x4 %7",
      "%10 = SPLAT i32x4 %5",
      "%10 = BUILD f32x4 %5 %5",
      "%10 = BUILD f32x2 %5 %4",
      "%10 = EXTRACT f32 %7 [4]",
      "%10 = EXTRACT f32x2 %7 [0]",
      // conversions
      "%10 = CAST f32 %5",
      "%10 = CAST i32x4 %5",
      "%10 = BITCAST i64 %5",
      "%10 = BITCAST f32 %5",
      // arithmetic
      "%10 = ADD f32 %5 %4",
      "%10 = ADD f32x4 %7 %5",
      "%10 = ADD bool %6 %6",
      "%10 = NEG bool %6",
      "%10 = ADD.nw f32 %5 %5",
      "%10 = XOR.nw i32 %4 %4",
      "%10 = FDIV i32 %4 %4",
      "%10 = CDIV f32 %5 %5",
      "%10 = CMOD bool %6 %6",
      "%10 = SHL f32 %5 %5",
      "%10 = SHR i32 %4 %8",
      "%10 = AND f32 %5 %5",
      "%10 = CMPLT i32 %4 %4",
      "%10 = CMPEQ bool %4 %5",
      "%10 = CMPNE bool %7 %7",
      "%10 = WHERE f32 %4 %5 %5",
      "%10 = WHERE f32x4 %9 %7 %7",
      "%10 = WHERE f32 %6 %5 %4",
      "%10 = SQRT i32 %4",
      "%10 = EXP2 f32x4 %5",
      "%10 = MULACC f32 %5 %5",
  };
  for (const char* fragment : fragments)
    BOOST_TEST(!accepts(kernel_of(std::string(kPrelude) + fragment)), fragment);
}

BOOST_AUTO_TEST_CASE(what_the_rules_allow_passes) {
  const char* const fragments[] = {
      "%10 = LOAD f32x4 %0 %4 %6 %7",
      "%10 = SPLAT i32x4 %4\n%11 = LOAD f32x4 %0 %10",
      "%10 = LOAD f32 %0 %8",
      "%10 = STORE f32x4 %0 %4 %7 %6",
      "%10 = DEFINE_REG f32x4 [2]\n%11 = LOAD f32x4 %10 %4",
      "%10 = DEFINE_REG f32 [8]\n%11 = LOAD f32x4 %10 %4",
      "%10 = RANGE i32 %4\n%11 = DEFINE_REG f32 [8]\n%12 = BARRIER\n%13 = END %10",
      "%10 = MAX bool %6 %6",
      "%10 = CAST bool %5",
      "%10 = BITCAST u8 %6",
      "%10 = WHERE f32x4 %6 %7 %7",
      "%10 = IF %6\n%11 = RANGE i32 %3\n%12 = STORE i32 %2 %11 %4\n%13 = END %11\n%14 = ENDIF %10",
  };
  for (const char* fragment : fragments)
    BOOST_CHECK_NO_THROW(verify(kernel_of(std::string(kPrelude) + fragment)));
}

BOOST_AUTO_TEST_CASE(value_ranges_stay_inside_the_dtype) {
  auto with = [](const char* param) {
    return accepts(test::parse_kernel_ir(std::string("kernel k\nparam ") + param));
  };
  BOOST_TEST(with("value u8 0 255"));
  BOOST_TEST(!with("value u8 0 256"));
  BOOST_TEST(!with("value u8 -1 5"));
  BOOST_TEST(with("value i8 -128 127"));
  BOOST_TEST(!with("value i8 -129 0"));
  BOOST_TEST(with("value u64 0 9223372036854775807"));
  BOOST_TEST(with("value i64 -9223372036854775808 9223372036854775807"));
  BOOST_TEST(!with("value f32 0 1"));
  BOOST_TEST(!with("value bool 0 1"));
  BOOST_TEST(!with("value i4 0 1"));
  BOOST_TEST(!with("value i32 1 0"));
  BOOST_TEST(!with("value i32 0 1\nparam buffer f32 r 1"));
}

BOOST_AUTO_TEST_CASE(the_message_prints_the_operation) {
  KernelIR k = kernel_of(std::string(kPrelude) + "%10 = ADD f32x4 %7 %5");
  std::string text = complaint(k);
  BOOST_TEST(text.find("%10 = ADD f32x4 %7 %5") != std::string::npos, text);
  BOOST_TEST(text.find("kernel k") != std::string::npos, text);
}

BOOST_AUTO_TEST_SUITE_END()
