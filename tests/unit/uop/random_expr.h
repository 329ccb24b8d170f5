// Random index expressions over a few small variables, and their exhaustive evaluation.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tolk/uop/build.h"
#include "tolk/uop/eval.h"

namespace tolk::testing {

// Seed of the property tests: TOLK_TEST_SEED, else fixed, so that a failure can be repeated.
uint64_t test_seed();

class RandomExpr {
public:
  // Makes three or four variables: loop ranges and VARs, some with negative values, at most 300 assignments
  // together.
  explicit RandomExpr(uint64_t seed);

  UOp index(int depth); // an Index expression
  UOp gate(int depth);  // a bool expression
  UOp clause();         // X < c, c < X, or the negation of one, of a sum of variables
  // An axis split or joined the way reshapes do, over all variables, so that recombination has work.
  UOp reshaped();

  const std::vector<UOp>& variables() const { return variables_; }
  int64_t pick(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(engine_); }
  const UOp& variable_at_random() { return variables_[size_t(pick(0, int64_t(variables_.size()) - 1))]; }

private:
  void make_variables();
  UOp affine();
  std::mt19937_64 engine_;
  std::vector<UOp> variables_;
};

// Calls visit(values) for every assignment of the variables within their bounds, until it returns false.
template <typename Visit> bool for_all(const std::vector<UOp>& variables, Visit visit) {
  std::vector<Scalar> values(variables.size());
  for (size_t i = 0; i < variables.size(); ++i) values[i].i = variables[i].vmin();
  while (true) {
    if (!visit(values)) return false;
    size_t i = 0;
    for (; i < variables.size(); ++i) {
      int64_t step = variables[i].is(Op::VAR) ? variables[i].arg().i(2) : 1;
      values[i].i += step;
      if (values[i].i <= variables[i].vmax()) break;
      values[i].i = variables[i].vmin();
    }
    if (i == variables.size()) return true;
  }
}

std::string assignment_text(const std::vector<UOp>& variables, const std::vector<Scalar>& values);

} // namespace tolk::testing
