// Element types. The list is plugin_api's dtypes.def, in ABI order, plus two types that never reach a buffer:
// Index (loop and shape arithmetic: unbounded integers, floor semantics) and Void (effects).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tolk/base/api.h"

namespace tolk {

enum class DType : uint8_t {
#define TOLK_DTYPE(NAME, text, code, bits, kind) NAME = code,
#include <tolk/plugin/dtypes.def>
#undef TOLK_DTYPE
  Index = 23,
  Void = 24,
};

inline constexpr int kDTypeCount = 23; // storable types; Index and Void are not
inline constexpr DType kDefaultFloat = DType::F32;
inline constexpr DType kDefaultInt = DType::I32;

struct DTypeInfo {
  const char* name; // short name as printed: f32, i64, bool
  uint8_t bits;     // width of one element; 64 for Index, 0 for Void
  char kind;        // b bool, i signed, u unsigned, f float, x index, v void
};
namespace detail {
inline constexpr DTypeInfo kDTypeInfo[] = {
#define TOLK_DTYPE(NAME, text, code, bits, kind) {#text, bits, kind},
#include <tolk/plugin/dtypes.def>
#undef TOLK_DTYPE
    {"index", 64, 'x'},
    {"void", 0, 'v'},
};
} // namespace detail

// Defined for every enumerator; check numbers that come from outside first.
constexpr const DTypeInfo& dtype_info(DType dtype) { return detail::kDTypeInfo[static_cast<uint8_t>(dtype)]; }

constexpr const char* name(DType dtype) { return dtype_info(dtype).name; }
constexpr int bits(DType dtype) { return dtype_info(dtype).bits; }
constexpr bool is_float(DType dtype) { return dtype_info(dtype).kind == 'f'; }
constexpr bool is_bool(DType dtype) { return dtype == DType::BOOL; }
constexpr bool is_signed(DType dtype) { return dtype_info(dtype).kind == 'i'; }
constexpr bool is_unsigned(DType dtype) { return dtype_info(dtype).kind == 'u'; }
// Signed or unsigned integer, or Index; bool is not an integer.
constexpr bool is_int(DType dtype) {
  char k = dtype_info(dtype).kind;
  return k == 'i' || k == 'u' || k == 'x';
}

// Bytes of `count` elements in memory; types narrower than 8 bits are packed. Throws InvalidArgument for
// Index and Void and on overflow.
TOLK_API uint64_t storage_bytes(DType dtype, uint64_t count);

// Reads a short name (f32), a numpy name (float32) or an ONNX name (FLOAT), any case; nothing when unknown.
TOLK_API std::optional<DType> parse_dtype(std::string_view text);

// The smallest type that both convert to without losing range: their least upper bound in the lattice of
// docs/generated/uop.md. 64-bit integers of different signs promote to the default float. Index and Void promote
// only with themselves; otherwise throws InvalidArgument.
TOLK_API DType promote(DType a, DType b);
// The float type in which a float function of `dtype` is computed: itself, or promote(dtype, default float).
TOLK_API DType least_float(DType dtype);
// Accumulator of a sum: integers widen to 32 bits at least, small floats to f32.
TOLK_API DType sum_dtype(DType dtype);
// Whether every value of `from` is a value of `to`.
TOLK_API bool lossless_cast(DType from, DType to);

} // namespace tolk
