// Float arithmetic. Functions without a standard rounding (exp, sin and so on) are computed in double for every
// narrower type, so results are correctly rounded except for near-ties that double cannot resolve.
#include <cmath>
#include <limits>

#include "alu_loops.h"

namespace tolk_interp {
namespace {

// a * b + c for narrow types. The product is exact in double; the sum is rounded to odd, so that rounding it again
// to the narrow type gives the correctly rounded result.
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

// exp and exp2 of a finite number never give infinity: a type that saturates must see a finite value.
double finite_power(double a, double result) {
  return std::isinf(result) && std::isfinite(a) ? std::numeric_limits<double>::max() : result;
}

// Named like the opcodes.
template <class T> struct FloatOps {
  using N = typename T::Number;
  static N ADD(N a, N b) { return a + b; }
  static N SUB(N a, N b) { return a - b; }
  static N MUL(N a, N b) { return a * b; }
  static N NEG(N a) { return -a; }
  static N FDIV(N a, N b) { return a / b; }
  static N MAX(N a, N b) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
    return a < b ? b : a;
  }
  static N MULACC(N a, N b, N c) {
    if constexpr (T::narrow)
      return fused_for_narrow(a, b, c);
    else
      return std::fma(a, b, c);
  }
  static bool CMPLT(N a, N b) { return a < b; }
  static bool CMPEQ(N a, N b) { return a == b; }
  static bool CMPNE(N a, N b) { return a != b; }
  static N SQRT(N a) { return std::sqrt(a); }
  static N TRUNC(N a) { return std::trunc(a); }
  static N EXP2(N a) {
    auto result = std::exp2(static_cast<double>(a));
    return static_cast<N>(T::narrow ? finite_power(a, result) : result);
  }
  static N LOG2(N a) { return static_cast<N>(std::log2(static_cast<double>(a))); }
  static N SIN(N a) { return static_cast<N>(std::sin(static_cast<double>(a))); }
  static N EXP(N a) {
    auto result = std::exp(static_cast<double>(a));
    return static_cast<N>(T::narrow ? finite_power(a, result) : result);
  }
  static N LOG(N a) { return static_cast<N>(std::log(static_cast<double>(a))); }
  static N COS(N a) { return static_cast<N>(std::cos(static_cast<double>(a))); }
};

} // namespace

AluFunction float_function(uint16_t opcode, uint8_t dtype) {
  switch (dtype) {
#define TOLK_DTYPE(NAME, text, code, bits, kind)                                                             \
  case code:                                                                                                 \
    if constexpr (kind == 'f') return function_of<TypeOf<code>, FloatOps<TypeOf<code>>>(opcode);             \
    break;
#include <tolk/plugin/dtypes.def>
#undef TOLK_DTYPE
  default:
    break;
  }
  return nullptr;
}

} // namespace tolk_interp
