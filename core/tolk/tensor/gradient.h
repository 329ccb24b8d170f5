// Gradients: a graph that computes the derivatives of a value. Nothing runs; the results are lazy tensors and
// can be differentiated again.
//
//   Tensor loss = (x.matmul(w) - y).square().mean();
//   std::vector<Tensor> g = gradient(loss, std::vector<Tensor>{w});
//   w.assign(w - g[0] * 0.01).realize();
#pragma once

#include <span>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/tensor/tensor.h"

namespace tolk {

// One gradient for each of `wrt`, of its shape and dtype: the sum over all elements e of the loss of
// seed[e] * d loss[e] / d wrt. Without a seed the loss must have one element, and the seed is 1.
//
// - A tensor on which the loss does not depend in a differentiable way gets zeros. No gradient passes
//   detach, comparisons, rounding, bit casts, integers and bools.
// - Realized values are leaves: take gradients before intermediate values are realized. The tensors of `wrt`
//   themselves may be realized before or after the loss is built.
// - A reshape or permutation of a value counts as that value: gradient(f(x.reshape(s)), {x.reshape(t)}) is
//   the gradient of x in shape t.
// - Where the derivative is discontinuous: equal operands of maximum, minimum and clip get half each, the
//   largest elements of a max share equally; relu and abs have 0 at 0.
// - A sharded or replicated value is one value; an all-reduce of terms that differ gives each term its own
//   gradient (docs/devices.md).
// - Sums over broadcasts, windows and gathers accumulate in f32 at least.
//
// Throws InvalidArgument for a loss or a `wrt` that is not a float, for a loss of several elements without a
// seed, for a seed of another shape, for a constant in `wrt` (equal constants are one node; clone() it
// first), and for an operation on the path that has no rule, by name.
TOLK_API std::vector<Tensor> gradient(const Tensor& loss, std::span<const Tensor> wrt,
                                      const Tensor& seed = {});

} // namespace tolk
