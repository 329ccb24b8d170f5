// tolk-run: runs an ONNX model on a device.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <new>
#include <optional>

#include "check.h"
#include "environment.h"
#include "inputs.h"
#include "list_devices.h"
#include "option_table.h"
#include "options.h"
#include "outputs.h"
#include "replay.h"
#include "report.h"
#include "run_model.h"
#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/base/rethrow.h"
#include "tolk/base/text.h"
#include "tolk/base/version.h"
#include "tolk/io/mapped_file.h"

namespace {

using namespace tolk;
using namespace tolk::run;

enum Status : int { kWell = 0, kDiffers = 1, kFailed = 2 };

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

// What can be known before anything runs.
void check_save(const Options& options) {
  if (options.save.empty()) return;
  std::error_code none;
  if (std::filesystem::equivalent(options.save, options.model, none))
    throw InvalidArgument("--save " + options.save + ": this is the model itself; name another file");
  if (std::filesystem::is_directory(options.save, none))
    throw InvalidArgument("--save " + options.save + ": this is a folder; name a file in it");
  if (!options.save.ends_with(kSavedEnding))
    throw InvalidArgument("--save " + options.save +
                          ": tolk-run knows a saved model by its ending; name it " + options.save +
                          kSavedEnding);
}

// The first run, which imports and compiles. What was assumed about open dimensions may be why it fails.
std::vector<io::NamedValue> first_run(const LoadedModel& model, const std::vector<io::NamedValue>& values,
                                      const std::vector<std::string>& assumed) {
  try {
    return model.run(values);
  } catch (const Error&) {
    std::string notes;
    for (const std::string& note : assumed) notes += "\nnote: " + note;
    rethrow_with("", notes);
  }
}

int run_once(const Options& options) {
  check_save(options);
  Progress progress(true);
  LoadedModel model = engine_loader(options, progress)(options.model);
  if (!options.save.empty() && !model.save)
    throw InvalidArgument(options.model + " is a saved model already; --save takes the ONNX file");
  check_outputs(model.outputs, options.outputs);
  PreparedInputs inputs = prepare_inputs(model.inputs, options, model.optional_inputs);
  std::vector<io::NamedValue> values;
  for (const InputValue& input : inputs.values) values.push_back({input.name, input.value});

  RunReport report;
  report.outputs = first_run(model, values, inputs.notes);
  report.notes = std::move(inputs.notes);
  for (uint64_t i = 1; i < options.runs; ++i) report.outputs = model.run(values);
  if (computes_nothing(model.device))
    report.notes.push_back(model.device + " computes nothing: the outputs are what its memory held");
  report.stored = store_outputs(report.outputs, options.outputs);
  if (!options.save.empty()) {
    std::string bytes = model.save(values);
    io::write_file(options.save, std::as_bytes(std::span(bytes)));
    report.notes.push_back("compiled model stored in " + options.save);
  }
  progress.clear();
  report.model = options.model;
  report.device = model.device;
  report.inputs = std::move(inputs.values);
  report.timings = model.timings();
  if (report.timings.rebuilds)
    report.notes.push_back(
        "what this model computes depends on the values of its inputs: every call builds and compiles "
        "it anew, and the median is of whole calls");
  report.runs = options.runs;
  print(options.json ? report_json(report) : report_text(report));
  return kWell;
}

int check(const Options& options) {
  Progress progress(true);
  CaseFolder folder(options.model);
  LoadedModel model = engine_loader(options, progress)(folder.model_path());
  CaseResult result = check_case(folder, model, options.types_only);
  progress.clear();
  print(options.json ? case_json(options.model, model, result) : case_text(result));
  return result.passed() ? kWell : kDiffers;
}

int dispatch(const Options& options) {
  switch (options.command) {
  case Command::Help:
    print(help_text());
    return kWell;
  case Command::Version:
    print(fmt::format("tolk-run {}\n", TOLK_VERSION_STRING));
    return kWell;
  case Command::Env:
    print(options.json ? environment_json() : environment_text());
    return kWell;
  case Command::ListDevices:
    print(device_list(options));
    return kWell;
  case Command::Check:
    set_up_devices(options);
    return check(options);
  case Command::CheckMany: {
    set_up_devices(options);
    Progress progress(false);
    check_many(stdin, stdout, engine_loader(options, progress));
    return kWell;
  }
  case Command::Replay: {
    const ReplayOutcome outcome = replay_file(options);
    print(outcome.text);
    return outcome.same ? kWell : kDiffers;
  }
  case Command::Run:
    set_up_devices(options);
    return run_once(options);
  }
  return kFailed;
}

bool tells_about_tolk(Command command) {
  return command == Command::Help || command == Command::Version || command == Command::Env ||
         command == Command::ListDevices;
}

int fail(std::string_view text) {
  log::flush();
  std::fflush(stdout);
  // Lines are ours; what else could move the cursor comes from names in files.
  std::string shown;
  for (size_t at = 0; at <= text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    shown += (at ? "\n" : "") + printable(text.substr(at, end - at));
    at = end + 1;
  }
  std::fputs(fmt::format("tolk-run: {}\n", shown).c_str(), stderr);
  return kFailed;
}

} // namespace

int main(int count, char** arguments) {
  int status = kFailed;
  std::optional<ScopedConfig> lenient; // what explains settings and devices works whatever the settings are
  try {
    Options options = parse_options({arguments + 1, arguments + count});
    std::vector<std::string> problems;
    if (tells_about_tolk(options.command)) lenient.emplace(Config::from_environment(&problems));
    for (const std::string& problem : problems) log::warning(problem + "; its default is used here");
    if (options.command != Command::Help && options.command != Command::Version) warn_unknown_variables();
    status = dispatch(options);
  } catch (const std::bad_alloc&) {
    status = fail("out of memory");
  } catch (const std::exception& e) {
    status = fail(e.what());
  }
  try {
    shut_down();
  } catch (const std::exception& e) {
    if (status != kFailed) status = fail(e.what()); // a fault that was reported is not reported twice
  }
  // A write that failed earlier took its text out of the buffer: the flush alone would not see it.
  bool written = std::fflush(stdout) == 0 && !std::ferror(stdout);
  if (!written && status == kWell) status = fail("standard output cannot be written");
  return status;
}
