// Integer and bool arithmetic. Numbers are 64 bits wide and wrap when they are stored, so most operations are the
// same for every dtype.
#include "alu_loops.h"

namespace tolk_interp {
namespace {

// Named like the opcodes. What bool has as well.
template <class T> struct BitOps {
  using N = typename T::Number;
  static uint64_t u(N n) { return static_cast<uint64_t>(n); }

  static uint64_t MAX(N a, N b) { return u(a < b ? b : a); }
  static uint64_t AND(N a, N b) { return u(a & b); }
  static uint64_t OR(N a, N b) { return u(a | b); }
  static uint64_t XOR(N a, N b) { return u(a ^ b); }
  static bool CMPLT(N a, N b) { return a < b; }
  static bool CMPEQ(N a, N b) { return a == b; }
  static bool CMPNE(N a, N b) { return a != b; }
};

template <class T> struct IntOps : BitOps<T> {
  using N = typename T::Number;
  using BitOps<T>::u;
  static constexpr uint64_t kBits = T::bits;

  static uint64_t ADD(N a, N b) { return u(a) + u(b); }
  static uint64_t SUB(N a, N b) { return u(a) - u(b); }
  static uint64_t MUL(N a, N b) { return u(a) * u(b); }
  static uint64_t NEG(N a) { return 0 - u(a); }
  static uint64_t MULACC(N a, N b, N c) { return u(a) * u(b) + u(c); }
  static uint64_t CDIV(N a, N b) {
    if (b == 0) return 0;
    // Also the one quotient that does not fit, minimum / -1, which the machine would trap on.
    if (std::is_signed_v<N> && b == static_cast<N>(-1)) return NEG(a);
    return u(a / b);
  }
  static uint64_t CMOD(N a, N b) {
    if (b == 0 || (std::is_signed_v<N> && b == static_cast<N>(-1))) return 0;
    return u(a % b);
  }
  // A negative count is a huge one.
  static uint64_t SHL(N a, N b) { return u(b) >= kBits ? 0 : u(a) << u(b); }
  static uint64_t SHR(N a, N b) {
    if (u(b) < kBits) return u(a >> u(b));
    return a < 0 ? ~uint64_t{0} : 0;
  }
};

template <class T> using OpsOf = std::conditional_t<T::family == Family::Bool, BitOps<T>, IntOps<T>>;

} // namespace

AluFunction int_function(uint16_t opcode, uint8_t dtype) {
  switch (dtype) {
#define TOLK_DTYPE(NAME, text, code, bits, kind)                                                             \
  case code:                                                                                                 \
    if constexpr (kind != 'f') return function_of<TypeOf<code>, OpsOf<TypeOf<code>>>(opcode);                \
    break;
#include <tolk/plugin/dtypes.def>
#undef TOLK_DTYPE
  default:
    break;
  }
  return nullptr;
}

} // namespace tolk_interp
