// Nodes of values on several devices: names, shapes and devices.
#include <boost/test/unit_test.hpp>

#include "tolk/uop/build.h"
#include "tolk/uop/spec.h"

using namespace tolk;

BOOST_AUTO_TEST_CASE(device_tuples_are_texts_with_commas) {
  std::vector<std::string> two = {"CPU", "CPU:1"}, one = {"CPU"};
  BOOST_TEST(join_devices(two) == "CPU,CPU:1");
  BOOST_TEST(split_devices("CPU,CPU:1") == two, boost::test_tools::per_element());
  BOOST_TEST(split_devices("CPU") == one, boost::test_tools::per_element());
  BOOST_TEST(is_multi("CPU,CPU"));
  BOOST_TEST(!is_multi("CPU:1"));
}

BOOST_AUTO_TEST_CASE(shapes_and_devices_of_parts) {
  UOp b = reshape(buffer_node(fresh_user_slot(), DType::F32, 8, "A,B:1"), {2, 4});
  UOp whole = multi(b, 0, 2);
  BOOST_TEST((shape_of(whole) == Shape{4, 4}));
  BOOST_TEST(device_of(whole) == "A,B:1");
  BOOST_TEST((storage_of(whole) == b.src(0)));
  UOp second = mselect(b, 1);
  BOOST_TEST((shape_of(second) == Shape{2, 4}));
  BOOST_TEST(device_of(alu(Op::NEG, second)) == "B:1");
  UOp parts[] = {copy_to(second, "C"), second};
  UOp joined = mstack(parts);
  BOOST_TEST(device_of(joined) == "C,B:1");
  BOOST_TEST(elements_of(mselect(b.src(0), 0)) == 8);
  BOOST_TEST((shape_of(allreduce(b, Op::MAX)) == Shape{2, 4}));
  BOOST_TEST(int(allreduce_op(allreduce(b, Op::MAX))) == int(Op::MAX));
  UOp position = device_position(3);
  BOOST_TEST(position.vmax() == 2);
  BOOST_TEST(var_name(position) == "_device_num");
}
