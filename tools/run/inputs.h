// Values for a model's inputs: from files where the user names them, from random numbers elsewhere.
#pragma once

#include <string>
#include <vector>

#include "options.h"
#include "tolk/io/value.h"
#include "tolk/onnx/graph.h"

namespace tolk::run {

struct InputValue {
  std::string name;
  io::Value value;
  std::string source; // the file, or "random"
};

struct PreparedInputs {
  std::vector<InputValue>
      values; // in the model's order: one for each input, then the optional ones that are given
  std::vector<std::string> notes; // what was assumed, a sentence each
};

// Throws InvalidArgument that names the input, what the model expects and what the file or flag gives:
// unknown names, two values for one input, wrong type, rank or size, dimensions of one name with two sizes,
// inputs that cannot be made up. Errors of files as their readers throw them.
// `optional` inputs have a value in the model; they get another when the user names a file for them.
PreparedInputs prepare_inputs(const std::vector<onnx::ValueInfo>& inputs, const Options& options,
                              const std::vector<onnx::ValueInfo>& optional = {});

// Whether a value must have the declared number of dimensions: yes where a user gives it; a case may know
// better than its model, and there the engine decides.
enum class Rank : uint8_t { Declared, Any };

// Reads a value for `info` from a .npy, .pb or .npz file (by its ending; a .npz must hold the input's name,
// or one array only). An exact conversion is made where a file cannot name the type: u16 bits or f32 for
// bf16, f32 for f8 and f4, i8 and u8 for 4- and 2-bit integers.
io::Value read_input(const onnx::ValueInfo& info, const std::string& file, Rank rank = Rank::Declared);

// The same for a value that is already read; `file` is for errors. Checks kind, type and rank, not sizes.
io::Value fit_input(const onnx::ValueInfo& info, io::Value value, const std::string& file,
                    Rank rank = Rank::Declared);

} // namespace tolk::run
