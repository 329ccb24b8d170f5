// CAST, BITCAST, WHERE, SPLAT, BUILD, EXTRACT.
#include <cmath>

#include "bulk.h"

using namespace tolk;
using namespace tolk::test;

namespace {

constexpr auto equal = [](uint64_t a, uint64_t b) { return a == b; };

uint64_t cast_reference(DType from, DType to, uint64_t raw) {
  if (is_float(from)) {
    Quad value = float_value(from, raw);
    return is_float(to) ? float_raw(to, value) : int_raw(to, truncated(to, value));
  }
  Int value = int_value(from, raw);
  return is_float(to) ? float_raw(to, static_cast<Quad>(value)) : int_raw(to, value);
}

uint64_t cast_one(DType from, DType to, uint64_t raw) { return apply(TOLK_IR_CAST, to, {{from, {raw}}})[0]; }

} // namespace

BOOST_AUTO_TEST_SUITE(convert)

BOOST_AUTO_TEST_CASE(casts_between_all_pairs_of_types) {
  for (DType from : all_dtypes()) {
    std::vector<uint64_t> values = interesting(from), more = random_raw(from, 1000, 31);
    values.insert(values.end(), more.begin(), more.end());
    if (bits(from) == 16)
      for (uint64_t raw = 0; raw < 65536; raw += 9) values.push_back(raw);
    pad(values, 4);
    for (DType to : all_dtypes()) {
      if (from == to) continue;
      std::vector<Argument> arguments = {{from, values}};
      auto same = [&](uint64_t a, uint64_t b) { return is_float(to) ? same_float(to, a, b) : a == b; };
      std::string what = std::string("CAST ") + name(from) + " to";
      check_all(
          what.c_str(), to, apply(TOLK_IR_CAST, to, arguments, 4), arguments,
          [&](size_t i) { return cast_reference(from, to, values[i]); }, same);
    }
  }
}

BOOST_AUTO_TEST_CASE(casts_that_two_roundings_get_wrong) {
  auto f64 = [](double value) { return std::bit_cast<uint64_t>(value); };
  BOOST_TEST(cast_one(DType::F64, DType::F16, f64(1 + 0x1p-11 + 0x1p-40)) == 0x3c01u);
  BOOST_TEST(cast_one(DType::F64, DType::BF16, f64(1 + 0x1p-8 + 0x1p-40)) == 0x3f81u);
  // 2^62 + 2^54 is the middle between two bf16 numbers; the last bit decides and does not fit a double.
  uint64_t middle = (uint64_t{1} << 62) + (uint64_t{1} << 54);
  uint64_t below = float_raw(DType::BF16, static_cast<Quad>(Int{1} << 62));
  BOOST_TEST(cast_one(DType::I64, DType::BF16, middle) == below);
  BOOST_TEST(cast_one(DType::I64, DType::BF16, middle + 1) == below + 1);
  BOOST_TEST(cast_one(DType::U64, DType::BF16, middle + 1) == below + 1);
  BOOST_TEST(cast_one(DType::I64, DType::BF16, 0 - (middle + 1)) == (0x8000u | (below + 1)));
  BOOST_TEST(cast_one(DType::U64, DType::F32, 0xffffff7fffffffff) == std::bit_cast<uint32_t>(0x1.fffffep63f));
}

BOOST_AUTO_TEST_CASE(casts_to_integers_saturate_and_to_bool_test_for_zero) {
  auto f32 = [](float value) -> uint64_t { return std::bit_cast<uint32_t>(value); };
  BOOST_TEST(cast_one(DType::F32, DType::I32, f32(3e9f)) == 0x7fffffffu);
  BOOST_TEST(cast_one(DType::F32, DType::U8, f32(-1)) == 0u);
  BOOST_TEST(cast_one(DType::F32, DType::U8, f32(300)) == 255u);
  BOOST_TEST(cast_one(DType::F32, DType::I8, f32(-1.9f)) == 0xffu);
  BOOST_TEST(cast_one(DType::F32, DType::I64, f32(NAN)) == 0u);
  BOOST_TEST(cast_one(DType::F32, DType::U64, f32(INFINITY)) == UINT64_MAX);
  BOOST_TEST(cast_one(DType::F32, DType::BOOL, f32(1e-8f)) == 1u);
  BOOST_TEST(cast_one(DType::F32, DType::BOOL, f32(NAN)) == 1u);
  BOOST_TEST(cast_one(DType::F32, DType::BOOL, f32(-0.0f)) == 0u);
  BOOST_TEST(cast_one(DType::I32, DType::BOOL, 256) == 1u);
  BOOST_TEST(cast_one(DType::I32, DType::U8, 0xffffffff) == 255u);
  BOOST_TEST(cast_one(DType::I8, DType::U32, 0x80) == 0xffffff80u);
}

BOOST_AUTO_TEST_CASE(bitcasts_keep_every_bit) {
  for (DType from : all_dtypes()) {
    std::vector<uint64_t> values = interesting(from);
    for (DType to : all_dtypes()) {
      if (from == to || bits(from) != bits(to) || is_bool(to)) continue;
      std::vector<Argument> arguments = {{from, values}};
      check_all(
          "BITCAST to", to, apply(TOLK_IR_BITCAST, to, arguments), arguments,
          [&](size_t i) { return values[i]; }, equal);
    }
  }
  BOOST_TEST(apply(TOLK_IR_BITCAST, DType::BOOL, {{DType::U8, {2}}})[0] == 1u);
}

BOOST_AUTO_TEST_CASE(loads_and_stores_keep_every_bit) {
  for (DType dtype : all_dtypes()) {
    std::vector<uint64_t> values = interesting(dtype), more = random_raw(dtype, 200, 9);
    values.insert(values.end(), more.begin(), more.end());
    values.resize(values.size() / 4 * 4);
    std::vector<uint64_t> condition(values.size(), 1), zero(values.size(), 0);
    // WHERE moves bits; its two widths of condition are covered by the lanes.
    for (uint16_t lanes : {1, 4}) {
      std::vector<Argument> arguments = {{DType::BOOL, condition}, {dtype, values}, {dtype, zero}};
      check_all(
          "WHERE", dtype, apply(TOLK_IR_WHERE, dtype, arguments, lanes), arguments,
          [&](size_t i) { return values[i]; }, equal);
      arguments = {{DType::BOOL, zero}, {dtype, zero}, {dtype, values}};
      check_all(
          "WHERE", dtype, apply(TOLK_IR_WHERE, dtype, arguments, lanes), arguments,
          [&](size_t i) { return values[i]; }, equal);
    }
  }
}

BOOST_AUTO_TEST_CASE(vectors_are_built_and_taken_apart) {
  for (DType dtype : {DType::U8, DType::F16, DType::F32, DType::I64, DType::I4}) {
    std::string d = name(dtype);
    KernelIR k =
        kernel("param buffer " + d + " rw 8\nparam buffer bool r 2\n%0 = PARAM " + d +
               " [0]\n%1 = CONST i32 0\n%2 = LOAD " + d + "x4 %0 %1\n" + "%3 = EXTRACT " + d + " %2 [3]\n" +
               "%4 = EXTRACT " + d + " %2 [1]\n" + "%5 = SPLAT " + d + "x2 %3\n" + "%6 = BUILD " + d +
               "x2 %4 %3\n%7 = PARAM bool [1]\n%8 = LOAD boolx2 %7 %1\n%9 = LOAD bool %7 %1\n" +
               "%10 = WHERE " + d + "x2 %8 %5 %6\n%11 = WHERE " + d + "x2 %9 %5 %6\n" +
               "%12 = CONST i32 4\n%13 = CONST i32 6\n%14 = STORE " + d + "x2 %0 %12 %10\n%15 = STORE " + d +
               "x2 %0 %13 %11\n");
    std::vector<Bytes> buffers = {to_bytes(dtype, {1, 2, 3, 4, 0, 0, 0, 0}), to_bytes(DType::BOOL, {0, 1})};
    run(k, buffers);
    std::vector<uint64_t> got = from_bytes(dtype, buffers[0], 8), want = {1, 2, 3, 4, 2, 4, 2, 4};
    BOOST_TEST(got == want, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(constants_fill_every_lane_with_their_bits) {
  for (DType dtype : all_dtypes()) {
    for (uint64_t raw : interesting(dtype)) {
      KernelIR k;
      k.name = "c";
      tolk_param p{};
      p.access = TOLK_ACCESS_WRITE;
      p.dtype = static_cast<uint32_t>(dtype);
      k.params = {p};
      uint32_t out = k.add(TOLK_IR_PARAM, dtype, 1, {}, {0});
      uint32_t zero = k.add(TOLK_IR_CONST, DType::I32, 1, {}, {0});
      uint32_t value = k.add(TOLK_IR_CONST, dtype, 4, {}, {raw});
      k.add(TOLK_IR_STORE, dtype, 4, {out, zero, value});
      std::vector<Bytes> buffers = {to_bytes(dtype, {0, 0, 0, 0})};
      run(k, buffers);
      if (from_bytes(dtype, buffers[0], 4) != std::vector<uint64_t>(4, raw)) {
        BOOST_ERROR("CONST " << name(dtype) << " " << raw);
        break;
      }
    }
  }
  // Sign extension of small integers must reach arithmetic: -1 < 0.
  KernelIR k = kernel(
      "param buffer bool w 1\n%0 = PARAM bool [0]\n%1 = CONST i32 0\n%2 = CONST i4 -1\n%3 = CONST i4 0\n"
      "%4 = CMPLT bool %2 %3\n%5 = STORE bool %0 %1 %4\n");
  std::vector<Bytes> buffers = {to_bytes(DType::BOOL, {0})};
  run(k, buffers);
  BOOST_TEST(from_bytes(DType::BOOL, buffers[0], 1)[0] == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
