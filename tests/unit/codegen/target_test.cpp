// What a target has, and the key that stands for it.
#include <boost/test/unit_test.hpp>

#include <tolk/plugin/target.h>

#include "tolk/codegen/target.h"

using namespace tolk;
using namespace tolk::codegen;

namespace {

void change(std::string& field) { field += "x"; }
void change(bool& field) { field = !field; }
void change(std::integral auto& field) { ++field; }
void change(LaunchSizes& field) { ++field[2]; }

} // namespace

BOOST_AUTO_TEST_SUITE(target)

BOOST_AUTO_TEST_CASE(every_field_changes_the_digest) {
#define TOLK_TARGET(type, name, ...)                                                                         \
  {                                                                                                          \
    Target changed;                                                                                          \
    change(changed.name);                                                                                    \
    BOOST_TEST(changed.digest() != Target().digest(), #name);                                                \
  }
#include "tolk/codegen/target.def"
#undef TOLK_TARGET
  BOOST_TEST(Target().digest() == Target().digest());
}

BOOST_AUTO_TEST_CASE(operations_have_the_opcode_of_their_name) {
  BOOST_TEST(ir_opcode(Op::ADD) == TOLK_IR_ADD);
  BOOST_TEST(ir_opcode(Op::COS) == TOLK_IR_COS);
  BOOST_TEST(ir_opcode(Op::STACK) == TOLK_IR_BUILD);
  BOOST_TEST(ir_opcode(Op::RECIPROCAL) == 0);
}

BOOST_AUTO_TEST_CASE(only_features_may_be_missing) {
  Target t;
  t.features = TOLK_FEATURE_SQRT;
  BOOST_TEST(t.has(Op::SQRT));
  BOOST_TEST(!t.has(Op::MULACC));
  BOOST_TEST(!t.has(Op::COS));
  BOOST_TEST(t.has(Op::ADD));
  BOOST_TEST(t.has(Op::RECIPROCAL));
}

BOOST_AUTO_TEST_SUITE_END()
