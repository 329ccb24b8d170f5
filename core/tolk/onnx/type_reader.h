// TypeProto: the declared type of a value.
#pragma once

#include <string_view>

#include "tolk/io/place.h"
#include "tolk/onnx/graph.h"

namespace tolk::onnx {

// Throws FormatError for a damaged message or types nested too deep. Unsupported element types are kept by
// their number.
Type parse_type(std::string_view message, const io::Place& place);

} // namespace tolk::onnx
