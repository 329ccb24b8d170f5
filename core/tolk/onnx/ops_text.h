// Strings exist on the host only; other files of operators call these where an operator also takes numbers.
#pragma once

#include "tolk/onnx/importer.h"

namespace tolk::onnx {

// Input 0, strings or numbers, as strings; numbers are read back when they depend on data.
GraphValue text_of(OpCall& op);
// Input 0, strings, read as numbers; throws ImportError for what is not one.
GraphValue numbers_of_text(OpCall& op, DType to);
// Inputs 0 and 1, strings, compared element by element with broadcasting.
GraphValue equal_text(OpCall& op);

} // namespace tolk::onnx
