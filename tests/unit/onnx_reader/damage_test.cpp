// Seeded damage to a small model that has every kind of part.
#include "../io/io_fixtures.h"
#include "model_builder.h"
#include "tolk/base/error.h"
#include "tolk/onnx/reader.h"

using namespace tolk;
using namespace tolk::onnx;
using namespace tolk::test;

namespace {

Message everything() {
  Message body = test::graph({{node("Neg", {"x"}, {"r"})}, {tensor("k", {2}, {1, 2})}, {}, {}, {"r"}});
  Message type = Message().message(4, Message().message(1, Message().message(1, Message().number(1, 1))));
  Message sparse =
      Message().message(1, tensor("s", {1}, {9})).message(2, index_tensor("", {1}, {1})).number(3, 4);
  Message dims = Message().message(1, Message().number(1, 3)).message(1, Message().text(2, "n"));
  Message g = test::graph(
      {{node("If", {"x"}, {"a"}, {attribute("then_branch", 5).message(6, body)}),
        node("Op", {"a", "", "w", "s"}, {"y", ""},
             {attribute("f", 1).real(2, 1), attribute("i", 2).number(3, 1), attribute("s", 3).text(4, "text"),
              attribute("t", 4).message(5, tensor("", {2, 2}, {1, 2, 3, 4})),
              attribute("fs", 6).real(7, 1).real(7, 2), attribute("is", 7).number(8, -1).number(8, 5),
              attribute("ss", 8).text(9, "a"), attribute("tp", 13).message(14, type)},
             "my")},
       {tensor("w", {2, 3}, {1, 2, 3, 4, 5, 6}), index_tensor("i", {2}, {-1, 300})},
       {sparse},
       {"x"},
       {"y"}});
  g.message(13,
            Message().text(1, "a").message(2, Message().message(1, Message().number(1, 1).message(2, dims))));
  Message f =
      Message().text(1, "Op").text(4, "p").text(5, "q").message(7, node("Neg", {"p"}, {"q"})).text(10, "my");
  return model(g, {f})
      .message(8, opset("my", 1))
      .message(14, Message().text(1, "key").text(2, "value"))
      .text(2, "producer");
}

} // namespace

BOOST_AUTO_TEST_SUITE(damage)

BOOST_AUTO_TEST_CASE(every_mutant_is_read_or_refused_with_file_and_place) {
  std::string original = everything().bytes();
  BOOST_CHECK_NO_THROW(parse_model(bytes_of(original), "d.onnx", nullptr));
  MemoryLimit limit(uint64_t{512} << 20);
  int read = 0, format = 0, import = 0, placed = 0;
  for (uint32_t seed = 0; seed < 6000; ++seed) {
    std::string mutant = damaged(original, seed);
    try {
      parse_model(bytes_of(mutant), "d.onnx", nullptr);
      ++read;
    } catch (const FormatError& error) {
      std::string text = error.what();
      BOOST_REQUIRE_MESSAGE(text.starts_with("d.onnx: "), text);
      placed += text.find("graph") != std::string::npos || text.find("functions") != std::string::npos;
      ++format;
    } catch (const ImportError& error) {
      BOOST_REQUIRE(std::string(error.what()).starts_with("d.onnx: "));
      ++import;
    }
  }
  BOOST_TEST_MESSAGE(read << " read, " << format << " damaged (" << placed << " below the top), " << import
                          << " unsupported");
  BOOST_TEST(read > 200);
  BOOST_TEST(format > 2000);
  BOOST_TEST(placed > 1000);
}

BOOST_AUTO_TEST_CASE(every_truncation_is_refused_or_is_a_shorter_model) {
  std::string original = everything().bytes();
  int refused = 0;
  for (size_t length = 0; length < original.size(); ++length) {
    try {
      parse_model(bytes_of(original).first(length), "d.onnx", nullptr);
    } catch (const FormatError&) {
      ++refused;
    }
  }
  BOOST_TEST(refused > static_cast<int>(original.size() / 2));
}

BOOST_AUTO_TEST_CASE(many_tiny_parts_do_not_fill_the_memory) {
  // 300,000 attributes, as short as they can be, in one node.
  std::string attributes;
  for (int i = 0; i < 300000; ++i)
    attributes += std::string("\x2a\x05\x0a\x01\x61\x18\x01", 7); // name "a", i 1
  std::string op = attributes + node("Op", {}, {"y"}).bytes();
  Message g = Message().text(1, op).message(12, value("y"));
  MemoryLimit limit(uint64_t{512} << 20);
  ModelFile m = parse_model(bytes_of(model(g).bytes()), "d.onnx", nullptr);
  BOOST_TEST(m.graph.nodes[0].attributes.size() == 300000u);
}

BOOST_AUTO_TEST_SUITE_END()
