// The storage type of each dtype in a frame (Cell) and the type its arithmetic uses (Number): 64-bit integers, wrapped
// when stored; f32 and f64 themselves; double for narrower floats, rounded once when stored. Double rounding is
// harmless for + - * / and the square root, since double has more than 2p+2 bits for each of these formats
// (Figueroa, "When is double rounding innocuous?"); FMA is computed separately.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <tolk/plugin/types.h>

#include "narrow.h"

namespace tolk_interp {

enum class Family : uint8_t { Bool, Signed, Unsigned, Float };

struct BoolType {
  static constexpr Family family = Family::Bool;
  static constexpr int bits = 1;
  using Cell = uint8_t;
  using Number = uint64_t;
  static Number get(Cell c) { return c; }
  static Cell put(Number n) { return n != 0; }
};

template <class C, int kBits = int(8 * sizeof(C))> struct IntType {
  static constexpr Family family = std::is_signed_v<C> ? Family::Signed : Family::Unsigned;
  static constexpr int bits = kBits;
  using Cell = C;
  using Number = std::conditional_t<std::is_signed_v<C>, int64_t, uint64_t>;
  static Number get(Cell c) { return c; }
  // Wraps modulo 2^bits.
  static Cell put(uint64_t n) {
    if constexpr (kBits == 8 * sizeof(C))
      return static_cast<C>(n);
    else
      return static_cast<C>(static_cast<Number>(n << (64 - kBits)) >> (64 - kBits));
  }
};

template <class F> struct WideFloat {
  static constexpr Family family = Family::Float;
  static constexpr bool narrow = false;
  using Cell = F;
  using Number = F;
  static Number get(Cell c) { return c; }
  static Cell put(Number n) { return n; }
};

template <class Format, class C> struct NarrowFloat {
  static constexpr Family family = Family::Float;
  static constexpr bool narrow = true;
  using Cell = C;
  using Number = double;
  static Number get(Cell c) { return Format::decode(c); }
  static Cell put(Number n) { return Format::encode(n); }
};

template <int dtype> struct TypeOf;
template <> struct TypeOf<TOLK_DTYPE_BOOL> : BoolType {};
template <> struct TypeOf<TOLK_DTYPE_I8> : IntType<int8_t> {};
template <> struct TypeOf<TOLK_DTYPE_U8> : IntType<uint8_t> {};
template <> struct TypeOf<TOLK_DTYPE_I16> : IntType<int16_t> {};
template <> struct TypeOf<TOLK_DTYPE_U16> : IntType<uint16_t> {};
template <> struct TypeOf<TOLK_DTYPE_I32> : IntType<int32_t> {};
template <> struct TypeOf<TOLK_DTYPE_U32> : IntType<uint32_t> {};
template <> struct TypeOf<TOLK_DTYPE_I64> : IntType<int64_t> {};
template <> struct TypeOf<TOLK_DTYPE_U64> : IntType<uint64_t> {};
template <> struct TypeOf<TOLK_DTYPE_F16> : NarrowFloat<Half, uint16_t> {};
template <> struct TypeOf<TOLK_DTYPE_BF16> : NarrowFloat<BFloat, uint16_t> {};
template <> struct TypeOf<TOLK_DTYPE_F32> : WideFloat<float> {};
template <> struct TypeOf<TOLK_DTYPE_F64> : WideFloat<double> {};
template <> struct TypeOf<TOLK_DTYPE_F8E4M3> : NarrowFloat<F8E4M3, uint8_t> {};
template <> struct TypeOf<TOLK_DTYPE_F8E4M3FNUZ> : NarrowFloat<F8E4M3Fnuz, uint8_t> {};
template <> struct TypeOf<TOLK_DTYPE_F8E5M2> : NarrowFloat<F8E5M2, uint8_t> {};
template <> struct TypeOf<TOLK_DTYPE_F8E5M2FNUZ> : NarrowFloat<F8E5M2Fnuz, uint8_t> {};
template <> struct TypeOf<TOLK_DTYPE_F8E8M0> : NarrowFloat<ScaleFloat, uint8_t> {};
template <> struct TypeOf<TOLK_DTYPE_F4E2M1> : NarrowFloat<F4E2M1, uint8_t> {};
template <> struct TypeOf<TOLK_DTYPE_I4> : IntType<int8_t, 4> {};
template <> struct TypeOf<TOLK_DTYPE_U4> : IntType<uint8_t, 4> {};
template <> struct TypeOf<TOLK_DTYPE_I2> : IntType<int8_t, 2> {};
template <> struct TypeOf<TOLK_DTYPE_U2> : IntType<uint8_t, 2> {};

// The cells of an operand or result. A place in a frame belongs to one value and so to one type.
template <class Cell> Cell* cells(std::byte* frame, uint32_t offset) {
  return reinterpret_cast<Cell*>(frame + offset);
}

} // namespace tolk_interp
