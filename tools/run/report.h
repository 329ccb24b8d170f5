// What a run prints: inputs, outputs and times, as text or as one JSON object.
#pragma once

#include <string>
#include <vector>

#include "inputs.h"
#include "loaded_model.h"

namespace tolk::run {

struct RunReport {
  std::string model, device;
  std::vector<InputValue> inputs;
  std::vector<std::string> notes;
  std::vector<io::NamedValue> outputs;
  std::map<std::string, std::string> stored; // output -> file
  onnx::Timings timings;
  uint64_t runs = 1;
};

// The median of the runs after the first, 0 when there are none. Milliseconds.
double median_run(const onnx::Timings& timings);

std::string report_text(const RunReport& report);
// Times in seconds: import, schedule, compile, first_run, and median_run when there were runs after the first.
std::string report_json(const RunReport& report);

} // namespace tolk::run
