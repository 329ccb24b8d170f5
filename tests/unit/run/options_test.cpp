#include "options.h"

#include <cstdlib>

#include "../io/io_fixtures.h"
#include "option_table.h"
#include "tolk/base/error.h"

using namespace tolk;
using namespace tolk::run;

namespace {

Options parse(const std::vector<std::string>& arguments) { return parse_options(arguments); }
void refused(const std::vector<std::string>& arguments, std::initializer_list<const char*> words) {
  test::expect_error<InvalidArgument>([&] { parse(arguments); }, words);
}

} // namespace

BOOST_AUTO_TEST_SUITE(options)

BOOST_AUTO_TEST_CASE(everything_of_a_run_is_understood) {
  Options o = parse({"m.onnx",        "--input",
                     "input:0=a.npy", "--input=b=c=d.pb",
                     "--output",      "y=o.npy",
                     "--shape",       "x=1x3x224x224",
                     "--shape",       "s=scalar",
                     "--dim",         "batch=4",
                     "--fill",        "ids=0..96",
                     "--fill",        "f=-1.5..2e3",
                     "--seed",        "7",
                     "--runs",        "5",
                     "--json",        "--device",
                     "CPU:1",         "--plugin",
                     "p.so",          "--plugin-option",
                     "CPU.threads=2"});
  BOOST_TEST((o.command == Command::Run));
  BOOST_TEST(o.model == "m.onnx");
  BOOST_TEST(o.inputs[0].name == "input:0");
  BOOST_TEST(o.inputs[1].name == "b=c"); // split at the last "="
  BOOST_TEST(o.inputs[1].file == "d.pb");
  BOOST_TEST(o.outputs[0].file == "o.npy");
  BOOST_TEST(o.shapes.at("x") == (io::Shape{1, 3, 224, 224}), boost::test_tools::per_element());
  BOOST_TEST(o.shapes.at("s").empty());
  BOOST_TEST(o.dims.at("batch") == 4);
  BOOST_TEST(o.fills.at("ids").high == 96.0);
  BOOST_TEST(o.fills.at("f").low == -1.5);
  BOOST_TEST(o.fills.at("f").high == 2000.0);
  BOOST_TEST(o.seed == 7u);
  BOOST_TEST(o.runs == 5u);
  BOOST_TEST(o.json);
  BOOST_TEST(o.device == "CPU:1");
  BOOST_TEST(o.plugins[0] == "p.so");
  BOOST_TEST(o.plugin_options[0].first == "CPU.threads");
  BOOST_TEST(o.plugin_options[0].second == "2");
}

BOOST_AUTO_TEST_CASE(each_mode_is_chosen_by_its_flag) {
  BOOST_TEST((parse({"--check", "dir", "--types-only"}).command == Command::Check));
  BOOST_TEST(parse({"--check", "dir"}).model == "dir");
  BOOST_TEST((parse({"--check-many", "--device", "CPU"}).command == Command::CheckMany));
  BOOST_TEST((parse({"--list-devices", "-v", "--json"}).command == Command::ListDevices));
  BOOST_TEST((parse({"--env"}).command == Command::Env));
  BOOST_TEST((parse({"--help"}).command == Command::Help));
  BOOST_TEST((parse({"-h", "whatever"}).command == Command::Help));
  BOOST_TEST((parse({"-V"}).command == Command::Version));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_meant_is_refused_with_a_way_out) {
  refused({}, {"no model is given", "tolk-run MODEL.onnx", "--help"});
  refused({"a.onnx", "b.onnx"}, {"one model at a time", "a.onnx", "b.onnx", "--input NAME=FILE"});
  refused({"m.onnx", "--imput", "x=y.npy"}, {"unknown option --imput", "did you mean --input?", "--help"});
  refused({"m.onnx", "--sed", "1"}, {"unknown option --sed"}); // no abbreviations
  refused({"m.onnx", "--input"}, {"--input needs NAME=FILE"});
  refused({"m.onnx", "--json=yes"}, {"--json takes no value"});
  refused({"m.onnx", "--input", "=x.npy"}, {"--input =x.npy", "NAME=FILE"});
  refused({"m.onnx", "--input", "x="}, {"--input x=", "NAME=FILE"});
  refused({"m.onnx", "--shape", "x=1xx2"}, {"--shape x=1xx2", "1x3x224x224"});
  refused({"m.onnx", "--shape", "x=-1"}, {"--shape x=-1"});
  refused({"m.onnx", "--shape", "x"}, {"--shape x", "NAME=1x3x224x224"});
  refused({"m.onnx", "--shape", "x=9999999999x9999999999"}, {"no tensor can have this shape"});
  refused({"m.onnx", "--shape", "x=1", "--shape", "x=2"}, {"--shape is given twice for \"x\""});
  refused({"m.onnx", "--dim", "n=0"}, {"--dim n=0", "1 or more"});
  refused({"m.onnx", "--dim", "n=two"}, {"--dim n=two"});
  refused({"m.onnx", "--fill", "x=5"}, {"--fill x=5", "LO..HI"});
  refused({"m.onnx", "--fill", "x=5..1"}, {"lower bound is above"});
  refused({"m.onnx", "--fill", "x=nan..1"}, {"two numbers"});
  refused({"m.onnx", "--seed", "-1"}, {"--seed -1", "0 or more"});
  refused({"m.onnx", "--seed", "1", "--seed", "2"}, {"--seed is given 2 times"});
  refused({"m.onnx", "--runs", "0"}, {"--runs 0"});
  refused({"m.onnx", "--runs", "many"}, {"--runs many"});
  refused({"m.onnx", "--device", ""}, {"--device needs a name", "--list-devices"});
  refused({"m.onnx", "--plugin-option", "threads=2"}, {"PLUGIN.KEY=VALUE"});
  refused({"m.onnx", "-v"}, {"--verbose has no meaning here", "--list-devices", "DEBUG"});
  refused({"m.onnx", "--types-only"}, {"--types-only", "--check"});
  refused({"m.onnx", "--check", "d"}, {"--check takes no model", "m.onnx"});
  refused({"--check", "d", "--env"}, {"cannot go together"});
  refused({"--check", "d", "--input", "x=y.npy"}, {"--input has no meaning here", "case"});
  refused({"--list-devices", "--runs", "2"}, {"--runs has no meaning here"});
}

BOOST_AUTO_TEST_CASE(the_help_names_every_option_with_its_argument) {
  std::string help = help_text();
  for (const OptionRow& row : option_rows()) {
    std::string usage = std::string("--") + row.name + (row.argument ? std::string(" ") + row.argument : "");
    BOOST_TEST(help.find(usage) != std::string::npos, usage);
  }
  for (size_t at = 0; at < help.size();) {
    size_t end = help.find('\n', at);
    BOOST_TEST(end - at <= 100u, help.substr(at, end - at));
    at = end + 1;
  }
  BOOST_TEST(help.find("Exit status") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_page_of_flags_is_what_the_table_says) {
  const std::string path = TOLK_SOURCE_DIR "/docs/generated/tolk-run.md";
  const char* update = std::getenv("TOLK_UPDATE_DOCS");
  if (update && *update == '1') std::ofstream(path) << flags_page();
  BOOST_TEST((test::slurp(path) == flags_page()), path << " is stale; run this test with TOLK_UPDATE_DOCS=1");
}

BOOST_AUTO_TEST_SUITE_END()
