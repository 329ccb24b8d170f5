#include "tolk/onnx/reader.h"

#include "../io/io_fixtures.h"
#include "model_builder.h"
#include "tolk/base/error.h"

using namespace tolk;
using namespace tolk::onnx;
using namespace tolk::test;
using namespace std::string_literals;

namespace {

ModelFile parse(const std::string& bytes) { return parse_model(bytes_of(bytes), "m.onnx", nullptr); }
ModelFile parse(const Message& m) { return parse(m.bytes()); }

std::string first(const io::HostTensor& t) { return io::element_text(t, 0); }

// A model of one node "Op", with these attributes.
Message one_node(const std::vector<Message>& attributes) {
  return model(graph({{node("Op", {"x"}, {"y"}, attributes)}, {}, {}, {"x"}, {"y"}}));
}

// What onnx.helper made of: Gemm(x, w, "", b) -> (y, ""), alpha 0.5, transB 1, mode "m", axes [-1, 2], scales
// [1.5]; x f32[N,3,?], y i64 of unknown rank; w f32[2], b an i8 scalar; producer p 1; ai.onnx 13,
// com.microsoft 1.
const std::string kHelperModel =
    "\x08\x08\x12\x01\x70\x1a\x01\x31\x3a\xb8\x01\x0a\x71\x0a\x01\x78\x0a\x01\x77\x0a\x00\x0a\x01\x62\x12\x01"
    "\x79\x12\x00\x1a\x01\x67\x22\x04\x47\x65\x6d\x6d\x2a\x0f"
    "\x0a\x05\x61\x6c\x70\x68\x61\x15\x00\x00\x00\x3f\xa0\x01\x01\x2a\x16\x0a\x04\x61\x78\x65\x73\x40\xff\xff"
    "\xff\xff\xff\xff\xff\xff\xff\x01\x40\x02\xa0\x01\x07\x2a"
    "\x0c\x0a\x04\x6d\x6f\x64\x65\x22\x01\x6d\xa0\x01\x03\x2a\x10\x0a\x06\x73\x63\x61\x6c\x65\x73\x3d\x00\x00"
    "\xc0\x3f\xa0\x01\x06\x2a\x0d\x0a\x06\x74\x72\x61\x6e\x73"
    "\x42\x18\x01\xa0\x01\x02\x12\x03\x6e\x65\x74\x2a\x11\x08\x02\x10\x01\x22\x08\x00\x00\x80\x3f\x00\x00\x00"
    "\xc0\x42\x01\x77\x2a\x08\x10\x03\x2a\x01\x05\x42\x01\x62"
    "\x5a\x16\x0a\x01\x78\x12\x11\x0a\x0f\x08\x01\x12\x0b\x0a\x03\x12\x01\x4e\x0a\x02\x08\x03\x0a\x00\x62\x09"
    "\x0a\x01\x79\x12\x04\x0a\x02\x08\x07\x42\x04\x0a\x00\x10"
    "\x0d\x42\x11\x0a\x0d\x63\x6f\x6d\x2e\x6d\x69\x63\x72\x6f\x73\x6f\x66\x74\x10\x01"s;

} // namespace

BOOST_AUTO_TEST_SUITE(onnx_reader)

BOOST_AUTO_TEST_CASE(a_model_of_the_onnx_package_is_read_in_all_its_parts) {
  ModelFile m = parse(kHelperModel);
  BOOST_TEST(m.ir_version == 8);
  BOOST_TEST(m.producer == "p 1");
  BOOST_TEST(m.opset() == 13);
  BOOST_TEST(m.opset("com.microsoft") == 1);
  BOOST_TEST(m.opset("nobody") == 0);
  const Graph& g = m.graph;
  BOOST_TEST(g.name == "net");
  BOOST_REQUIRE(g.nodes.size() == 1u);
  const Node& n = g.nodes[0];
  BOOST_TEST(n.is("Gemm"));
  BOOST_TEST(n.describe() == "graph.node[0] \"g\" (Gemm)");
  BOOST_TEST(n.inputs == (std::vector<std::string>{"x", "w", "", "b"}), boost::test_tools::per_element());
  BOOST_TEST(n.has_input(1));
  BOOST_TEST(!n.has_input(2));
  BOOST_TEST(!n.has_input(4));
  BOOST_TEST(!n.has_output(1));
  BOOST_TEST(n.number("alpha", 1) == 0.5F);
  BOOST_TEST(n.number("beta", 1) == 1.0F);
  BOOST_TEST(n.integer("transB", 0) == 1);
  BOOST_TEST(n.text("mode", "") == "m");
  BOOST_TEST(n.integers("axes") == (std::vector<int64_t>{-1, 2}), boost::test_tools::per_element());
  BOOST_TEST(n.numbers("scales") == (std::vector<float>{1.5F}), boost::test_tools::per_element());
  BOOST_TEST(type_text(g.inputs[0].type) == "f32[N,3,?]");
  BOOST_TEST(type_text(g.outputs[0].type) == "i64[..]");
  BOOST_TEST(io::type_text(*g.initializer("w")) == "f32[2]");
  BOOST_TEST(first(*g.initializer("b")) == "5");
  BOOST_TEST(!g.initializer("x"));
}

BOOST_AUTO_TEST_CASE(attributes_of_every_type_arrive) {
  Message type = Message().message(1, Message().number(1, 1));
  ModelFile m = parse(one_node({
      attribute("f", 1).real(2, 2.5F),
      attribute("i", 2).number(3, -7),
      attribute("s", 3).text(4, "\xff\x00z"s),
      attribute("t", 4).message(5, tensor("", {1}, {3})),
      attribute("g", 5).message(6, graph({})),
      attribute("fs", 6).real(7, 1).real(7, 2),
      attribute("is", 7).number(8, 4).number(8, 5),
      attribute("ss", 8).text(9, "a").text(9, "b"),
      attribute("ts", 9).message(10, tensor("", {1}, {6})),
      attribute("gs", 10).message(11, graph({})),
      attribute("tp", 13).message(14, type),
      attribute("tps", 14).message(15, type),
      attribute("sp", 11).message(
          22, Message().message(1, tensor("", {1}, {9})).message(2, index_tensor("", {1}, {1})).number(3, 2)),
      attribute("empty", 7),
  }));
  const Node& n = m.graph.nodes[0];
  BOOST_TEST(n.number("f", 0) == 2.5F);
  BOOST_TEST(n.require_integer("i") == -7);
  BOOST_TEST(n.text("s", "") == "\xff\x00z"s);
  BOOST_TEST(first(n.require_tensor("t")) == "3");
  BOOST_TEST(n.require_graph("g").nodes.empty());
  BOOST_TEST(n.numbers("fs").size() == 2u);
  BOOST_TEST(n.require_integers("is")[1] == 5);
  BOOST_TEST(n.texts("ss")[1] == "b");
  BOOST_TEST(first(std::get<Attribute::Tensors>(n.find("ts")->data)[0]) == "6");
  BOOST_TEST(std::get<Attribute::Graphs>(n.find("gs")->data).size() == 1u);
  BOOST_TEST(type_text(std::get<Type>(n.find("tp")->data)) == "f32[..]");
  BOOST_TEST(std::get<Attribute::Types>(n.find("tps")->data).size() == 1u);
  BOOST_TEST(io::type_text(*n.tensor("sp")) == "f32[2]");
  BOOST_TEST(io::element_text(*n.tensor("sp"), 1) == "9");
  BOOST_TEST(n.find("empty")->kind() == "a list of ints"s);
  BOOST_TEST(n.integers("empty", {1}).empty());
  BOOST_TEST(!n.find("nothing"));
  BOOST_TEST(!n.tensor("nothing"));
  BOOST_TEST(!n.graph("nothing"));
}

BOOST_AUTO_TEST_CASE(attributes_without_a_type_are_recognised_by_what_they_hold) {
  ModelFile m = parse(one_node({Message().text(1, "i").number(3, 3), Message().text(1, "fs").real(7, 1)}));
  BOOST_TEST(m.graph.nodes[0].integer("i", 0) == 3);
  BOOST_TEST(m.graph.nodes[0].numbers("fs").size() == 1u);
}

BOOST_AUTO_TEST_CASE(an_attribute_of_the_wrong_type_or_a_missing_one_names_node_and_attribute) {
  ModelFile m = parse(one_node({attribute("axis", 1).real(2, 1)}));
  const Node& n = m.graph.nodes[0];
  expect_error<ImportError>([&] { (void)n.integer("axis", 0); },
                            {"graph.node[0] (Op)", "axis must be an int", "it is a float"});
  expect_error<ImportError>([&] { (void)n.require_integers("perm"); },
                            {"graph.node[0] (Op)", "perm is missing"});
}

BOOST_AUTO_TEST_CASE(types_of_every_kind_have_a_text) {
  Message f32 =
      Message().message(1, Message().number(1, 1).message(2, Message().message(1, Message().number(1, 2))));
  auto input = [](const Message& type) {
    Message g = Message().message(11, Message().text(1, "x").message(2, type));
    return type_text(parse(model(g)).graph.inputs[0].type);
  };
  BOOST_TEST(input(f32) == "f32[2]");
  BOOST_TEST(input(Message().message(1, Message().number(1, 1).message(2, Message()))) == "f32[]");
  BOOST_TEST(input(Message().message(1, Message().number(1, 8))) == "string[..]");
  BOOST_TEST(input(Message().message(1, Message().number(1, 14))) == "COMPLEX64[..]");
  BOOST_TEST(input(Message().message(4, Message().message(1, f32))) == "sequence(f32[2])");
  BOOST_TEST(
      input(Message().message(9, Message().message(1, Message().message(4, Message().message(1, f32))))) ==
      "optional(sequence(f32[2]))");
  BOOST_TEST(input(Message().message(5, Message())) == "map");
  BOOST_TEST(input(Message().message(8, Message().number(1, 1))) == "sparse f32[..]");
  BOOST_TEST(input(Message()) == "unknown");
  // -1 and a number beside a name are ways to say "open"
  Message dims =
      Message().message(1, Message().number(1, -1)).message(1, Message().number(1, 0).text(2, "n"));
  BOOST_TEST(input(Message().message(1, Message().number(1, 1).message(2, dims))) == "f32[?,n]");
}

BOOST_AUTO_TEST_CASE(initializers_that_are_also_inputs_are_not_asked_for) {
  ModelFile m =
      parse(model(graph({{node("Add", {"x", "w"}, {"y"})}, {tensor("w", {1}, {1})}, {}, {"w", "x"}, {"y"}})));
  BOOST_TEST(m.graph.inputs.size() == 2u);
  BOOST_REQUIRE(m.graph.free_inputs().size() == 1u);
  BOOST_TEST(m.graph.free_inputs()[0].name == "x");
}

BOOST_AUTO_TEST_CASE(ai_onnx_is_the_empty_domain_and_no_opset_means_1) {
  Message m = Message().message(7, graph({{node("Abs", {"x"}, {"y"}, {}, "ai.onnx")}, {}, {}, {"x"}, {"y"}}));
  ModelFile read = parse(m);
  BOOST_TEST(read.opset() == 1);
  BOOST_TEST(read.graph.nodes[0].is("Abs"));
  ModelFile named =
      parse(Message().message(7, graph({})).message(8, opset("ai.onnx", 9)).message(8, opset("x", 2)));
  BOOST_TEST(named.opset() == 9);
  ModelFile other = parse(model(graph({{node("Abs", {"x"}, {"y"}, {}, "my.ops")}, {}, {}, {"x"}, {"y"}})));
  BOOST_TEST(other.graph.nodes[0].describe() == "graph.node[0] (my.ops.Abs)");
}

BOOST_AUTO_TEST_CASE(functions_and_references_to_their_attributes_are_read) {
  Message body =
      node("Mul", {"a", "a"}, {"b"}, {Message().text(1, "axis").text(21, "outer_axis").number(20, 2)});
  Message f = Message()
                  .text(1, "Square")
                  .text(4, "a")
                  .text(5, "b")
                  .text(6, "outer_axis")
                  .message(7, body)
                  .text(10, "my");
  f.message(9, opset("", 14)).message(11, attribute("eps", 1).real(2, 0.5F)).text(13, "v1");
  ModelFile m = parse(model(graph({{node("Square", {"x"}, {"y"}, {}, "my")}, {}, {}, {"x"}, {"y"}}), {f}));
  BOOST_TEST(!m.function("my", "Square"));
  const Function* found = m.function("my", "Square", "v1");
  BOOST_REQUIRE(found);
  BOOST_TEST(found->opsets.at("") == 14);
  BOOST_TEST(found->attributes[0] == "outer_axis");
  BOOST_TEST(std::get<float>(found->attribute_defaults[0].data) == 0.5F);
  BOOST_TEST(found->nodes[0].find("axis")->ref_attr_name == "outer_axis");
  BOOST_TEST(found->nodes[0].place == "functions[0].node[0]");
}

BOOST_AUTO_TEST_CASE(sparse_initializers_become_dense) {
  auto sparse = [](const Message& indices, const std::vector<int64_t>& dims) {
    Message m = Message().message(1, tensor("w", {2}, {5, 7})).message(2, indices);
    for (int64_t dim : dims) m.number(3, dim);
    return model(graph({{node("Add", {"w", "w"}, {"y"})}, {}, {m}, {}, {"y"}}));
  };
  for (const Message& indices : {index_tensor("", {2}, {1, 5}), index_tensor("", {2, 2}, {0, 1, 1, 2})}) {
    ModelFile m = parse(sparse(indices, {2, 3}));
    BOOST_TEST(m.graph.initializer("w")->as<float>() == (std::vector<float>{0, 5, 0, 0, 0, 7}),
               boost::test_tools::per_element());
  }
  expect_error<FormatError>([&] { parse(sparse(index_tensor("", {2}, {1, 6}), {2, 3})); },
                            {"m.onnx: graph.sparse_initializer[0]", "index 6 of entry 1", "[2,3]"});
  expect_error<FormatError>([&] { parse(sparse(index_tensor("", {2}, {1, -1}), {2, 3})); }, {"index -1"});
  expect_error<FormatError>([&] { parse(sparse(index_tensor("", {3}, {1, 2, 3}), {2, 3})); }, {"do not fit"});
  expect_error<ImportError>([&] { parse(sparse(index_tensor("", {2}, {1, 2}), {1 << 20, 1 << 20})); },
                            {"would fill 4398046511104 bytes"});
}

BOOST_AUTO_TEST_CASE(weights_stay_in_the_mapped_file_where_they_are_aligned) {
  TempDir dir;
  std::vector<float> big(1000, 2.5F);
  int shared = 0, copied = 0;
  for (size_t pad = 0; pad < 4; ++pad) {
    Message g;
    g.text(2, std::string(pad, 'n')).message(5, tensor("w", {1000}, big)).message(12, value("w"));
    ModelFile m = read_model(dir.write("m.onnx", model(g).bytes()));
    const io::HostTensor& w = *m.graph.initializer("w");
    BOOST_TEST(w.as<float>() == big, boost::test_tools::per_element());
    BOOST_TEST(reinterpret_cast<uintptr_t>(w.bytes.data()) % 4 == 0u);
    // A heap block starts on a 64-byte boundary; in the file the weights follow a few header bytes.
    (reinterpret_cast<uintptr_t>(w.bytes.data()) % 64 == 0 ? copied : shared) += 1;
  }
  BOOST_TEST(shared == 1);
  BOOST_TEST(copied == 3);
}

BOOST_AUTO_TEST_CASE(a_fault_is_named_with_file_and_place) {
  auto parse_graph = [](const Message& g) { parse(model(g)); };
  expect_error<FormatError>(
      [&] { parse_graph(Message().message(1, node("Op", {}, {"a"})).message(1, node("", {}, {"b"}))); },
      {"m.onnx: graph.node[1]: ", "names no operator"});
  expect_error<FormatError>([&] { parse(one_node({attribute("a", 2).number(3, 1), attribute("b", 99)})); },
                            {"m.onnx: graph.node[0].attribute[1]", "\"b\"", "unknown type 99"});
  expect_error<FormatError>([&] { parse(one_node({attribute("t", 4)})); },
                            {"attribute[0]", "says it is a tensor"});
  expect_error<FormatError>([&] { parse(one_node({attribute("t", 4).message(5, tensor("", {5}, {1}))})); },
                            {"graph.node[0].attribute[0].t", "FLOAT[5]", "20 bytes", "found 4"});
  expect_error<FormatError>([&] { parse(one_node({Message().number(3, 1)})); }, {"attribute has no name"});
  Message wrong = Message().text(3, "not an integer");
  wrong.text(1, "a");
  expect_error<FormatError>([&] { parse(one_node({wrong})); }, {"graph.node[0].attribute[0]", "i is damaged",
                                                                "expected an integer, found bytes"});
  expect_error<FormatError>([&] { parse_graph(graph({{}, {tensor("w", {2}, {1})}, {}, {}, {}})); },
                            {"graph.initializer[0].\"w\"", "8 bytes"});
  expect_error<FormatError>(
      [&] { parse_graph(graph({{}, {tensor("w", {1}, {1}), tensor("w", {1}, {1})}, {}, {}, {}})); },
      {"graph.initializer[1]", "already an initializer \"w\""});
  std::string whole = kHelperModel;
  expect_error<FormatError>([&] { parse(whole.substr(0, whole.size() - 3)); }, {"m.onnx", "damaged"});
  expect_error<FormatError>([] { parse(Message().message(7, graph({})).message(8, opset("", 0))); },
                            {"opset_import[0]", "version 0"});
}

BOOST_AUTO_TEST_CASE(files_that_are_no_models_are_recognised) {
  expect_error<FormatError>([] { parse(""s); }, {"m.onnx", "empty"});
  expect_error<FormatError>([] { parse("version https://git-lfs.github.com/spec/v1\noid"s); },
                            {"Git LFS", "git lfs pull"});
  expect_error<FormatError>([] { parse("PK\x03\x04 rest"s); }, {"zip archive"});
  expect_error<FormatError>([] { parse("<!DOCTYPE html>"s); }, {"web page"});
  expect_error<FormatError>([] { parse("{\"name\": \"no model\"}"s); }, {"m.onnx", "text file"});
  expect_error<FormatError>([] { parse(Message().number(1, 8)); }, {"holds no graph"});
  TempDir dir;
  expect_error<InvalidArgument>([&] { read_model(dir.file("none.onnx")); }, {"none.onnx", "No such file"});
  expect_error<InvalidArgument>([&] { read_model(dir.file("")); }, {"is a folder"});
}

BOOST_AUTO_TEST_CASE(graphs_and_types_nested_too_deep_are_refused) {
  Message g = graph({});
  for (int i = 0; i < 31; ++i)
    g = graph({{node("If", {}, {"y"}, {attribute("b", 5).message(6, g)})}, {}, {}, {}, {}});
  BOOST_CHECK_NO_THROW(parse(model(g)));
  for (int i = 0; i < 300; ++i)
    g = graph({{node("If", {}, {"y"}, {attribute("b", 5).message(6, g)})}, {}, {}, {}, {}});
  expect_error<FormatError>([&] { parse(model(g)); }, {"nested more than 32 deep"});
  Message type;
  for (int i = 0; i < 300; ++i) type = Message().message(4, Message().message(1, type));
  expect_error<FormatError>(
      [&] { parse(model(Message().message(11, Message().text(1, "x").message(2, type)))); },
      {"types are nested more than 16 deep"});
}

BOOST_AUTO_TEST_SUITE_END()
