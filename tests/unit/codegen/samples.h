// Kernel ASTs as scheduling would write them, for tests.
#pragma once

#include <string>
#include <vector>

#include "tolk/uop/uop.h"

namespace tolk_test {

struct Sample {
  std::string name;
  tolk::UOp ast;
  double tolerance = 0; // of floats, with inputs in [-1, 1); 0: exact, with small integers
  std::vector<int64_t> variables;
};

// p0[m,n] = sum over k of p1[m,k] * p2[k,n], or of p2[n,k].
tolk::UOp matmul(int64_t m, int64_t n, int64_t k, bool transposed = false,
                 tolk::DType dtype = tolk::DType::F32);
// NCHW, weights OIHW, square kernel with `pad` zeros on every side.
tolk::UOp convolution(int64_t batch, int64_t in, int64_t out, int64_t size, int64_t kernel, int64_t stride,
                      int64_t pad);
// p0 = p1 + p2 over n elements.
tolk::UOp add(int64_t n, tolk::DType dtype = tolk::DType::F32);
// p0[i] = reduction over columns of p1[i,:], or over rows.
tolk::UOp row_reduce(tolk::Op op, int64_t rows, int64_t columns, tolk::DType dtype = tolk::DType::F32);
tolk::UOp column_reduce(tolk::Op op, int64_t rows, int64_t columns, tolk::DType dtype = tolk::DType::F32);
// p0[i] = op(p1[i]).
tolk::UOp unary(tolk::Op op, int64_t n, tolk::DType dtype);

// One of everything.
std::vector<Sample> all_samples();

} // namespace tolk_test
