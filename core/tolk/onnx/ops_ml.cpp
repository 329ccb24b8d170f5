#include "tolk/onnx/importer.h"

namespace tolk::onnx {

std::span<const OpRow> ml_ops() { return {}; }

} // namespace tolk::onnx
