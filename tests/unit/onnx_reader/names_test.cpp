#include "../io/io_fixtures.h"
#include "model_builder.h"
#include "tolk/base/error.h"
#include "tolk/onnx/reader.h"

using namespace tolk;
using namespace tolk::onnx;
using namespace tolk::test;

namespace {

ModelFile parse(const GraphParts& parts, const std::vector<Message>& functions = {}) {
  return parse_model(bytes_of(model(test::graph(parts), functions).bytes()), "m.onnx", nullptr);
}

std::string order(const Graph& g) {
  std::string text;
  for (const Node& n : g.nodes) text += n.op_type;
  return text;
}

} // namespace

BOOST_AUTO_TEST_SUITE(names)

BOOST_AUTO_TEST_CASE(nodes_out_of_order_are_sorted_and_others_stay) {
  BOOST_TEST(order(parse({{node("B", {"a"}, {"b"}), node("A", {"x"}, {"a"})}, {}, {}, {"x"}, {"b"}}).graph) ==
             "AB");
  BOOST_TEST(order(parse({{node("C", {}, {"c"}), node("A", {"x"}, {"a"}), node("B", {"a"}, {"b"})},
                          {},
                          {},
                          {"x"},
                          {"b"}})
                       .graph) == "CAB");
}

BOOST_AUTO_TEST_CASE(a_node_waits_for_what_its_body_reads) {
  Message body = test::graph({{node("Neg", {"late"}, {"r"})}, {}, {}, {}, {"r"}});
  GraphParts parts{{node("If", {"c"}, {"y"}, {attribute("then_branch", 5).message(6, body)}),
                    node("Late", {"c"}, {"late"})},
                   {},
                   {},
                   {"c"},
                   {"y"}};
  BOOST_TEST(order(parse(parts).graph) == "LateIf");
}

BOOST_AUTO_TEST_CASE(a_name_that_a_body_defines_itself_is_no_reason_to_wait) {
  // "t" exists inside the body and, later, outside of it; no cycle follows from that.
  Message body = test::graph({{node("Neg", {"c"}, {"t"}), node("Neg", {"t"}, {"r"})}, {}, {}, {}, {"r"}});
  GraphParts parts{
      {node("If", {"c"}, {"y"}, {attribute("b", 5).message(6, body)}), node("Use", {"y"}, {"t"})},
      {},
      {},
      {"c"},
      {"t"}};
  BOOST_TEST(order(parse(parts).graph) == "IfUse");
}

BOOST_AUTO_TEST_CASE(faults_of_names_are_reported_with_the_node) {
  expect_error<FormatError>([] { parse({{node("A", {"nowhere"}, {"a"})}, {}, {}, {}, {"a"}}); },
                            {"m.onnx: graph.node[0] (A)", "nothing defines the input \"nowhere\""});
  expect_error<FormatError>([] { parse({{node("A", {}, {"a"}), node("B", {}, {"a"})}, {}, {}, {}, {"a"}}); },
                            {"graph.node[1] (B)", "\"a\" is defined before already"});
  expect_error<FormatError>([] { parse({{node("A", {"a"}, {"a"})}, {}, {}, {}, {"a"}}); },
                            {"nothing defines the input \"a\""});
  expect_error<FormatError>(
      [] { parse({{node("A", {"b"}, {"a"}), node("B", {"a"}, {"b"})}, {}, {}, {}, {"a"}}); },
      {"waits for its own result"});
  expect_error<FormatError>([] { parse({{}, {}, {}, {"x", "x"}, {}}); },
                            {"graph", "two inputs have the name \"x\""});
  expect_error<FormatError>([] { parse({{}, {}, {}, {"x"}, {"y"}}); }, {"nothing defines the output \"y\""});
  Message body = test::graph({{node("Neg", {"nowhere"}, {"r"})}, {}, {}, {}, {"r"}});
  expect_error<FormatError>(
      [&] {
        parse({{node("If", {"c"}, {"y"}, {attribute("b", 5).message(6, body)})}, {}, {}, {"c"}, {"y"}});
      },
      {"graph.node[0].attribute[0].graph[0].node[0] (Neg)", "\"nowhere\""});
  Message f = Message().text(1, "F").text(4, "a").text(5, "z");
  expect_error<FormatError>([&] { parse({}, {f}); }, {"functions[0] \"F\"", "output \"z\""});
}

BOOST_AUTO_TEST_CASE(bodies_see_outer_names_and_may_repeat_them) {
  Message body = test::graph({{node("Neg", {"x"}, {"y"})}, {}, {}, {}, {"y"}});
  BOOST_CHECK_NO_THROW(
      parse({{node("If", {"x"}, {"y"}, {attribute("b", 5).message(6, body)})}, {}, {}, {"x"}, {"y"}}));
  Message direct = test::graph({{}, {}, {}, {}, {"x"}}); // a branch that gives an outer value as it is
  BOOST_CHECK_NO_THROW(
      parse({{node("If", {"x"}, {"y"}, {attribute("b", 5).message(6, direct)})}, {}, {}, {"x"}, {"y"}}));
}

BOOST_AUTO_TEST_CASE(empty_names_define_and_read_nothing) {
  BOOST_CHECK_NO_THROW(
      parse({{node("A", {"", "x"}, {"", "a"}), node("B", {""}, {"", "b"})}, {}, {}, {"x"}, {"a", "b"}}));
}

BOOST_AUTO_TEST_SUITE_END()
