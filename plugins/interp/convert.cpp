// CAST, BITCAST, and the two moves that depend on the width of an element only.
#include <array>
#include <limits>
#include <utility>

#include "alu_loops.h"
#include "facts.h"

namespace tolk_interp {
namespace {

// The nearest double at or below in magnitude, its last bit set when something was cut off: a second rounding
// to a narrower float is then right. A plain conversion of a 64-bit integer would round twice.
double to_odd_double(uint64_t magnitude, bool negative) {
  int cut = 64 - std::countl_zero(magnitude) - 53;
  double value = 0;
  if (cut <= 0) {
    value = static_cast<double>(magnitude);
  } else {
    uint64_t lost = magnitude & ((uint64_t{1} << cut) - 1);
    value = static_cast<double>(magnitude >> cut | (lost != 0 ? 1u : 0u)) * power_of_two(cut);
  }
  return negative ? -value : value;
}

// Truncates and saturates; NaN gives 0.
template <class T> typename T::Number saturated(double value) {
  using N = typename T::Number;
  if (std::isnan(value)) return 0;
  constexpr bool is_signed = T::family == Family::Signed;
  constexpr int magnitude_bits = T::bits - (is_signed ? 1 : 0);
  // The first value too large is a power of two, hence a double for every dtype.
  if (value >= power_of_two(magnitude_bits)) return static_cast<N>(~uint64_t{0} >> (64 - magnitude_bits));
  if constexpr (is_signed) {
    if (value <= -power_of_two(magnitude_bits)) return static_cast<N>(~uint64_t{0} << magnitude_bits);
  } else {
    if (value <= 0) return 0;
  }
  return static_cast<N>(value);
}

template <class From, class To> typename To::Cell convert(typename From::Cell cell) {
  auto n = From::get(cell);
  if constexpr (To::family == Family::Bool) {
    return n != 0; // NaN is not zero
  } else if constexpr (To::family == Family::Float) {
    if constexpr (From::family == Family::Float) {
      return To::put(static_cast<typename To::Number>(n));
    } else if constexpr (To::narrow) {
      bool negative = n < 0;
      auto bits = static_cast<uint64_t>(n);
      return To::put(to_odd_double(negative ? 0 - bits : bits, negative));
    } else {
      return static_cast<typename To::Cell>(n); // rounds once
    }
  } else if constexpr (From::family == Family::Float) {
    return To::put(static_cast<uint64_t>(saturated<To>(static_cast<double>(n))));
  } else {
    return To::put(static_cast<uint64_t>(n));
  }
}

template <int from, int to> void cast(std::byte* frame, const Instruction& in) {
  using From = TypeOf<from>;
  using To = TypeOf<to>;
  auto* d = cells<typename To::Cell>(frame, in.dst);
  const auto* a = cells<typename From::Cell>(frame, in.a);
  for (uint32_t i = 0; i < in.lanes; i++) d[i] = convert<From, To>(a[i]);
}

constexpr int kTypes = TOLK_DTYPE_COUNT;

template <int from, int... to>
constexpr std::array<AluFunction, kTypes> cast_row(std::integer_sequence<int, to...>) {
  return {cast<from, to>...};
}
template <int... from> constexpr auto cast_table(std::integer_sequence<int, from...> all) {
  return std::array<std::array<AluFunction, kTypes>, kTypes>{cast_row<from>(all)...};
}
constexpr auto kCasts = cast_table(std::make_integer_sequence<int, kTypes>());

template <uint32_t cell> void copy_cells(std::byte* frame, const Instruction& in) {
  std::memcpy(frame + in.dst, frame + in.a, uint64_t{in.lanes} * cell);
}

// Types below 8 bits: the cell of a signed one is extended, that of the others is not.
template <int bits> void to_signed_cell(std::byte* frame, const Instruction& in) {
  auto* d = cells<int8_t>(frame, in.dst);
  const auto* a = cells<uint8_t>(frame, in.a);
  for (uint32_t i = 0; i < in.lanes; i++) d[i] = static_cast<int8_t>(a[i] << (8 - bits)) >> (8 - bits);
}
template <int bits> void to_unsigned_cell(std::byte* frame, const Instruction& in) {
  auto* d = cells<uint8_t>(frame, in.dst);
  const auto* a = cells<uint8_t>(frame, in.a);
  for (uint32_t i = 0; i < in.lanes; i++) d[i] = a[i] & ((1 << bits) - 1);
}
void to_bool_cell(std::byte* frame, const Instruction& in) {
  auto* d = cells<uint8_t>(frame, in.dst);
  const auto* a = cells<uint8_t>(frame, in.a);
  for (uint32_t i = 0; i < in.lanes; i++) d[i] = a[i] != 0;
}

template <class Word> void where(std::byte* frame, const Instruction& in) {
  Word* d = cells<Word>(frame, in.dst);
  const uint8_t* condition = cells<uint8_t>(frame, in.a);
  const Word *yes = cells<Word>(frame, in.b), *no = cells<Word>(frame, in.c);
  uint32_t step = in.gate_per_lane;
  for (uint32_t i = 0; i < in.lanes; i++)
    std::memcpy(d + i, (condition[i * step] ? yes : no) + i, sizeof(Word));
}

template <class Word> void splat(std::byte* frame, const Instruction& in) {
  for (uint32_t i = 0; i < in.lanes; i++)
    std::memcpy(frame + in.dst + i * sizeof(Word), frame + in.a, sizeof(Word));
}

template <class F> AluFunction by_cell(uint32_t cell, F pick) {
  switch (cell) {
  case 1:
    return pick(uint8_t{});
  case 2:
    return pick(uint16_t{});
  case 4:
    return pick(uint32_t{});
  default:
    return pick(uint64_t{});
  }
}

} // namespace

AluFunction cast_function(uint8_t from, uint8_t to) { return kCasts[from][to]; }

AluFunction bitcast_function(uint8_t to) {
  const TypeFacts& type = type_facts(to);
  if (type.kind == 'b') return to_bool_cell;
  if (type.bits == 4) return type.kind == 'i' ? to_signed_cell<4> : to_unsigned_cell<4>;
  if (type.bits == 2) return type.kind == 'i' ? to_signed_cell<2> : to_unsigned_cell<2>;
  return by_cell(cell_bytes(to), [](auto word) -> AluFunction { return copy_cells<sizeof word>; });
}

AluFunction where_function(uint32_t cell) {
  return by_cell(cell, [](auto word) -> AluFunction { return where<decltype(word)>; });
}

AluFunction splat_function(uint32_t cell) {
  return by_cell(cell, [](auto word) -> AluFunction { return splat<decltype(word)>; });
}

} // namespace tolk_interp
