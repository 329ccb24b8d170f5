// The operations of the IR and their groups, from ops.def.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tolk/base/api.h"

namespace tolk {

enum class Op : uint8_t {
#define TOLK_OP(NAME, lo, hi, groups, meaning) NAME,
#include "tolk/uop/ops.def"
#undef TOLK_OP
};

inline constexpr int kOpCount = 0
#define TOLK_OP(NAME, lo, hi, groups, meaning) +1
#include "tolk/uop/ops.def"
#undef TOLK_OP
    ;
static_assert(kOpCount <= 128, "OpSet holds 128 operations");

// A set of operations, as two words.
struct OpSet {
  uint64_t word[2] = {0, 0};
  constexpr OpSet() = default;
  constexpr OpSet(Op op) { add(op); } // NOLINT(google-explicit-constructor): an op is a set of one
  template <typename... Rest> constexpr OpSet(Op first, Op second, Rest... rest) {
    add(first), add(second), (add(rest), ...);
  }
  constexpr void add(Op op) { word[int(op) >> 6] |= uint64_t(1) << (int(op) & 63); }
  constexpr bool has(Op op) const { return word[int(op) >> 6] >> (int(op) & 63) & 1; }
  constexpr bool contains(const OpSet& other) const {
    return (other.word[0] & ~word[0]) == 0 && (other.word[1] & ~word[1]) == 0;
  }
  constexpr OpSet operator|(const OpSet& o) const {
    OpSet r;
    r.word[0] = word[0] | o.word[0], r.word[1] = word[1] | o.word[1];
    return r;
  }
  constexpr bool empty() const { return (word[0] | word[1]) == 0; }
};

struct OpInfo {
  const char* name;
  int min_sources, max_sources; // max -1: any number
  const char* groups;           // letters of ops.def
  const char* meaning;
  double cost = 0; // of elementwise operations, as ops.def gives it
};
TOLK_API const OpInfo& op_info(Op op);
TOLK_API std::optional<Op> parse_op(std::string_view name);
inline const char* name(Op op) { return op_info(op).name; }

namespace ops {
namespace detail {
constexpr bool in_group(const char* groups, char letter) {
  for (; *groups; ++groups)
    if (*groups == letter) return true;
  return false;
}
constexpr OpSet group(char letter) {
  OpSet set;
  int index = 0;
#define TOLK_OP(NAME, lo, hi, groups, meaning)                                                               \
  if (in_group(groups, letter)) set.add(Op(index));                                                          \
  ++index;
#include "tolk/uop/ops.def"
#undef TOLK_OP
  return set;
}
} // namespace detail
inline constexpr OpSet Unary = detail::group('U');
inline constexpr OpSet Binary = detail::group('B');
inline constexpr OpSet Ternary = detail::group('T');
inline constexpr OpSet Elementwise = Unary | Binary | Ternary;
inline constexpr OpSet Commutative = detail::group('C');
inline constexpr OpSet Associative = detail::group('A');
inline constexpr OpSet Compare = detail::group('P');
inline constexpr OpSet FloatFunction = detail::group('F');
inline constexpr OpSet Movement = detail::group('M');
inline constexpr OpSet Storage = detail::group('S');
inline constexpr OpSet Effect = detail::group('E');
} // namespace ops

// What a loop becomes. The values are sort positions' tie-breakers only; see codegen for the order.
enum class AxisType : uint8_t {
  Loop,
  Reduce,
  Upcast,
  Unroll,
  Vector,
  Thread,
  Global,
  Local,
  GroupReduce,
  Device
};
TOLK_API const char* name(AxisType type);

} // namespace tolk
