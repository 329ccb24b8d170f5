// Shared by the files of this layer: axis checks, broadcasting, node-level shorthands.
#pragma once

#include "tolk/base/error.h"
#include "tolk/tensor/tensor.h"
#include "tolk/uop/build.h"

namespace tolk::detail {

// A position in 0 .. rank-1 from an axis that may count from the end. `what` names the operation in the
// error.
int64_t normal_axis(int64_t axis, int64_t rank, const char* what);
// A bit per axis; no axes means all. Throws InvalidArgument for repeated axes.
uint64_t axis_mask(const Axes& axes, int64_t rank, const char* what);
// The common shape of NumPy's broadcasting rule; throws InvalidArgument that names both shapes.
Shape broadcast_shape(const Shape& a, const Shape& b);
// The node expanded to the shape. Scalars stay as they are, since elementwise ops accept them.
UOp stretched(const UOp& u, const Shape& shape);
// Throws InvalidArgument for a negative size and for more elements than an index can count.
void check_sizes(const Shape& shape, const char* what);
// Throws InvalidArgument unless the common dtype of both is an integer (or a bool, where `bools`).
void require_integers(const Tensor& a, const Tensor& b, const char* what, bool bools);
// Both operands in their common dtype and shape, ready for an elementwise op.
struct Pair {
  UOp a, b;
};
Pair matched(const Tensor& a, const Tensor& b);
// The value as an expression, never as a view of storage: for operations that are sometimes the identity.
Tensor value_of(const Tensor& t);
// Elementwise op after matching.
Tensor binary(Op op, const Tensor& a, const Tensor& b);
// a * b + c with one rounding; all of one float dtype. For polynomials only: user-visible a*b+c rounds twice.
Tensor fused(const Tensor& a, const Tensor& b, const Tensor& c);
// Coefficients from the highest power down, in x's dtype.
Tensor polynomial(const Tensor& x, std::initializer_list<double> coefficients);
// The value as the named function of the arguments, for gradients; see gradient_rules.cpp for the names.
Tensor named(const char* name, const Tensor& value, std::initializer_list<Tensor> arguments,
             std::vector<int64_t> numbers = {});
// The number when every element is the same constant.
std::optional<double> constant_value(const Tensor& t);
// Canonical spelling of a device: a name, names separated by commas, or nothing for the default device.
// Throws InvalidArgument for a list with HOST in it.
std::string canonical_devices(const std::string& device);
// (n, w) from (t, w): row r is the sum of the rows of `values` whose index (t, i64) is r; an index outside of
// 0..n-1 has no part. With chunks of about sqrt(n*w) indices, it costs t*sqrt(n*w) + t*w*log(chunk) + n*w.
// Undefined when asking every row of the result for every index costs less, or a size is symbolic.
Tensor sum_by_index(const Tensor& values, const Tensor& indices, const SInt& n);
// Drops the axes of the mask, which have size 1.
Tensor drop_axes(const Tensor& t, uint64_t mask);

} // namespace tolk::detail
