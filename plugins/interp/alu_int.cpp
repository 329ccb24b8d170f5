// Arithmetic of integers and bool. Numbers are 64 bits wide and wrapped when stored, so that a sum, a product
// or a left shift needs no thought about the dtype; what does is written out below.
#include "alu_loops.h"

namespace tolk_interp {
namespace {

template <class T> struct IntOps {
  using N = typename T::Number;
  static constexpr uint64_t kBits = T::bits;
  static uint64_t u(N n) { return static_cast<uint64_t>(n); }

  static uint64_t add(N a, N b) { return u(a) + u(b); }
  static uint64_t sub(N a, N b) { return u(a) - u(b); }
  static uint64_t mul(N a, N b) { return u(a) * u(b); }
  static uint64_t neg(N a) { return 0 - u(a); }
  static uint64_t mulacc(N a, N b, N c) { return u(a) * u(b) + u(c); }
  static uint64_t max(N a, N b) { return u(a < b ? b : a); }
  static uint64_t cdiv(N a, N b) {
    if (b == 0) return 0;
    // Also the one quotient that does not fit, minimum / -1, which the machine would trap on.
    if (std::is_signed_v<N> && b == static_cast<N>(-1)) return neg(a);
    return u(a / b);
  }
  static uint64_t cmod(N a, N b) {
    if (b == 0 || (std::is_signed_v<N> && b == static_cast<N>(-1))) return 0;
    return u(a % b);
  }
  // A negative count is a huge one.
  static uint64_t shl(N a, N b) { return u(b) >= kBits ? 0 : u(a) << u(b); }
  static uint64_t shr(N a, N b) {
    if (u(b) < kBits) return u(a >> u(b));
    return a < 0 ? ~uint64_t{0} : 0;
  }
  static uint64_t band(N a, N b) { return u(a & b); }
  static uint64_t bor(N a, N b) { return u(a | b); }
  static uint64_t bxor(N a, N b) { return u(a ^ b); }
  static bool lt(N a, N b) { return a < b; }
  static bool eq(N a, N b) { return a == b; }
  static bool ne(N a, N b) { return a != b; }
};

template <class T> AluFunction function_of(uint16_t opcode) {
  using O = IntOps<T>;
  switch (opcode) {
  case TOLK_IR_MAX:
    return binary<T, O::max>;
  case TOLK_IR_AND:
    return binary<T, O::band>;
  case TOLK_IR_OR:
    return binary<T, O::bor>;
  case TOLK_IR_XOR:
    return binary<T, O::bxor>;
  case TOLK_IR_CMPLT:
    return compare<T, O::lt>;
  case TOLK_IR_CMPEQ:
    return compare<T, O::eq>;
  case TOLK_IR_CMPNE:
    return compare<T, O::ne>;
  default:
    break;
  }
  if constexpr (T::family != Family::Bool) {
    switch (opcode) {
    case TOLK_IR_ADD:
      return binary<T, O::add>;
    case TOLK_IR_SUB:
      return binary<T, O::sub>;
    case TOLK_IR_MUL:
      return binary<T, O::mul>;
    case TOLK_IR_NEG:
      return unary<T, O::neg>;
    case TOLK_IR_MULACC:
      return ternary<T, O::mulacc>;
    case TOLK_IR_CDIV:
      return binary<T, O::cdiv>;
    case TOLK_IR_CMOD:
      return binary<T, O::cmod>;
    case TOLK_IR_SHL:
      return binary<T, O::shl>;
    case TOLK_IR_SHR:
      return binary<T, O::shr>;
    default:
      break;
    }
  }
  return nullptr;
}

} // namespace

AluFunction int_function(uint16_t opcode, uint8_t dtype) {
  switch (dtype) {
#define TOLK_DTYPE(NAME, text, code, bits, kind)                                                             \
  case code:                                                                                                 \
    if constexpr (kind != 'f') return function_of<TypeOf<code>>(opcode);                                     \
    break;
#include <tolk/plugin/dtypes.def>
#undef TOLK_DTYPE
  default:
    break;
  }
  return nullptr;
}

} // namespace tolk_interp
