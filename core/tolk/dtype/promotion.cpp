// The promotion lattice as a list of edges; a pair promotes to its least upper bound, computed for all
// pairs at compile time.
#include <array>
#include <cstdint>

#include "tolk/base/error.h"
#include "tolk/dtype/dtype.h"
#include "tolk/dtype/narrow_float.h"
#include "tolk/dtype/scalar.h"

namespace tolk {
namespace {

// One point that is no dtype: "some float", where integers of 64 bits with different signs meet and from
// which every float can be reached. It reads as the default float when it is the answer.
constexpr int kSomeFloat = kDTypeCount;
constexpr int kPoints = kDTypeCount + 1;

struct Edge {
  int from, to;
};
constexpr int at(DType dtype) { return static_cast<int>(dtype); }

constexpr Edge kEdges[] = {
    {at(DType::BOOL), at(DType::I2)},
    {at(DType::BOOL), at(DType::U2)},
    {at(DType::I2), at(DType::I4)},
    {at(DType::U2), at(DType::I4)},
    {at(DType::U2), at(DType::U4)},
    {at(DType::I4), at(DType::I8)},
    {at(DType::U4), at(DType::I8)},
    {at(DType::U4), at(DType::U8)},
    {at(DType::I8), at(DType::I16)},
    {at(DType::I16), at(DType::I32)},
    {at(DType::I32), at(DType::I64)},
    {at(DType::U8), at(DType::I16)},
    {at(DType::U8), at(DType::U16)},
    {at(DType::U16), at(DType::I32)},
    {at(DType::U16), at(DType::U32)},
    {at(DType::U32), at(DType::I64)},
    {at(DType::U32), at(DType::U64)},
    {at(DType::I64), kSomeFloat},
    {at(DType::U64), kSomeFloat},
    {kSomeFloat, at(DType::F4E2M1)},
    {kSomeFloat, at(DType::F8E8M0)},
    {at(DType::F4E2M1), at(DType::F8E4M3)},
    {at(DType::F4E2M1), at(DType::F8E5M2)},
    {at(DType::F4E2M1), at(DType::F8E4M3FNUZ)},
    {at(DType::F4E2M1), at(DType::F8E5M2FNUZ)},
    {at(DType::F8E4M3), at(DType::F16)},
    {at(DType::F8E4M3), at(DType::BF16)},
    {at(DType::F8E4M3FNUZ), at(DType::F16)},
    {at(DType::F8E4M3FNUZ), at(DType::BF16)},
    {at(DType::F8E5M2), at(DType::F16)},
    {at(DType::F8E5M2), at(DType::BF16)},
    {at(DType::F8E5M2FNUZ), at(DType::F16)},
    {at(DType::F8E5M2FNUZ), at(DType::BF16)},
    {at(DType::F8E8M0), at(DType::BF16)},
    {at(DType::F16), at(DType::F32)},
    {at(DType::BF16), at(DType::F32)},
    {at(DType::F32), at(DType::F64)},
};

// Order in which candidates are preferred: a smaller rank wins.
constexpr int rank(int point) {
  constexpr DType order[] = {DType::BOOL, DType::I2,  DType::U2,  DType::I4,  DType::U4,
                             DType::I8,   DType::U8,  DType::I16, DType::U16, DType::I32,
                             DType::U32,  DType::I64, DType::U64};
  constexpr DType floats[] = {DType::F4E2M1,     DType::F8E4M3, DType::F8E4M3FNUZ, DType::F8E5M2,
                              DType::F8E5M2FNUZ, DType::F8E8M0, DType::F16,        DType::BF16,
                              DType::F32,        DType::F64};
  int position = 0;
  for (DType dtype : order) {
    if (at(dtype) == point) return position;
    ++position;
  }
  if (point == kSomeFloat) return position;
  for (DType dtype : floats) {
    ++position;
    if (at(dtype) == point) return position;
  }
  return position + 1;
}

using Table = std::array<std::array<DType, kDTypeCount>, kDTypeCount>;

constexpr Table make_table() {
  std::array<uint32_t, kPoints> above{};
  for (int i = 0; i < kPoints; ++i) above[static_cast<size_t>(i)] = uint32_t{1} << i;
  for (int pass = 0; pass < kPoints; ++pass) // as many passes as the longest chain has steps, at most
    for (const Edge& edge : kEdges)
      above[static_cast<size_t>(edge.from)] |= above[static_cast<size_t>(edge.to)];
  Table table{};
  for (size_t a = 0; a < kDTypeCount; ++a)
    for (size_t b = 0; b < kDTypeCount; ++b) {
      uint32_t common = above[a] & above[b];
      int best = -1;
      for (int point = 0; point < kPoints; ++point)
        if ((common >> point & 1) && (best < 0 || rank(point) < rank(best))) best = point;
      table[a][b] = best == kSomeFloat ? kDefaultFloat : static_cast<DType>(best);
    }
  return table;
}

constexpr Table kTable = make_table();

bool lossless_float(const FloatFormat& from, const FloatFormat& to) {
  // Smallest steps, largest values, then the codes that are not numbers.
  if (to.mantissa < from.mantissa) return false;
  if (to.min_exponent() - to.mantissa > from.min_exponent() - from.mantissa) return false;
  if (decode_float(to, to.max_code) < decode_float(from, from.max_code)) return false;
  if (from.has_sign && !to.has_sign) return false;
  if (from.has_subnormals && !to.has_subnormals) return false; // no zero there
  if (from.specials == Specials::Ieee && to.specials != Specials::Ieee) return false;
  if (from.specials != Specials::None && to.specials == Specials::None) return false;
  bool from_minus_zero = from.has_sign && from.specials != Specials::NanMinusZero;
  return !(from_minus_zero && to.specials == Specials::NanMinusZero);
}

bool lossless_int_to_float(DType from, DType to) {
  int magnitude = bits(from) - (is_signed(from) ? 1 : 0);
  int mantissa = to == DType::F64 ? 52 : float_format(to).mantissa;
  if (magnitude > mantissa + 1) return false;
  // The most negative value is a power of two and needs only the range.
  return static_cast<__int128>(round_to(to, static_cast<double>(int_min(from)))) == int_min(from) &&
         static_cast<__int128>(round_to(to, static_cast<double>(int_max(from)))) == int_max(from);
}

} // namespace

DType promote(DType a, DType b) {
  if (a == b) return a;
  for (DType dtype : {a, b})
    if (dtype == DType::Index || dtype == DType::Void)
      throw InvalidArgument(std::string("dtype ") + name(dtype) + " does not promote: " + name(a) + " with " +
                            name(b) + " needs an explicit cast");
  return kTable[static_cast<size_t>(a)][static_cast<size_t>(b)];
}

DType least_float(DType dtype) { return is_float(dtype) ? dtype : promote(dtype, kDefaultFloat); }

DType sum_dtype(DType dtype) {
  if (dtype == DType::Index) return dtype;
  if (is_float(dtype)) return promote(dtype, DType::F32);
  return promote(dtype, is_unsigned(dtype) ? DType::U32 : DType::I32);
}

bool lossless_cast(DType from, DType to) {
  if (from == to) return true;
  if (from == DType::Void || to == DType::Void || from == DType::Index) return false;
  if (to == DType::BOOL) return false;
  if (from == DType::BOOL) return to != DType::F8E8M0; // which has no zero
  if (to == DType::Index) return is_int(from);
  if (is_int(from) && is_int(to)) return int_min(from) >= int_min(to) && int_max(from) <= int_max(to);
  if (is_int(from)) return to != DType::F8E8M0 && lossless_int_to_float(from, to);
  if (is_int(to)) return false;
  if (from == DType::F64) return false;
  return to == DType::F64 || lossless_float(float_format(from), float_format(to));
}

} // namespace tolk
