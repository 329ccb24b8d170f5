#include <cmath>
#include <limits>

#include <boost/test/unit_test.hpp>

#include "tolk/base/error.h"
#include "tolk/dtype/scalar.h"

using namespace tolk;

namespace {

template <class T> void check_matches_cxx_type(DType dtype) {
  using Limits = std::numeric_limits<T>;
  BOOST_TEST((int_min(dtype) == static_cast<__int128>(Limits::min())), name(dtype));
  BOOST_TEST((int_max(dtype) == static_cast<__int128>(Limits::max())), name(dtype));
  const __int128 base = __int128{1} << 70;
  for (__int128 x : {__int128{0}, __int128{1}, __int128{-1}, __int128{127}, __int128{128}, __int128{255},
                     __int128{256}, __int128{300}, __int128{-129}, __int128{1} << 31, (__int128{1} << 32) - 1,
                     __int128{1} << 63, -(__int128{1} << 63), base + 5, -base - 7})
    BOOST_TEST((wrap_to(dtype, x) == static_cast<__int128>(static_cast<T>(x))), name(dtype));
}

} // namespace

BOOST_AUTO_TEST_CASE(ranges_and_wrapping_agree_with_the_languages_own_types) {
  check_matches_cxx_type<int8_t>(DType::I8);
  check_matches_cxx_type<uint8_t>(DType::U8);
  check_matches_cxx_type<int16_t>(DType::I16);
  check_matches_cxx_type<uint16_t>(DType::U16);
  check_matches_cxx_type<int32_t>(DType::I32);
  check_matches_cxx_type<uint32_t>(DType::U32);
  check_matches_cxx_type<int64_t>(DType::I64);
  check_matches_cxx_type<uint64_t>(DType::U64);
}

BOOST_AUTO_TEST_CASE(narrow_integers_wrap_in_their_own_width) {
  BOOST_TEST((wrap_to(DType::I4, 8) == -8));
  BOOST_TEST((wrap_to(DType::I4, -9) == 7));
  BOOST_TEST((wrap_to(DType::U4, -1) == 15));
  BOOST_TEST((wrap_to(DType::I2, 2) == -2));
  BOOST_TEST((wrap_to(DType::U2, 7) == 3));
  BOOST_TEST((wrap_to(DType::BOOL, 256) == 1));
  BOOST_TEST((wrap_to(DType::Index, __int128{1} << 80) == __int128{1} << 80));
}

BOOST_AUTO_TEST_CASE(float_to_int_truncates_saturates_and_sends_nan_to_zero) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  BOOST_TEST((float_to_int(DType::I32, 1.9) == 1));
  BOOST_TEST((float_to_int(DType::I32, -1.9) == -1));
  BOOST_TEST((float_to_int(DType::U8, 300.0) == 255));
  BOOST_TEST((float_to_int(DType::U8, -1.7) == 0));
  BOOST_TEST((float_to_int(DType::U8, -0.9) == 0));
  BOOST_TEST((float_to_int(DType::I8, -1e9) == -128));
  BOOST_TEST((float_to_int(DType::I32, 3e9) == 2147483647));
  BOOST_TEST((float_to_int(DType::I64, 0x1p63) == std::numeric_limits<int64_t>::max()));
  BOOST_TEST(
      (float_to_int(DType::I64, std::nextafter(0x1p63, 0.0)) == static_cast<__int128>(9223372036854774784)));
  BOOST_TEST((float_to_int(DType::I64, -0x1p63) == std::numeric_limits<int64_t>::min()));
  BOOST_TEST((float_to_int(DType::U64, 1e30) == std::numeric_limits<uint64_t>::max()));
  for (DType dtype :
       {DType::I8, DType::U8, DType::I16, DType::U16, DType::I32, DType::U32, DType::I64, DType::U64}) {
    BOOST_TEST((float_to_int(dtype, nan) == 0));
    BOOST_TEST((float_to_int(dtype, inf) == int_max(dtype)));
    BOOST_TEST((float_to_int(dtype, -inf) == int_min(dtype)));
  }
  BOOST_TEST((float_to_int(DType::BOOL, 1e-8) == 1));
  BOOST_TEST((float_to_int(DType::BOOL, nan) == 1));
  BOOST_TEST((float_to_int(DType::BOOL, -0.0) == 0));
}

BOOST_AUTO_TEST_CASE(memory_form_of_integers_keeps_only_the_types_bits) {
  BOOST_TEST(float_to_bits(DType::I8, -1.0) == 0xffu);
  BOOST_TEST(float_from_bits(DType::I8, 0xff) == -1.0);
  BOOST_TEST(float_to_bits(DType::I4, -8.0) == 8u);
  BOOST_TEST(float_from_bits(DType::I4, 8) == -8.0);
  BOOST_TEST(float_from_bits(DType::U4, 8) == 8.0);
  BOOST_TEST(float_from_bits(DType::U64, ~uint64_t{0}) == 0x1p64);
}

BOOST_AUTO_TEST_CASE(storage_packs_narrow_types_and_refuses_what_has_no_size) {
  BOOST_TEST(storage_bytes(DType::F32, 3) == 12u);
  BOOST_TEST(storage_bytes(DType::BOOL, 3) == 3u);
  BOOST_TEST(storage_bytes(DType::I4, 3) == 2u);
  BOOST_TEST(storage_bytes(DType::U2, 5) == 2u);
  BOOST_TEST(storage_bytes(DType::F64, 0) == 0u);
  BOOST_TEST(storage_bytes(DType::I4, ~uint64_t{0}) == uint64_t{1} << 63);
  BOOST_CHECK_THROW(storage_bytes(DType::Index, 1), InvalidArgument);
  BOOST_CHECK_THROW(storage_bytes(DType::Void, 1), InvalidArgument);
  BOOST_CHECK_THROW(storage_bytes(DType::F64, uint64_t{1} << 61), InvalidArgument);
}
