// Derivatives of single operations, as a table by op and one by name for FUNCTION.
#pragma once

#include <string_view>
#include <vector>

#include "tolk/tensor/tensor.h"

namespace tolk::detail {

// The values that a node's gradient can reach, in the order of its rule's results: its sources, for AFTER
// the value that its store wrote, and none behind an operation that blocks gradients. Carriers that are not
// floats are listed and never get one.
std::vector<UOp> gradient_carriers(const UOp& u);

// Input of a rule: the node, the incoming gradient (of the node's shape and dtype), and which carriers need
// one.
struct Backward {
  const UOp& y;
  const Tensor& c;
  const std::vector<bool>& wanted;
  Tensor src(size_t i) const { return Tensor(y.src(i)); }
};

// Gradients of the carriers, in order; undefined where none is wanted. A carrier of shape () beside a larger
// result may get one of the result's shape, which the caller sums.
using GradientRule = std::vector<Tensor> (*)(const Backward&);

// The rule for a node; null when there is none.
GradientRule gradient_rule(const UOp& u);

// Every op and every function with a rule, for tests that want one case each.
std::vector<Op> ops_with_gradient();
std::vector<std::string_view> functions_with_gradient();

} // namespace tolk::detail
