// Attributes of convolutions and pools, shared by the operators that have them. check_node has seen strides,
// dilations, kernels (1 or more) and the lengths of the lists.
#pragma once

#include <utility>
#include <vector>

#include "tolk/onnx/importer.h"

namespace tolk::onnx {

// Strides, dilations, groups and padding of a convolution of x (N, C, spatial...) with the weight w. Throws
// ImportError when their numbers of axes differ, or kernel_shape is not that of the weight.
Tensor::Conv conv_of(OpCall& op, const Tensor& x, const Tensor& w);

// The windows of a pool over x (N, C, spatial...). Throws ImportError when no window fits.
Tensor::Pool pool_of(OpCall& op, const Tensor& x);
// Whether the result has an axis of size 0, as it does in floor mode when the window is longer than the padded
// axis by less than a stride; `shape` is the result's then.
bool pool_is_empty(const Tensor& x, const Tensor::Pool& how, Shape& shape);

} // namespace tolk::onnx
