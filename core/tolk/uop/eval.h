// Exact evaluation of elementwise ops on constants, in the arithmetic of the dtype: what a device computes,
// bit for bit. Integers wrap; floats round once, to nearest even, after every operation. Functions whose last
// bit depends on the device (exp of 0.3) are never evaluated; their exact points (exp of 0) are.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tolk/uop/uop.h"

namespace tolk {

// A value of some dtype: integers, bools and Index in `i`, floats, already rounded to the dtype, in `f`.
struct Scalar {
  __int128 i = 0;
  double f = 0;
};

// Value of a CONST.
TOLK_API Scalar scalar_of(const UOp& constant);
// The CONST of a value. An Index beyond 64 bits cannot be held: null.
TOLK_API UOp constant_of(DType dtype, const Scalar& value, int lanes = 1);

// One elementwise op: `dtype` is the result's, `src_dtype` that of the last source (for a CAST, what is cast;
// for WHERE, a branch). Nothing when the bits are not certain: inexact function values, arithmetic on floats
// below 16 bits (devices differ in where they round), the sign of max(-0, 0), a NaN that would lose its
// payload, Index beyond 64 bits.
TOLK_API std::optional<Scalar> evaluate_op(Op op, DType dtype, DType src_dtype, std::span<const Scalar> src);

// The constant that an elementwise op on CONST sources equals; null when a source is no CONST or the value is
// not certain.
TOLK_API UOp fold_constants(Op op, DType dtype, std::span<const UOp> src);

// The integer rounded once to a float dtype, also beyond 2^53.
TOLK_API double int_to_float(DType dtype, __int128 value);

// A RANGE, VAR or any other node, with the value it stands for.
struct Binding {
  UOp node;
  Scalar value;
};

// An expression of elementwise ops over bound nodes and constants, prepared for many evaluations. For tests
// and for resolving symbolic sizes. Throws InvalidArgument at construction when a leaf is neither a constant
// nor bound.
class TOLK_API Evaluator {
public:
  // `inputs` are the nodes that `run` binds, in order.
  Evaluator(const UOp& expression, std::span<const UOp> inputs);
  // Throws InvalidArgument when a value is not certain, see evaluate_op.
  Scalar run(std::span<const Scalar> values);

private:
  struct Step {
    Op op;
    DType dtype, src_dtype;
    uint32_t first, count; // sources, in operands_
    uint32_t slot;
  };
  std::vector<Step> steps_;
  std::vector<uint32_t> operands_;
  std::vector<Scalar> slots_;
  size_t inputs_;
  uint32_t result_;
};

// One evaluation.
TOLK_API Scalar evaluate(const UOp& expression, std::span<const Binding> bindings);

} // namespace tolk
