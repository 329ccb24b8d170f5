// A model as the launcher sees it. The engine stands behind run_model.cpp alone; tests put functions here.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tolk/io/value.h"
#include "tolk/onnx/model.h"

namespace tolk::run {

// Takes a value for every input, gives the outputs in order.
using RunModel = std::function<std::vector<io::NamedValue>(const std::vector<io::NamedValue>&)>;

struct LoadedModel {
  std::vector<onnx::ValueInfo> inputs,
      outputs; // in the file's order; inputs without those that have an initializer
  std::vector<onnx::ValueInfo>
      optional_inputs; // those with an initializer, whose value is taken when none is given
  std::string device;
  RunModel run;
  std::function<onnx::Timings()> timings;
  // The compiled form for these inputs as the bytes of a file; empty for a model that comes from such a file.
  std::function<std::string(const std::vector<io::NamedValue>&)> save;
};

// Loads a model's file for a run. Throws the errors of onnx::Model::load.
using Loader = std::function<LoadedModel(const std::string& path)>;

} // namespace tolk::run
