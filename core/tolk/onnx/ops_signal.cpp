#include "tolk/onnx/importer.h"

namespace tolk::onnx {

std::span<const OpRow> signal_ops() { return {}; }

} // namespace tolk::onnx
