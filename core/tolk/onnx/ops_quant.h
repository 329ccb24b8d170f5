// Quantisation shared by the operators of ai.onnx and com.microsoft.
#pragma once

#include "tolk/onnx/importer.h"

namespace tolk::onnx {

// x / scale rounded to nearest even, plus the zero point (undefined: 0), saturated to the type `to`. Scale and zero
// point broadcast to x. The result is in carrier_of(to).
Tensor quantised(const Tensor& x, const Tensor& scale, const Tensor& zero, DType to);
// (x - zero) * scale, of type `to`.
Tensor dequantised(const Tensor& x, const Tensor& scale, const Tensor& zero, DType to);

// x in u8, with scale and zero point from its smallest and largest element and 0, as DynamicQuantizeLinear does it.
struct DynamicallyQuantised {
  Tensor values, scale, zero;
};
DynamicallyQuantised dynamically_quantised(const Tensor& x);

// x minus its zero point (undefined: 0), in i32. A zero point per row, or with `rows` false per column, has one axis.
Tensor centred(const Tensor& x, const Tensor& zero, bool rows);

} // namespace tolk::onnx
