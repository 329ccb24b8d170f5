// Reads an ONNX file into the structs of graph.h.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "tolk/base/api.h"
#include "tolk/onnx/graph.h"

namespace tolk::onnx {

// Maps the file and reads it in one pass; weights that are aligned stay in the mapping. What it promises
// about the result: every node has an operator and outputs, every name that a node or graph reads is defined
// before by an input, an initializer, an earlier node or an enclosing graph, and none is defined twice in one
// graph. Throws FormatError (damaged: file, place, expectation), ImportError (sound, but not supported), or
// InvalidArgument (the file cannot be opened). Work and memory are bounded by a multiple of the file's size.
TOLK_API ModelFile read_model(const std::string& path);

// The same for a model in memory. `path` stands in errors and gives the folder of external data; `owner`
// keeps the bytes alive, null: weights are copied.
TOLK_API ModelFile parse_model(std::span<const std::byte> bytes, const std::string& path,
                               std::shared_ptr<const void> owner);

} // namespace tolk::onnx
