// Content keys.
#include <boost/test/unit_test.hpp>

#include <set>

#include "tolk/uop/arena.h"
#include "tolk/uop/build.h"
#include "tolk/uop/key.h"
#include "tolk/uop/print.h"

using namespace tolk;

namespace {

UOp kernel(int64_t size, int64_t slot = 1, DType dtype = DType::F32, double factor = 2.0) {
  UOp l = range_node(size, 0, AxisType::Loop);
  UOp value = alu(Op::MUL, load(param_node(slot, dtype, size), l), constant(dtype, factor));
  std::vector<UOp> loops{l}, effects{end(store(param_node(0, dtype, size), l, value), loops)};
  return kernel_sink(effects);
}

} // namespace

BOOST_AUTO_TEST_CASE(equal_graphs_have_equal_keys_wherever_they_live) {
  ContentKey here = graph_key(kernel(64));
  UOp unrelated = kernel(999); // other ids from here on
  BOOST_TEST((graph_key(kernel(64)) == here));
  BOOST_TEST((graph_key(parse_graph(print(kernel(64)))) == here));
  Arena arena;
  ArenaScope scope(&arena);
  index_const(123456);
  BOOST_TEST((graph_key(kernel(64)) == here));
}

BOOST_AUTO_TEST_CASE(every_part_of_a_graph_is_part_of_its_key) {
  UOp x = param_node(1, DType::F32, 8), y = param_node(2, DType::F32, 8);
  std::vector<UOp> all = {kernel(64),
                          kernel(65),
                          kernel(64, 2),
                          kernel(64, 1, DType::F64),
                          kernel(64, 1, DType::F32, 3.0),
                          kernel(64, 1, DType::F32, -0.0),
                          kernel(64, 1, DType::F32, 0.0),
                          alu(Op::ADD, x, y),
                          alu(Op::ADD, y, x),
                          alu(Op::ADD, x, x),
                          alu(Op::MUL, x, y),
                          make(Op::ADD, DType::F32, {x, y}, {}, 4),
                          make(Op::ADD, DType::F32, {x, y}, Arg(std::vector<int64_t>{})),
                          make(Op::ADD, DType::F32, {x, y}, Arg(1)),
                          variable("n", 1, 8),
                          variable("m", 1, 8),
                          variable("n", 1, 9),
                          variable("n", 1, 8, 2),
                          range_node(4, 0, AxisType::Loop),
                          range_node(4, 0, AxisType::Reduce),
                          range_node(4, 1, AxisType::Loop),
                          buffer_node(1, DType::F32, 8, "CPU"),
                          buffer_node(1, DType::F32, 8, "CPU:1"),
                          buffer_node(2, DType::F32, 8, "CPU")};
  std::set<ContentKey> keys;
  for (const UOp& u : all) BOOST_TEST(keys.insert(graph_key(u)).second, print(u));
}

BOOST_AUTO_TEST_CASE(sharing_does_not_change_what_a_graph_says) {
  // The same node used twice, and a deep chain of such, are keyed by structure in linear time.
  UOp x = param_node(1, DType::F32, 8);
  for (int i = 0; i < 60; ++i) x = alu(Op::ADD, x, x); // 2^60 paths
  UOp y = param_node(1, DType::F32, 8);
  for (int i = 0; i < 59; ++i) y = alu(Op::ADD, y, y);
  BOOST_TEST((graph_key(x) == graph_key(alu(Op::ADD, y, y))));
  BOOST_TEST((graph_key(x) != graph_key(y)));
}

BOOST_AUTO_TEST_CASE(several_roots_are_keyed_in_order) {
  UOp a = kernel(4), b = kernel(5);
  std::vector<UOp> ab{a, b}, ba{b, a}, just_a{a};
  BOOST_TEST((graph_key(ab) != graph_key(ba)));
  BOOST_TEST((graph_key(ab) != graph_key(a)));
  BOOST_TEST((graph_key(just_a) == graph_key(a)));
}
