#include <cmath>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "tolk/base/error.h"
#include "tolk/dtype/scalar.h"

using namespace tolk;

namespace {

std::vector<DType> all() {
  std::vector<DType> out;
  for (int code = 0; code < kDTypeCount; ++code) out.push_back(static_cast<DType>(code));
  return out;
}

// Every value of a dtype of at most 16 bits, as double.
std::vector<double> values(DType dtype) {
  std::vector<double> out;
  if (dtype == DType::BOOL) return {0.0, 1.0};
  for (uint64_t code = 0; code < (uint64_t{1} << bits(dtype)); ++code)
    out.push_back(float_from_bits(dtype, code));
  return out;
}

bool converts_exactly(DType to, double value) {
  double back = float_from_bits(to, float_to_bits(to, value));
  if (std::isnan(value)) return std::isnan(back);
  return back == value && std::signbit(back) == std::signbit(value);
}

} // namespace

BOOST_AUTO_TEST_CASE(lattice_gives_the_measured_results) {
  struct Row {
    DType a, b, result;
  };
  using enum DType;
  const Row rows[] = {
      {I8, U8, I16},
      {I32, U32, I64},
      {I64, U64, F32},
      {U64, I8, F32},
      {F16, BF16, F32},
      {F8E4M3, F8E5M2, F16},
      {I64, F16, F16},
      {I64, F8E4M3, F8E4M3},
      {BOOL, F8E4M3, F8E4M3},
      {F8E4M3, F8E4M3FNUZ, F16},
      {F8E5M2, F8E5M2FNUZ, F16},
      {U8, I16, I16},
      {U16, I16, I32},
      {U16, I8, I32},
      {U8, U32, U32},
      {I16, U64, F32},
      {U32, I64, I64},
      {I8, F64, F64},
      {U64, BF16, BF16},
      {F32, BF16, F32},
      {F64, F8E5M2, F64},
      {I4, U4, I8},
      {I2, U2, I4},
      {U4, I8, I8},
      {F4E2M1, F8E4M3, F8E4M3},
      {F8E8M0, F8E4M3, BF16},
      {F8E8M0, F16, F32},
      {U64, F4E2M1, F4E2M1},
  };
  for (const Row& row : rows) {
    BOOST_TEST(name(promote(row.a, row.b)) == name(row.result), name(row.a) << " with " << name(row.b));
    BOOST_TEST(name(promote(row.b, row.a)) == name(row.result), name(row.b) << " with " << name(row.a));
  }
}

BOOST_AUTO_TEST_CASE(promotion_is_idempotent_commutative_and_takes_bool_as_its_bottom) {
  for (DType a : all()) {
    BOOST_TEST((promote(a, a) == a));
    BOOST_TEST((promote(DType::BOOL, a) == a), name(a));
    for (DType b : all()) {
      DType both = promote(a, b);
      BOOST_TEST((promote(b, a) == both), name(a) << " " << name(b));
      if (is_float(a) && !is_float(b)) BOOST_TEST((both == a), name(a) << " " << name(b));
    }
  }
}

BOOST_AUTO_TEST_CASE(promotion_of_integers_keeps_every_value_while_64_bits_suffice) {
  for (DType a : all())
    for (DType b : all()) {
      if (!is_int(a) || !is_int(b)) continue;
      DType both = promote(a, b);
      bool mixed_64 = (a == DType::U64 && is_signed(b)) || (b == DType::U64 && is_signed(a));
      BOOST_TEST(is_float(both) == mixed_64, name(a) << " " << name(b));
      if (!mixed_64)
        BOOST_TEST((lossless_cast(a, both) && lossless_cast(b, both)), name(a) << " " << name(b));
    }
}

BOOST_AUTO_TEST_CASE(index_and_void_stay_outside_the_lattice) {
  BOOST_TEST((promote(DType::Index, DType::Index) == DType::Index));
  BOOST_CHECK_THROW(promote(DType::Index, DType::I32), InvalidArgument);
  BOOST_CHECK_THROW(promote(DType::F32, DType::Void), InvalidArgument);
}

BOOST_AUTO_TEST_CASE(sums_and_float_functions_have_the_documented_dtypes) {
  using enum DType;
  for (DType dtype : {I8, I16, BOOL, I32, I4}) BOOST_TEST((sum_dtype(dtype) == I32), name(dtype));
  for (DType dtype : {U8, U16, U32, U4}) BOOST_TEST((sum_dtype(dtype) == U32), name(dtype));
  for (DType dtype : {F16, BF16, F8E4M3, F8E5M2FNUZ, F32}) BOOST_TEST((sum_dtype(dtype) == F32), name(dtype));
  BOOST_TEST((sum_dtype(I64) == I64));
  BOOST_TEST((sum_dtype(U64) == U64));
  BOOST_TEST((sum_dtype(F64) == F64));
  for (DType dtype : {BOOL, I8, U64, I4}) BOOST_TEST((least_float(dtype) == F32), name(dtype));
  for (DType dtype : {F16, BF16, F64, F8E4M3}) BOOST_TEST((least_float(dtype) == dtype), name(dtype));
}

BOOST_AUTO_TEST_CASE(lossless_casts_are_exactly_those_under_which_every_value_survives) {
  for (DType from : all()) {
    if (bits(from) > 16) continue;
    std::vector<double> source = values(from);
    for (DType to : all()) {
      bool exact = true;
      for (double v : source) exact = exact && converts_exactly(to, v);
      if (to == DType::BOOL)
        exact = from == DType::BOOL; // bool is no number type: 1 becomes true, not a number
      if (is_float(from) && !is_float(to))
        exact = false; // there are values, such as NaN or 0.5, that do not survive
      BOOST_TEST(lossless_cast(from, to) == exact, name(from) << " to " << name(to));
    }
  }
}

BOOST_AUTO_TEST_CASE(lossless_casts_of_wide_types_follow_their_ranges) {
  using enum DType;
  BOOST_TEST(lossless_cast(I32, F64));
  BOOST_TEST(lossless_cast(U32, F64));
  BOOST_TEST(!lossless_cast(I64, F64));
  BOOST_TEST(!lossless_cast(I32, F32));
  BOOST_TEST(lossless_cast(U32, I64));
  BOOST_TEST(!lossless_cast(I32, U64));
  BOOST_TEST(!lossless_cast(F64, F32));
  BOOST_TEST(lossless_cast(F32, F64));
  for (DType dtype : {I8, U8, I32, I64, U64, BOOL}) BOOST_TEST(lossless_cast(dtype, Index), name(dtype));
  BOOST_TEST(!lossless_cast(Index, I64));
  BOOST_TEST(!lossless_cast(F32, Index));
}
