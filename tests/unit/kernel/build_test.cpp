#include <set>

#include <boost/test/unit_test.hpp>

#include "sample_kernels.h"
#include "tolk/base/error.h"

using namespace tolk;

BOOST_AUTO_TEST_SUITE(build)

BOOST_AUTO_TEST_CASE(the_sample_holds_every_opcode) {
  std::set<uint16_t> seen, all;
  for (const tolk_ir_op& op : test::every_opcode().ops) seen.insert(op.opcode);
#define TOLK_IR(NAME, code, lo, hi, meaning) all.insert(code);
#include <tolk/plugin/kernel_ir_ops.def>
#undef TOLK_IR
  BOOST_TEST(seen == all, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(names_and_attribute_counts_of_opcodes) {
  BOOST_TEST(ir_op_name(TOLK_IR_MULACC) == "MULACC");
  BOOST_TEST(ir_op_name(TOLK_IR_COS) == "COS");
  BOOST_TEST(ir_op_name(0) == "UNKNOWN");
  BOOST_TEST(ir_op_name(65535) == "UNKNOWN");
  BOOST_TEST(ir_attr_count(TOLK_IR_SPECIAL) == 2);
  BOOST_TEST(ir_attr_count(TOLK_IR_EXTRACT) == 1);
  BOOST_TEST(ir_attr_count(TOLK_IR_LOAD) == 0);
  BOOST_TEST(ir_attr_count(6) == -1);
}

BOOST_AUTO_TEST_CASE(add_gives_consecutive_numbers_and_canonical_records) {
  KernelIR k;
  k.name = "k";
  BOOST_TEST(k.add(TOLK_IR_CONST, DType::I16, 3, {}, {0xffffffffffffff85u}) == 0u);
  BOOST_TEST(k.add(TOLK_IR_CONST, DType::I64, 1, {}, {0xffffffffffffff85u}) == 1u);
  BOOST_TEST(k.add(TOLK_IR_ADD, DType::I16, 3, {0, 0}) == 2u);
  BOOST_TEST(k.add(TOLK_IR_BARRIER, DType::F32, 9, {}) == 3u);
  BOOST_TEST(k.attr(k.ops[0]) == 0xff85u); // bits above i16 are cleared
  BOOST_TEST(k.attr(k.ops[1]) == 0xffffffffffffff85u);
  BOOST_TEST(k.sources_of(k.ops[2]).size() == 2u);
  BOOST_TEST(k.ops[3].dtype == TOLK_DTYPE_NONE);
  BOOST_TEST(k.ops[3].lanes == 1);
  BOOST_TEST(k.ops[3].first_source == 2u);
  BOOST_TEST(k.ops[3].first_attr == 2u);
}

BOOST_AUTO_TEST_CASE(add_refuses_what_has_no_record) {
  KernelIR k;
  BOOST_CHECK_THROW(k.add(7, DType::F32, 1, {}), InternalError);
  BOOST_CHECK_THROW(k.add(TOLK_IR_CONST, DType::F32, 1, {}), InternalError);
  BOOST_CHECK_THROW(k.add(TOLK_IR_BARRIER, DType::Void, 1, {}, {1}), InternalError);
  BOOST_CHECK_THROW(k.add(TOLK_IR_CONST, DType::Index, 1, {}, {1}), InternalError);
  BOOST_CHECK_THROW(k.add(TOLK_IR_CONST, DType::Void, 1, {}, {1}), InternalError);
  std::vector<uint32_t> many(65536, 0);
  BOOST_CHECK_THROW(k.add(TOLK_IR_BUILD, DType::F32, 1, many), InternalError);
  BOOST_TEST(k.ops.empty());
}

BOOST_AUTO_TEST_CASE(the_view_shows_the_arrays) {
  KernelIR k = test::vector_add();
  tolk_kernel_ir v = k.view();
  BOOST_TEST(v.struct_size == sizeof v);
  BOOST_TEST(v.version == 0x10000u);
  BOOST_TEST(v.op_count == k.ops.size());
  BOOST_TEST(v.param_count == 2u);
  BOOST_TEST(v.name == std::string("e_64_8"));
  BOOST_TEST(v.sources[v.ops[5].first_source + 1] == 4u);
}

BOOST_AUTO_TEST_SUITE_END()
