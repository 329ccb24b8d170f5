// Storing outputs in files.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "options.h"
#include "tolk/io/value.h"
#include "tolk/onnx/graph.h"

namespace tolk::run {

// Before anything runs: names that the model has not, endings that are not known, an output stored twice in
// one place. Throws InvalidArgument.
void check_outputs(const std::vector<onnx::ValueInfo>& outputs, const std::vector<NamedFile>& files);

// Writes the files; those that go to one .npz are written together. Gives the file of each stored output.
// Throws InvalidArgument: not writable, or a value that the format cannot hold (sequences; strings in .npy).
std::map<std::string, std::string> store_outputs(const std::vector<io::NamedValue>& outputs,
                                                 const std::vector<NamedFile>& files);

} // namespace tolk::run
