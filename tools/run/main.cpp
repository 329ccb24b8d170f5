// tolk-run: runs an ONNX model on a device.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <new>

#include "check.h"
#include "environment.h"
#include "inputs.h"
#include "list_devices.h"
#include "option_table.h"
#include "options.h"
#include "outputs.h"
#include "report.h"
#include "run_model.h"
#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/base/version.h"
#include "tolk/io/mapped_file.h"

namespace {

using namespace tolk;
using namespace tolk::run;

enum Status : int { kWell = 0, kDiffers = 1, kFailed = 2 };

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

int run_once(const Options& options) {
  std::error_code none;
  if (!options.save.empty() && std::filesystem::equivalent(options.save, options.model, none))
    throw InvalidArgument("--save " + options.save + ": this is the model itself; name another file");
  Progress progress(true);
  LoadedModel model = engine_loader(options, progress)(options.model);
  check_outputs(model.outputs, options.outputs);
  PreparedInputs inputs = prepare_inputs(model.inputs, options);
  std::vector<io::NamedValue> values;
  for (const InputValue& input : inputs.values) values.push_back({input.name, input.value});

  RunReport report;
  report.notes = std::move(inputs.notes);
  report.outputs = model.run(values);
  for (uint64_t i = 1; i < options.runs; ++i) report.outputs = model.run(values);
  if (!options.save.empty()) {
    if (!model.save)
      throw InvalidArgument(options.model + " is a saved model already; --save takes the ONNX file");
    std::string bytes = model.save(values);
    io::write_file(options.save, std::as_bytes(std::span(bytes)));
    report.notes.push_back("compiled model stored in " + options.save);
  }
  progress.clear();
  report.model = options.model;
  report.device = model.device;
  report.inputs = std::move(inputs.values);
  report.stored = store_outputs(report.outputs, options.outputs);
  report.timings = model.timings();
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
  case Command::Run:
    set_up_devices(options);
    return run_once(options);
  }
  return kFailed;
}

int fail(const char* text) {
  log::flush();
  std::fflush(stdout);
  std::fputs(fmt::format("tolk-run: {}\n", text).c_str(), stderr);
  return kFailed;
}

} // namespace

int main(int count, char** arguments) {
  int status = kFailed;
  try {
    Options options = parse_options({arguments + 1, arguments + count});
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
