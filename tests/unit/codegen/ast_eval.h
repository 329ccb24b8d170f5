// The meaning of a kernel AST, computed directly: loops as written, floats in double, integers exactly. The
// reference for everything codegen makes; shares nothing with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tolk/uop/uop.h"

namespace tolk_test {

// A buffer: values as numbers. Floats hold what the dtype can hold.
struct Data {
  tolk::DType dtype = tolk::DType::F32;
  std::vector<double> floats;    // float dtypes
  std::vector<int64_t> integers; // the others
  size_t size() const { return tolk::is_float(dtype) ? floats.size() : integers.size(); }
};

// Runs the kernel on the buffers, by slot. `variables` are the values of its VARs, by name order. An access
// outside of a buffer throws std::out_of_range. Stored floats are rounded to the buffer's dtype.
void evaluate(const tolk::UOp& ast, std::vector<Data>& buffers, const std::vector<int64_t>& variables = {});

} // namespace tolk_test
