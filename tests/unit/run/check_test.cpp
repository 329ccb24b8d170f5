#include "check.h"

#include <unistd.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "../io/io_fixtures.h"
#include "../onnx_reader/model_builder.h"
#include "tolk/base/error.h"
#include "tolk/io/npy.h"
#include "tolk/io/tensor_proto.h"
#include "tolk/onnx/reader.h"

using namespace tolk;
using namespace tolk::run;
using test::expect_error;
namespace fs = std::filesystem;

namespace {

io::HostTensor f32(const std::vector<float>& values) {
  return io::tensor_of(DType::F32, {static_cast<int64_t>(values.size())}, values);
}

// y = a - b, s = a: enough of a model to see which value went where.
LoadedModel subtract(const std::string& path) {
  onnx::ModelFile file = onnx::read_model(path);
  LoadedModel model;
  model.inputs = file.graph.free_inputs();
  model.outputs = file.graph.outputs;
  model.device = "FAKE";
  model.run = [](const std::vector<io::NamedValue>& in) -> std::vector<io::NamedValue> {
    auto get = [&](const char* name) -> const io::HostTensor& {
      for (const io::NamedValue& v : in)
        if (v.name == name) return v.value.tensor;
      throw InvalidArgument(std::string("input missing: ") + name);
    };
    const io::HostTensor &a = get("a"), &b = get("b");
    std::vector<float> difference;
    for (size_t i = 0; i < a.count(); ++i) difference.push_back(a.as<float>()[i] - b.as<float>()[i]);
    return {{"y", f32(difference)}, {"s", a}};
  };
  model.timings = [] { return onnx::Timings{}; };
  return model;
}

struct CaseDir : test::TempDir {
  CaseDir() {
    using namespace test;
    write("model.onnx", model(graph({{node("Sub", {"a", "b"}, {"y"}), node("Identity", {"a"}, {"s"})},
                                     {},
                                     {},
                                     {"a", "b"},
                                     {"y", "s"}}))
                            .bytes());
  }
  void set(int k, const std::vector<std::pair<std::string, io::HostTensor>>& files,
           const std::string& stated = "") {
    fs::path folder = file("test_data_set_" + std::to_string(k));
    fs::create_directories(folder);
    for (const auto& [name, value] : files)
      io::write_tensor_pb((folder / (name + ".pb")).string(), value, stated);
  }
  CaseResult run(bool types_only = false) {
    CaseFolder folder(file(""));
    return check_case(folder, subtract(folder.model_path()), types_only);
  }
};

} // namespace

BOOST_AUTO_TEST_SUITE(check)

BOOST_AUTO_TEST_CASE(an_onnx_case_passes_or_shows_the_worst_difference) {
  CaseDir dir;
  dir.set(0, {{"input_0", f32({5, 7})}, {"input_1", f32({1, 2})}, {"output_0", f32({4, 5})}});
  dir.set(1, {{"input_0", f32({5, 7})},
              {"input_1", f32({1, 2})},
              {"output_0", f32({4, 5.5F})},
              {"output_1", f32({5, 7})}});
  CaseResult result = dir.run();
  BOOST_REQUIRE(result.sets.size() == 2u);
  BOOST_TEST(result.sets[0].passed());
  BOOST_TEST(!result.sets[1].passed());
  BOOST_TEST(result.reason() ==
             "test_data_set_1: output \"y\": 1 of 2 elements differs, worst at [1]: 5, expected 5.5, "
             "difference 0.5, allowed 0.0055");
  std::string text = case_text(result);
  BOOST_TEST(text.starts_with("PASS  test_data_set_0\n"));
  BOOST_TEST(text.ends_with("FAIL  1 of 3 outputs differ\n"));
  BOOST_TEST(dir.run(true).passed()); // types and shapes agree
}

BOOST_AUTO_TEST_CASE(values_with_a_stated_name_go_there_whatever_their_number) {
  CaseDir dir;
  dir.set(0, {{"input_0", f32({1, 2})}}, "b");
  dir.set(0, {{"input_1", f32({5, 7})}}, "a");
  dir.set(0, {{"output_0", f32({5, 7})}}, "s");
  BOOST_TEST(dir.run().passed());
}

BOOST_AUTO_TEST_CASE(sets_are_taken_in_the_order_of_their_numbers) {
  CaseDir dir;
  for (int k : {10, 9, 2})
    dir.set(k, {{"input_0", f32({1, 1})}, {"input_1", f32({1, 1})}, {"output_0", f32({0, 0})}});
  CaseResult result = dir.run();
  BOOST_TEST(result.sets[0].name == "test_data_set_2");
  BOOST_TEST(result.sets[2].name == "test_data_set_10");
}

BOOST_AUTO_TEST_CASE(a_case_json_gives_names_files_and_tolerances) {
  CaseDir dir;
  io::write_npy(dir.file("a.npy"), f32({5, 7}));
  io::write_npy(dir.file("b.npy"), f32({1, 2}));
  io::write_npy(dir.file("y.npy"), f32({4.25F, 5}));
  auto write = [&](const char* atol) {
    dir.write("case.json",
              std::string(R"({"model": "model.onnx", "sets": [{"inputs": {"b": "b.npy", "a": "a.npy"},
      "outputs": {"y": {"file": "y.npy", "rtol": 0, "atol": )") +
                  atol + "}}}]}");
  };
  write("0.25");
  BOOST_TEST(dir.run().passed());
  write("0.2");
  CaseResult result = dir.run();
  BOOST_TEST(result.reason() ==
             "set0: output \"y\": 1 of 2 elements differs, worst at [0]: 4, expected 4.25, difference 0.25, "
             "allowed 0.2");
  auto report = nlohmann::json::parse(case_json("dir", subtract(dir.file("model.onnx")), result));
  BOOST_TEST(report["passed"] == false);
  BOOST_TEST(report["sets"][0]["outputs"][0]["worst"]["at"][0] == 0);
  BOOST_TEST(report["sets"][0]["outputs"][0]["worst"]["allowed"] == 0.2);
}

BOOST_AUTO_TEST_CASE(a_state_is_handed_on_from_set_to_set) {
  CaseDir dir;
  // Set 1 repeats the y of set 0 as its b; the model's own y is off by 0.25, within the tolerance.
  io::write_npy(dir.file("a.npy"), f32({5, 7}));
  io::write_npy(dir.file("b.npy"), f32({1, 2}));
  io::write_npy(dir.file("y0.npy"), f32({4.25F, 5.25F}));
  io::write_npy(dir.file("y1.npy"), f32({1, 2})); // 5 - 4, 7 - 5: only the handed-on state gives this exactly
  dir.write("case.json", R"({"sets": [
    {"inputs": {"a": "a.npy", "b": "b.npy"}, "outputs": {"y": {"file": "y0.npy", "atol": 0.25}}},
    {"inputs": {"a": "a.npy", "b": "y0.npy"}, "outputs": {"y": {"file": "y1.npy", "rtol": 0, "atol": 0}}}]})");
  CaseResult result = dir.run();
  BOOST_TEST(result.passed(), result.reason());
  BOOST_REQUIRE(result.sets[1].chained.size() == 1u);
  BOOST_TEST(result.sets[1].chained[0] == "b");
  BOOST_TEST(case_text(result).find("state taken from the set before: b") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(bf16_results_that_are_stored_as_bits_compare_as_bf16) {
  CaseDir dir;
  dir.set(0, {{"output_0", io::tensor_of<uint16_t>(DType::U16, {1}, {0x3f80})}});
  CaseFolder folder(dir.file(""));
  LoadedModel model = subtract(folder.model_path());
  model.run = [](const std::vector<io::NamedValue>&) -> std::vector<io::NamedValue> {
    return {{"y", io::tensor_of<uint16_t>(DType::BF16, {1}, {0x3f80})}};
  };
  BOOST_TEST(check_case(folder, model, false).passed());
}

BOOST_AUTO_TEST_CASE(an_output_that_is_missing_or_of_another_type_differs) {
  CaseDir dir;
  dir.set(0, {{"output_0", io::tensor_of<int64_t>(DType::I64, {1}, {1})}, {"output_1", f32({1})}});
  CaseFolder folder(dir.file(""));
  LoadedModel model = subtract(folder.model_path());
  model.run = [](const std::vector<io::NamedValue>&) -> std::vector<io::NamedValue> {
    return {{"y", f32({1})}};
  };
  CaseResult result = check_case(folder, model, true);
  BOOST_TEST(result.reason() == "test_data_set_0: output \"y\": the type is f32, expected i64");
  BOOST_TEST(result.sets[0].outputs[1].comparison.reason == "the model gave no such output");
}

BOOST_AUTO_TEST_CASE(folders_that_are_no_cases_are_refused) {
  test::TempDir dir;
  expect_error<InvalidArgument>([&] { CaseFolder(dir.file("none")); }, {"none", "not a folder"});
  expect_error<InvalidArgument>([&] { CaseFolder(dir.file("")); }, {"model.onnx", "no such model"});
  dir.write("model.onnx", "x");
  expect_error<InvalidArgument>([&] { CaseFolder(dir.file("")); }, {"test_data_set_*", "case.json"});
  auto json = [&](const char* text, std::initializer_list<const char*> words) {
    dir.write("case.json", text);
    expect_error<FormatError>([&] { CaseFolder(dir.file("")); }, words);
  };
  json("{", {"case.json", "not a JSON"});
  json("[]", {"list \"sets\""});
  json(R"({"sets": [{}]})", {"set0", "\"inputs\" and \"outputs\""});
  json(R"({"sets": [{"inputs": {"a": 1}, "outputs": {}}]})", {"name of a file"});
  json(R"({"sets": [{"inputs": {}, "outputs": {"y": {}}}]})", {"output \"y\" needs a \"file\""});
  json(R"({"sets": [{"inputs": {}, "outputs": {"y": {"file": "f", "rtol": -1}}}]})",
       {"\"rtol\"", "0 or more"});
  CaseDir hollow, half;
  hollow.write("case.json", R"({"sets": [{"inputs": {"a": "a.npy"}, "outputs": {}}]})");
  expect_error<InvalidArgument>([&] { hollow.run(); }, {"set0 has no expected outputs"});
  half.set(0, {{"input_0", f32({1})}, {"output_0", f32({1})}});
  half.set(1, {{"input_0", f32({1})}});
  expect_error<InvalidArgument>([&] { half.run(); }, {"test_data_set_1 has no expected outputs"});
  CaseDir extra;
  extra.set(0, {{"input_0", f32({1})}, {"input_1", f32({1})}, {"input_2", f32({1})}, {"output_0", f32({0})}});
  expect_error<InvalidArgument>([&] { extra.run(); }, {"input_2.pb", "no input for this value"});
}

BOOST_AUTO_TEST_CASE(many_cases_give_a_line_each_and_faults_do_not_end_them) {
  CaseDir good, wrong, broken;
  good.set(0, {{"input_0", f32({5})}, {"input_1", f32({1})}, {"output_0", f32({4})}});
  wrong.set(0, {{"input_0", f32({5})}, {"input_1", f32({1})}, {"output_0", f32({3})}});
  broken.set(0, {{"input_0", f32({5})}, {"output_0", f32({4})}});
  std::FILE* in = std::tmpfile();
  std::FILE* out = std::tmpfile();
  std::string lines = good.file("") + "\n" + wrong.file("") + "\n\ntypes-only\t" + wrong.file("") + "\n" +
                      broken.file("") + "\n/nonexistent\n" + good.file("");
  std::fputs(lines.c_str(), in);
  std::rewind(in);
  check_many(in, out, subtract);
  std::rewind(out);
  std::vector<nlohmann::json> reports;
  char line[4096];
  while (std::fgets(line, sizeof line, out)) reports.push_back(nlohmann::json::parse(line));
  std::fclose(in);
  std::fclose(out);
  BOOST_REQUIRE(reports.size() == 6u);
  const char* expected[] = {"pass", "fail", "pass", "error", "error", "pass"};
  for (size_t i = 0; i < 6; ++i) BOOST_TEST(reports[i]["status"] == expected[i], i);
  BOOST_TEST(reports[0]["operators"] == nlohmann::json({"Identity", "Sub"}));
  BOOST_TEST(reports[3]["reason"] == "input missing: b");
  BOOST_TEST(reports[3]["operators"].size() == 2u);
  BOOST_TEST(reports[4]["case"] == "/nonexistent");
}

BOOST_AUTO_TEST_SUITE_END()
