// Activations that other operators apply, by name: those of recurrent layers and of fused products.
#pragma once

#include <functional>
#include <string>

#include "tolk/onnx/importer.h"

namespace tolk::onnx {

using Activation = std::function<Tensor(const Tensor&)>;

// An activation by its lower-case name: whether it takes alpha and beta, and what they are when the node gives none
// (the defaults of the operator of that name; of Affine and ScaledTanh, those of ONNX Runtime).
struct ActivationRow {
  const char* name;
  bool takes_alpha, takes_beta;
  double alpha, beta;
  Tensor (*function)(const Tensor& x, double alpha, double beta);
};

// The row of a name in any case; throws ImportError through `op` when there is none.
const ActivationRow& activation_row(OpCall& op, const std::string& name);
Activation activation_of(const ActivationRow& row, double alpha, double beta);

} // namespace tolk::onnx
