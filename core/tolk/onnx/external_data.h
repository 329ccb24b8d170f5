// Weights that an ONNX model keeps in files beside it.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "tolk/io/mapped_file.h"
#include "tolk/io/tensor_proto.h"

namespace tolk::onnx {

// Maps the files that a model's tensors name, each once. A model decides only what below its own folder is
// read: absolute locations, "..", and links that lead out of the folder are refused with ImportError. A part
// that lies beyond the file's end, or that has not the size the tensor needs, is a FormatError.
class ExternalData {
public:
  // `model_path`: the model's file; its folder (links resolved) is the border.
  explicit ExternalData(const std::string& model_path);
  io::ExternalBytes lookup(const io::ExternalReference& reference, uint64_t size, const io::Place& place);

private:
  std::shared_ptr<const io::MappedFile> file(const std::string& location, const io::Place& place);

  std::string model_path_;
  std::map<std::string, std::shared_ptr<const io::MappedFile>> files_;
};

} // namespace tolk::onnx
