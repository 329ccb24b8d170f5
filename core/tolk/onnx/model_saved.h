// A model as its planned kernels and weights. Running one needs no importer, no scheduler and, once the compile
// cache knows its kernels, no compiler.
//
//   onnx::Model model = onnx::Model::load("net.onnx");
//   std::string file = model.save({{"x", image}});
//   io::write_file("net.tolk", std::as_bytes(std::span(file)));
//   onnx::SavedModel saved = onnx::SavedModel::load("net.tolk");    // perhaps in another process
//   std::vector<io::Value> results = saved.run({{"x", image}});
//
// The file is a saved capture (engine/capture/saved_capture.h) whose note describes inputs and outputs. It serves the
// shapes that it was saved with and no others.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/onnx/model.h"

namespace tolk::onnx {

// Whether the machine code in a file may run. It can do whatever the process can, so Trust is for files that
// you would run as a program.
enum class SavedCode : uint8_t { Ignore, Trust };

class TOLK_API SavedModel {
public:
  // Whether a file begins as saved models do; false for what cannot be read.
  static bool is_one(const std::string& path);
  // `device` as DEVICE=, empty for the default. Kernels come from the compile cache or are compiled from their
  // graphs; with SavedCode::Trust from the file, where it has them for this device and these settings. Throws,
  // always with the file's name, FormatError: damage, or a capture that is no model; InvalidArgument,
  // DeviceError, CompileError, OutOfMemory.
  static SavedModel load(const std::string& path, const std::string& device = {},
                         SavedCode code = SavedCode::Ignore);

  const std::vector<ValueInfo>& inputs() const; // with their fixed shapes
  const std::vector<ValueInfo>& outputs() const;
  // As Model::run. Throws InvalidArgument for an input that is missing, unknown, or of another type or shape.
  std::vector<io::Value> run(const std::map<std::string, io::Value>& inputs);
  // import: reading the file and preparing its kernels; compile: those that had to be compiled; schedule
  // stays 0.
  Timings timings() const;
  size_t compiled() const; // kernels that had to be compiled
  std::string device() const;

private:
  struct State;
  explicit SavedModel(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

// --- for Model::save ---

// Where an output's bytes are after a run.
struct SavedOutput {
  enum class From : uint8_t { Result, Input, Known };
  std::string name;
  From from = From::Result;
  size_t index = 0;      // of the capture's results, or of the inputs
  uint64_t offset = 0;   // bytes into the input
  io::HostTensor tensor; // its type and shape; its elements when known
};
struct SavedInput {
  std::string name;
  DType dtype; // as the caller gives it; sub-byte types are stored one element a byte
  io::Shape shape;
  bool stored = true; // has storage: an input without elements has none
};
std::string saved_note(const std::vector<SavedInput>& inputs, const std::vector<SavedOutput>& outputs);

} // namespace tolk::onnx
