// The names in a graph: every one that is read is defined before, and none is defined twice.
#pragma once

#include "tolk/onnx/graph.h"

namespace tolk::onnx {

// Brings the nodes of every graph (the model's, those inside nodes, the functions') into an order in which
// names are defined before they are read; nodes that are in order already stay as they are. Throws
// FormatError that names file and node for a name that nothing defines, one that is defined twice, or nodes
// that wait for each other.
void settle_names(ModelFile& model);

} // namespace tolk::onnx
