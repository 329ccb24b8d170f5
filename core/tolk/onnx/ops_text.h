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

// Whether the node moves elements (Gather, Concat, Unique ...) and some of them are strings.
bool moves_text(const OpCall& op);
// What `function`, the operator on numbers, does to the strings of such a node. Throws ImportError for a scatter with
// a reduction.
std::vector<GraphValue> moved_text(OpCall& op, OpFunction function);

} // namespace tolk::onnx
