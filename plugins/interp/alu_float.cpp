// Arithmetic of floats. The functions that no standard rounds (exp, sin and so on) are computed in double for
// every narrower type: then they are the nearest value but for ties that double cannot see.
#include <cmath>
#include <limits>

#include "alu_loops.h"

namespace tolk_interp {
namespace {

// a * b + c for narrow types. The product is exact in double; the sum is rounded to double so that its last
// bit is odd whenever something was lost ("round to odd"). The rounding to the narrow type then goes the
// right way.
double fused_for_narrow(double a, double b, double c) {
  double product = a * b, sum = product + c;
  if (!std::isfinite(sum)) return sum;
  // Knuth's two-sum: sum + lost is the exact result.
  double c_part = sum - product;
  double lost = (product - (sum - c_part)) + (c - c_part);
  if (lost == 0 || (std::bit_cast<uint64_t>(sum) & 1) != 0) return sum;
  return std::nextafter(sum, lost > 0 ? std::numeric_limits<double>::infinity()
                                      : -std::numeric_limits<double>::infinity());
}

// A power that double cannot hold is a finite number all the same, and a type that saturates says so.
double finite_power(double a, double result) {
  return std::isinf(result) && std::isfinite(a) ? std::numeric_limits<double>::max() : result;
}

template <class T> struct FloatOps {
  using N = typename T::Number;
  static N add(N a, N b) { return a + b; }
  static N sub(N a, N b) { return a - b; }
  static N mul(N a, N b) { return a * b; }
  static N neg(N a) { return -a; }
  static N fdiv(N a, N b) { return a / b; }
  static N max(N a, N b) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
    return a < b ? b : a;
  }
  static N mulacc(N a, N b, N c) {
    if constexpr (T::narrow)
      return fused_for_narrow(a, b, c);
    else
      return std::fma(a, b, c);
  }
  static bool lt(N a, N b) { return a < b; }
  static bool eq(N a, N b) { return a == b; }
  static bool ne(N a, N b) { return a != b; }
  static N sqrt(N a) { return std::sqrt(a); }
  static N trunc(N a) { return std::trunc(a); }
  static N exp2(N a) {
    auto result = std::exp2(static_cast<double>(a));
    return static_cast<N>(T::narrow ? finite_power(a, result) : result);
  }
  static N log2(N a) { return static_cast<N>(std::log2(static_cast<double>(a))); }
  static N sin(N a) { return static_cast<N>(std::sin(static_cast<double>(a))); }
  static N exp(N a) {
    auto result = std::exp(static_cast<double>(a));
    return static_cast<N>(T::narrow ? finite_power(a, result) : result);
  }
  static N log(N a) { return static_cast<N>(std::log(static_cast<double>(a))); }
  static N cos(N a) { return static_cast<N>(std::cos(static_cast<double>(a))); }
};

template <class T> AluFunction function_of(uint16_t opcode) {
  using O = FloatOps<T>;
  switch (opcode) {
  case TOLK_IR_ADD:
    return binary<T, O::add>;
  case TOLK_IR_SUB:
    return binary<T, O::sub>;
  case TOLK_IR_MUL:
    return binary<T, O::mul>;
  case TOLK_IR_NEG:
    return unary<T, O::neg>;
  case TOLK_IR_FDIV:
    return binary<T, O::fdiv>;
  case TOLK_IR_MAX:
    return binary<T, O::max>;
  case TOLK_IR_MULACC:
    return ternary<T, O::mulacc>;
  case TOLK_IR_CMPLT:
    return compare<T, O::lt>;
  case TOLK_IR_CMPEQ:
    return compare<T, O::eq>;
  case TOLK_IR_CMPNE:
    return compare<T, O::ne>;
  case TOLK_IR_SQRT:
    return unary<T, O::sqrt>;
  case TOLK_IR_TRUNC:
    return unary<T, O::trunc>;
  case TOLK_IR_EXP2:
    return unary<T, O::exp2>;
  case TOLK_IR_LOG2:
    return unary<T, O::log2>;
  case TOLK_IR_SIN:
    return unary<T, O::sin>;
  case TOLK_IR_EXP:
    return unary<T, O::exp>;
  case TOLK_IR_LOG:
    return unary<T, O::log>;
  case TOLK_IR_COS:
    return unary<T, O::cos>;
  default:
    return nullptr;
  }
}

} // namespace

AluFunction float_function(uint16_t opcode, uint8_t dtype) {
  switch (dtype) {
#define TOLK_DTYPE(NAME, text, code, bits, kind)                                                             \
  case code:                                                                                                 \
    if constexpr (kind == 'f') return function_of<TypeOf<code>>(opcode);                                     \
    break;
#include <tolk/plugin/dtypes.def>
#undef TOLK_DTYPE
  default:
    break;
  }
  return nullptr;
}

} // namespace tolk_interp
