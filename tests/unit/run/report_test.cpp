#include "report.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "../io/io_fixtures.h"
#include "environment.h"
#include "outputs.h"
#include "progress.h"
#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/io/npy.h"
#include "tolk/io/npz.h"
#include "tolk/io/tensor_proto.h"

using namespace tolk;
using namespace tolk::run;
using test::expect_error;

namespace {

io::HostTensor f32(const std::vector<float>& values) {
  return io::tensor_of(DType::F32, {static_cast<int64_t>(values.size())}, values);
}

std::vector<onnx::ValueInfo> outputs(std::initializer_list<const char*> names) {
  std::vector<onnx::ValueInfo> list;
  for (const char* name : names) list.push_back({name, {}});
  return list;
}

} // namespace

BOOST_AUTO_TEST_SUITE(report)

BOOST_AUTO_TEST_CASE(the_median_leaves_the_first_run_out) {
  onnx::Timings t;
  t.first_run = 100;
  BOOST_TEST(median_run(t) == 0.0);
  t.runs = {3, 1, 2};
  BOOST_TEST(median_run(t) == 2.0);
  t.runs = {4, 1, 2, 3};
  BOOST_TEST(median_run(t) == 2.5);
}

BOOST_AUTO_TEST_CASE(text_and_json_show_inputs_outputs_notes_and_times) {
  RunReport r;
  r.model = "m.onnx";
  r.device = "CPU";
  r.inputs = {{"x", f32({1, 2}), "random"}};
  r.notes = {"something was assumed"};
  r.outputs = {{"y", f32({1, NAN, 3})}, {"seq", io::Value::sequence({f32({1}), f32({2})})}};
  r.stored = {{"y", "y.npy"}};
  r.timings.import = 12.5;
  r.timings.first_run = 2;
  std::string text = report_text(r);
  for (const char* words : {"m.onnx on CPU", "f32[2]", "(random)", "note: something was assumed", "f32[3]",
                            "NaN 1", "-> y.npy", "sequence of 2", "[1] f32[1]", "12.5 ms", "first run"})
    BOOST_TEST(text.find(words) != std::string::npos, "\"" << words << "\" is not in:\n" << text);
  BOOST_TEST(text.find("median") == std::string::npos, "one run has no median:\n" << text);
  auto json = nlohmann::json::parse(report_json(r));
  BOOST_TEST(json["device"] == "CPU");
  BOOST_TEST(json["inputs"][0]["source"] == "random");
  BOOST_TEST(json["outputs"][0]["shape"][0] == 3);
  BOOST_TEST(json["outputs"][0]["dtype"] == "f32");
  BOOST_TEST(json["outputs"][0]["max"] == 3.0);
  BOOST_TEST(json["outputs"][0]["first"][1] == "nan");
  BOOST_TEST(json["outputs"][0]["file"] == "y.npy");
  BOOST_TEST(json["outputs"][1]["items"].size() == 2u);
  BOOST_TEST(json["times"]["import"] == 0.0125);
  for (const char* key : {"schedule", "compile", "first_run"}) BOOST_TEST(json["times"].contains(key), key);
  BOOST_TEST(!json["times"].contains("median_run"));
}

BOOST_AUTO_TEST_CASE(later_runs_have_a_median_which_is_of_whole_calls_when_they_build_anew) {
  RunReport r;
  r.timings.runs = {3};
  BOOST_TEST(report_text(r).find("second run") != std::string::npos);
  r.timings.runs = {3, 1, 2};
  BOOST_TEST(report_text(r).find("median run of 3") != std::string::npos);
  BOOST_TEST(nlohmann::json::parse(report_json(r))["times"]["median_run"] == 0.002);
  r.timings.rebuilds = true;
  BOOST_TEST(report_text(r).find("median call of 3") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(names_with_control_characters_are_shown_as_escapes) {
  RunReport r;
  r.outputs = {{"y\x1b[31m\nz", f32({1})}};
  std::string text = report_text(r);
  BOOST_TEST(text.find("y\\x1b[31m\\nz") != std::string::npos, text);
  BOOST_TEST(text.find('\x1b') == std::string::npos);
}

BOOST_AUTO_TEST_CASE(outputs_are_stored_in_the_form_that_the_ending_says) {
  test::TempDir dir;
  std::vector<io::NamedValue> values = {{"y:0", f32({1, 2})}, {"z", io::string_tensor({1}, {"s"})}};
  std::map<std::string, std::string> stored = store_outputs(
      values, {{"y:0", dir.file("y.npy")}, {"z", dir.file("z.pb")}, {"y:0", dir.file("a.npz")}});
  BOOST_TEST(stored["z"] == dir.file("z.pb"));
  BOOST_TEST(io::read_npy(dir.file("y.npy")).as<float>()[1] == 2.0F);
  BOOST_TEST(io::read_tensor_pb(dir.file("z.pb")).tensor.strings[0] == "s");
  BOOST_TEST(io::read_npz(dir.file("a.npz"))[0].name == "y:0");
  expect_error<InvalidArgument>([&] { store_outputs(values, {{"z", dir.file("z.npy")}}); },
                                {"strings", ".pb"});
  expect_error<InvalidArgument>([&] { store_outputs(values, {{"y:0", dir.file("no/y.npy")}}); },
                                {"no/y.npy", "No such file"});
  expect_error<InvalidArgument>(
      [&] { store_outputs({{"q", io::Value::sequence({})}}, {{"q", dir.file("q.npy")}}); },
      {"\"q\"", "sequence of 0", "only tensors"});
}

BOOST_AUTO_TEST_CASE(wrong_outputs_are_refused_before_anything_runs) {
  auto refused = [](const std::vector<NamedFile>& files, std::initializer_list<const char*> words) {
    expect_error<InvalidArgument>([&] { check_outputs(outputs({"scores", "boxes"}), files); }, words);
  };
  refused({{"score", "s.npy"}}, {"no output \"score\"", "did you mean \"scores\"?", "scores, boxes"});
  refused({{"scores", "s.txt"}}, {"s.txt", ".npy, .npz and .pb"});
  refused({{"", "s.npy"}}, {"2 outputs", "name one"});
  refused({{"scores", "s.npy"}, {"boxes", "s.npy"}}, {"s.npy would be written twice"});
  BOOST_CHECK_NO_THROW(
      check_outputs(outputs({"scores", "boxes"}), {{"scores", "s.npz"}, {"boxes", "s.npz"}}));
  BOOST_CHECK_NO_THROW(check_outputs(outputs({"scores", "boxes"}), {{"", "s.npz"}}));
  BOOST_CHECK_NO_THROW(check_outputs(outputs({"scores"}), {{"", "s.npy"}}));
}

BOOST_AUTO_TEST_CASE(the_bar_fills_with_the_work_done) {
  BOOST_TEST(bar_text("compile", 0, 4, 8) == "compile [--------] 0/4");
  BOOST_TEST(bar_text("compile", 3, 4, 8) == "compile [######--] 3/4");
  BOOST_TEST(bar_text("compile", 9, 4, 8) == "compile [########] 4/4");
  BOOST_TEST(bar_text("schedule", 0, 0) == "schedule ...");
}

BOOST_AUTO_TEST_CASE(every_setting_is_listed_with_its_value) {
  std::string text = environment_text();
  auto json = nlohmann::json::parse(environment_json());
  BOOST_TEST(json.size() == config_rows().size());
  for (const ConfigRow& row : config_rows()) BOOST_TEST(text.find(row.name) != std::string::npos, row.name);
}

BOOST_AUTO_TEST_SUITE_END()
