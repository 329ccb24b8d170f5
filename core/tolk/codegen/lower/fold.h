// Builders of expanded values. They fold what becomes constant when lanes are assigned, and splat scalars that meet a
// vector. Values have lanes; loops are still RANGE nodes.
#pragma once

#include <span>

#include "tolk/uop/build.h"

namespace tolk::codegen {

// The value in each of `lanes` lanes; the value itself when it has them.
UOp splat(const UOp& value, int lanes);
// A vector from scalars of one dtype.
UOp stack(std::span<const UOp> lanes);
UOp extract(const UOp& vector, int lane);

// Elementwise op of sources whose lanes are 1 or one common count; `like` gives dtype and arg. The condition
// of a WHERE may stay scalar.
UOp elementwise(const UOp& like, std::span<const UOp> src);
UOp value_op(Op op, const UOp& a, const UOp& b);

// Value of every lane folded into one scalar, pairwise.
UOp fold_lanes(Op op, const UOp& vector);
// Values folded into one, pairwise. At least one.
UOp fold_values(Op op, std::vector<UOp> values);

// A REDUCE after expansion has several values: each is folded into the one accumulator, in order, in every
// iteration.
UOp accumulation(Op op, std::span<const UOp> values, std::span<const UOp> loops);
size_t value_count(const UOp& reduce);
inline std::span<const UOp> values_of(const UOp& reduce) { return reduce.src().first(value_count(reduce)); }
inline std::span<const UOp> loops_of(const UOp& reduce) { return reduce.src().subspan(value_count(reduce)); }

} // namespace tolk::codegen
