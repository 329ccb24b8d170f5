#include "random_expr.h"

#include <cstdlib>

#include "tolk/uop/print.h"

namespace tolk::testing {

uint64_t test_seed() {
  const char* text = std::getenv("TOLK_TEST_SEED");
  return text ? std::strtoull(text, nullptr, 10) : 20240607;
}

RandomExpr::RandomExpr(uint64_t seed) : engine_(seed) { make_variables(); }

void RandomExpr::make_variables() {
  int64_t assignments = 1, count = pick(3, 4);
  for (int64_t i = 0; i < count; ++i) {
    int64_t size = pick(2, i < 2 ? 8 : 4);
    while (assignments * size > 300) --size;
    if (size < 2) break;
    assignments *= size;
    if (pick(0, 2)) {
      variables_.push_back(range_node(size, i, pick(0, 1) ? AxisType::Loop : AxisType::Reduce));
      continue;
    }
    int64_t multiple = pick(0, 3) ? 1 : pick(2, 4), low = pick(-3, 2) * multiple;
    variables_.push_back(variable("v" + std::to_string(i), low, low + (size - 1) * multiple, multiple));
  }
}

UOp RandomExpr::affine() {
  UOp sum = index_const(pick(0, 1) ? pick(-12, 24) : 0);
  for (const UOp& v : variables_)
    if (pick(0, 2)) sum = sum + v * (pick(0, 1) ? pick(1, 16) : pick(-6, 6));
  return sum;
}

UOp RandomExpr::reshaped() {
  // Row-major number of all variables, taken apart by random sizes, and some of the parts put together again.
  UOp linear = index_const(pick(0, 3) ? 0 : pick(-7, 30));
  for (const UOp& v : variables_) linear = linear * (v.vmax() + 1) + v;
  if (pick(0, 3) == 0) linear = linear + affine();
  UOp out = index_const(0), rest = linear;
  int64_t stride = 1;
  for (int64_t i = 0, parts = pick(2, 4); i < parts; ++i) {
    int64_t size = pick(2, 9);
    UOp digit = i + 1 == parts && pick(0, 1) ? rest : floormod(rest, index_const(size));
    if (pick(0, 7)) out = out + digit * (pick(0, 9) ? stride : pick(1, 5));
    rest = floordiv(rest, index_const(size));
    stride *= size;
  }
  return out;
}

UOp RandomExpr::index(int depth) {
  if (depth <= 0) return pick(0, 3) ? affine() : variable_at_random();
  auto sub = [&] { return index(depth - 1 - int(pick(0, 1))); };
  switch (pick(0, 11)) {
  case 0:
    return sub() + sub();
  case 1:
    return sub() - sub();
  case 2:
    return sub() * pick(-4, 9);
  case 3:
  case 4:
    return floordiv(sub(), index_const(pick(0, 9) ? pick(1, 12) : pick(-5, 0)));
  case 5:
  case 6:
    return floormod(sub(), index_const(pick(0, 9) ? pick(1, 12) : pick(-5, 0)));
  case 7:
    return reshaped();
  case 8:
    return alu(Op::MAX, sub(), sub());
  case 9:
    return where(gate(depth - 1), sub(), sub());
  case 10: {
    UOp positive = variable_at_random() + pick(1, 4);
    return pick(0, 1) ? floordiv(sub(), positive)
                      : floormod(sub() + variable_at_random() * positive, positive);
  }
  default:
    return sub() + pick(-9, 9);
  }
}

UOp RandomExpr::clause() {
  UOp x = pick(0, 1) ? affine() : variable_at_random() + variable_at_random();
  UOp c = index_const(pick(-4, 20));
  UOp compared = pick(0, 1) ? less(x, c) : less(c, x);
  return pick(0, 3) ? compared : logical_not(compared);
}

UOp RandomExpr::gate(int depth) {
  switch (depth <= 0 ? 0 : pick(0, 5)) {
  case 0:
    return clause();
  case 1:
    return less(index(depth - 1), index(depth - 1));
  case 2:
    return alu(Op::AND, gate(depth - 1), gate(depth - 1));
  case 3:
    return alu(Op::OR, gate(depth - 1), gate(depth - 1));
  case 4:
    return logical_not(gate(depth - 1));
  default:
    return alu(pick(0, 1) ? Op::CMPEQ : Op::CMPNE, index(depth - 1), index(depth - 1));
  }
}

std::string assignment_text(const std::vector<UOp>& variables, const std::vector<Scalar>& values) {
  std::string text;
  for (size_t i = 0; i < variables.size(); ++i)
    text += (i ? ", " : "") + print_expr(variables[i]) + "=" + std::to_string(int64_t(values[i].i));
  return text;
}

} // namespace tolk::testing
