// An ONNX model that can be run.
//
//   onnx::Model model = onnx::Model::load("net.onnx", {.device = "CPU"});
//   std::vector<io::Value> results = model.run({{"x", image}});
//
// A Model is a handle: copies share the loaded weights and the compiled shapes. One model may be run from
// several threads; the runs take turns.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/io/value.h"
#include "tolk/onnx/graph.h"

namespace tolk::onnx {

// Told while a call compiles, from the thread that called: `done` of `total` kernels are ready. total 0: not
// known yet.
using ProgressCallback = std::function<void(std::string_view stage, size_t done, size_t total)>;

struct LoadOptions {
  std::string device;                      // as DEVICE=; empty: the setting, else the best device found
  std::map<std::string, int64_t> dims;     // upper bounds of symbolic dimensions (--dim)
  std::map<std::string, io::Shape> shapes; // shapes of inputs that the file leaves open (--shape)
  ProgressCallback progress;               // empty: none
};

// Milliseconds. The first four are sums over the calls that met a new combination of shapes.
struct Timings {
  double import = 0;        // reading the file and building the graph
  double schedule = 0;      // graph to kernels
  double compile = 0;       // kernels to machine code
  double first_run = 0;     // the first call, without the three above
  std::vector<double> runs; // every later call with shapes that were met before, in order: all that it takes
  // Whether each call builds the graph again, because it depends on the values of inputs; `runs` then contain that.
  bool rebuilds = false;
};

class TOLK_API Model {
public:
  // Reads the file and checks that every operator is supported: all that are not are reported in one
  // ImportError - name, domain, version and node of each - before anything runs. Throws also FormatError
  // (damaged file), InvalidArgument (file or an unknown input or dimension name in the options), DeviceError.
  static Model load(const std::string& path, LoadOptions options = {});

  // The values that a caller must give, those that it may give in place of an initializer, and those that it gets, in
  // the file's order.
  const std::vector<ValueInfo>& inputs() const;
  const std::vector<ValueInfo>& optional_inputs() const;
  const std::vector<ValueInfo>& outputs() const;

  // Runs once. `inputs` must name every input; types must match exactly, shapes up to symbolic and open
  // dimensions, which may change from call to call (a new combination compiles once). Gives the outputs in
  // order. Throws InvalidArgument that names the input, what was expected and what was given; DeviceError,
  // OutOfMemory and CompileError from below.
  std::vector<io::Value> run(const std::map<std::string, io::Value>& inputs);

  // The compiled form for inputs of these types and shapes, with all weights, as the bytes of a file that
  // SavedModel runs (onnx/model_saved.h). Compiles when this combination is new; computes nothing. Throws as
  // run does, and InvalidArgument for a model whose structure depends on its inputs' values and for inputs or
  // outputs that are not tensors of numbers.
  std::string save(const std::map<std::string, io::Value>& inputs);

  Timings timings() const;
  // The canonical name of the device it runs on: "CPU", "CPU:1".
  std::string device() const;

private:
  struct State;
  explicit Model(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

} // namespace tolk::onnx
