// The text form reads back to the same node.
#include <boost/test/unit_test.hpp>

#include "random_expr.h"
#include "thrown.h"
#include "tolk/base/error.h"
#include "tolk/uop/arena.h"
#include "tolk/uop/print.h"

using namespace tolk;
using namespace tolk::testing;

namespace {

// Random nodes of every op, dtype, lane count and arg form; well-formed only in the number of sources.
UOp random_graph(RandomExpr& random, int size) {
  std::vector<UOp> nodes{constant(DType::F32, -0.0)};
  for (int i = 0; i < size; ++i) {
    Op op = Op(random.pick(0, kOpCount - 1));
    const OpInfo& info = op_info(op);
    int64_t count = info.max_sources < 0 ? info.min_sources + random.pick(0, 3)
                                         : random.pick(info.min_sources, info.max_sources);
    std::vector<UOp> src;
    for (int64_t k = 0; k < count; ++k)
      src.push_back(nodes[size_t(random.pick(0, int64_t(nodes.size()) - 1))]);
    Arg arg;
    if (random.pick(0, 1)) arg.word = uint64_t(random.pick(INT64_MIN, INT64_MAX));
    bool storage = OpSet(Op::PARAM, Op::BUFFER, Op::SLICE, Op::DEFINE_LOCAL, Op::DEFINE_REG).has(op);
    if (random.pick(0, 2) == 0 || op == Op::VAR || storage) {
      std::vector<int64_t> ints{random.pick(-5, 5), random.pick(5, 9), INT64_MIN};
      std::vector<std::string> texts;
      static const char* samples[] = {"CPU", "", "a b", "quote\" and \\", "line\nbreak", "\xC3\xA9"};
      for (int64_t k = random.pick(op == Op::VAR || storage ? 1 : 0, 2); k > 0; --k)
        texts.push_back(samples[random.pick(0, 5)]);
      uint64_t word = arg.word;
      arg = Arg(ints, texts);
      arg.word = word;
    }
    if (op == Op::CONST) arg = Arg(arg.word);
    nodes.push_back(make(op, DType(random.pick(0, int64_t(DType::Void))), src, arg,
                         int(random.pick(0, 3) ? 1 : random.pick(2, 16))));
  }
  return make(Op::SINK, DType::Void, nodes);
}

std::string error_of(const char* text) {
  return test::message_of<FormatError>([&] { parse_graph(text); });
}

} // namespace

BOOST_AUTO_TEST_CASE(random_graphs_survive_printing_and_reading) {
  uint64_t seed = test_seed();
  BOOST_TEST_MESSAGE("seed " << seed);
  RandomExpr random(seed);
  for (int i = 0; i < 300; ++i) {
    UOp root = random_graph(random, 30);
    std::string text = print(root);
    UOp back = parse_graph(text);
    BOOST_REQUIRE_MESSAGE(back == root, "seed " << seed << ", graph " << i << ":\n"
                                                << text << "read back as\n"
                                                << print(back));
  }
}

BOOST_AUTO_TEST_CASE(a_graph_can_be_read_into_an_arena) {
  UOp x = alu(Op::ADD, buffer_node(3, DType::F32, 32, "CPU"), constant(DType::F32, 1.5));
  Arena arena;
  ArenaScope scope(&arena);
  UOp y = parse_graph(print(x));
  BOOST_TEST(y.in_arena());
  BOOST_TEST((y == import_graph(x)));
}

BOOST_AUTO_TEST_CASE(errors_name_line_and_column) {
  BOOST_TEST(error_of("%0 = CONST f32 #0\n%1 = NONSENSE f32 %0\n").find("line 2") != std::string::npos);
  BOOST_TEST(error_of("%0 = CONST f32 #0\n%1 = NEG f32 %7\n").find("%7") != std::string::npos);
  BOOST_TEST(error_of("%0 = CONST f99 #0\n").find("f99") != std::string::npos);
  BOOST_TEST(error_of("%0 = ADD f32\n").find("line 1") != std::string::npos);
  BOOST_TEST(error_of("").find("at least one") != std::string::npos);
  BOOST_TEST(error_of("%0 = CONST f32 #0 junk").find("column") != std::string::npos);
  BOOST_TEST(error_of("%0 = BUFFER f32 [0 4] {\"CPU").find("column") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(damaged_text_is_an_error_and_no_crash) {
  UOp root =
      alu(Op::ADD, variable("n", 1, 9) + 3, alu(Op::FLOORDIV, variable("m", -2, 9, 2), index_const(2)));
  std::string text = print(root);
  RandomExpr random(7);
  for (int i = 0; i < 4000; ++i) {
    std::string damaged = text;
    damaged[size_t(random.pick(0, int64_t(text.size()) - 1))] = char(random.pick(32, 126));
    if (random.pick(0, 3) == 0) damaged.resize(size_t(random.pick(0, int64_t(text.size()))));
    try {
      parse_graph(damaged);
    } catch (const FormatError&) {
    }
  }
}

BOOST_AUTO_TEST_CASE(expressions_print_as_people_write_them) {
  UOp l = range_node(4, 1, AxisType::Loop), r = range_node(8, 0, AxisType::Reduce), n = variable("n", 1, 9);
  BOOST_TEST(print_expr(l * 8 + r) == "L1*8+R0");
  BOOST_TEST(print_expr((l + r) * 2) == "(L1+R0)*2");
  BOOST_TEST(print_expr(floormod(floordiv(l, index_const(2)), n)) == "L1//2%n");
  BOOST_TEST(print_expr(less(l, n)) == "L1<n");
  UOp p = param_node(1, DType::F32, 32);
  BOOST_TEST(print_expr(load(p, l * 8 + r, less(r, index_const(3)))) == "p1[L1*8+R0 gated R0<3]");
}
