#include "tolk/io/host_tensor.h"

#include <cmath>

#include "io_fixtures.h"
#include "tolk/base/error.h"

using namespace tolk;
using namespace tolk::io;

BOOST_AUTO_TEST_SUITE(host_tensor)

BOOST_AUTO_TEST_CASE(element_count_refuses_what_cannot_exist) {
  BOOST_TEST(*element_count(Shape{}) == 1u);
  BOOST_TEST(*element_count(Shape{2, 3, 4}) == 24u);
  BOOST_TEST(*element_count(Shape{2, 0, 4}) == 0u);
  BOOST_TEST(!element_count(Shape{2, -1}));
  BOOST_TEST(!element_count(Shape{int64_t{1} << 40, int64_t{1} << 40}));
  BOOST_TEST(!element_count(Shape{0, int64_t{1} << 40, int64_t{1} << 40})); // strides would overflow
  BOOST_TEST(!element_count(Shape(kMaxRank + 1, 1)));
  BOOST_TEST(*element_count(Shape(kMaxRank, 1)) == 1u);
}

BOOST_AUTO_TEST_CASE(packed_elements_come_lowest_bits_first) {
  // 0x21 holds 1 then 2; 0x8f holds 15 then 8.
  HostTensor u4 = tensor_of<uint8_t>(DType::U4, {4}, {0x21, 0x8f});
  BOOST_TEST(element_text(u4, 0) == "1");
  BOOST_TEST(element_text(u4, 1) == "2");
  BOOST_TEST(element_text(u4, 2) == "15");
  BOOST_TEST(element_text(u4, 3) == "8");
  HostTensor i4 = tensor_of<uint8_t>(DType::I4, {4}, {0x21, 0x8f});
  BOOST_TEST(element_text(i4, 2) == "-1");
  BOOST_TEST(element_text(i4, 3) == "-8");
  HostTensor i2 = tensor_of<uint8_t>(DType::I2, {4}, {0b10'11'01'00});
  BOOST_TEST(element_text(i2, 0) == "0");
  BOOST_TEST(element_text(i2, 1) == "1");
  BOOST_TEST(element_text(i2, 2) == "-1");
  BOOST_TEST(element_text(i2, 3) == "-2");
  BOOST_TEST(tensor_of<uint8_t>(DType::U4, {3}, {0x21, 0x0f}).count() == 3u);
}

BOOST_AUTO_TEST_CASE(elements_of_every_width_print_as_their_values) {
  BOOST_TEST(element_text(tensor_of<uint16_t>(DType::F16, {1}, {0x3c00}), 0) == "1");
  BOOST_TEST(element_text(tensor_of<uint16_t>(DType::BF16, {1}, {0xc000}), 0) == "-2");
  BOOST_TEST(element_text(tensor_of<uint8_t>(DType::F8E4M3, {1}, {0x38}), 0) == "1");
  BOOST_TEST(element_text(tensor_of<uint8_t>(DType::F8E5M2, {1}, {0x3c}), 0) == "1");
  BOOST_TEST(element_text(tensor_of<uint8_t>(DType::F4E2M1, {2}, {0x72}), 0) == "1");
  BOOST_TEST(element_text(tensor_of<uint8_t>(DType::F4E2M1, {2}, {0x72}), 1) == "6");
  BOOST_TEST(element_text(tensor_of<uint64_t>(DType::U64, {1}, {UINT64_MAX}), 0) == "18446744073709551615");
  BOOST_TEST(element_text(tensor_of<int64_t>(DType::I64, {1}, {INT64_MIN}), 0) == "-9223372036854775808");
  BOOST_TEST(element_text(tensor_of<uint8_t>(DType::BOOL, {1}, {1}), 0) == "true");
  BOOST_TEST(element_text(tensor_of<float>(DType::F32, {1}, {0.1F}), 0) == "0.1");
  BOOST_TEST(element_text(string_tensor({}, {"a b"}), 0) == "\"a b\"");
}

BOOST_AUTO_TEST_CASE(conversion_keeps_every_value_or_gives_nothing) {
  HostTensor f = tensor_of<float>(DType::F32, {3}, {1.5F, -2.0F, 448.0F});
  BOOST_TEST(convert_exact(f, DType::F8E4M3).has_value());
  BOOST_TEST(convert_exact(f, DType::BF16).has_value());
  BOOST_TEST(!convert_exact(f, DType::I32));
  BOOST_TEST(!convert_exact(tensor_of<float>(DType::F32, {1}, {449.0F}), DType::F8E4M3));
  BOOST_TEST(!convert_exact(tensor_of<float>(DType::F32, {1}, {1.0e10F}), DType::F16));
  BOOST_TEST(!convert_exact(tensor_of<int64_t>(DType::I64, {1}, {128}), DType::I8));
  BOOST_TEST(!convert_exact(tensor_of<int64_t>(DType::I64, {1}, {-1}), DType::U64));
  BOOST_TEST(!convert_exact(tensor_of<int64_t>(DType::I64, {1}, {(int64_t{1} << 53) + 1}), DType::F64));
  BOOST_TEST(!convert_exact(tensor_of<float>(DType::F32, {1}, {NAN}), DType::I32));
  HostTensor nan = *convert_exact(tensor_of<float>(DType::F32, {1}, {NAN}), DType::F16);
  BOOST_TEST(std::isnan(element_double(nan, 0)));
  HostTensor nibbles = *convert_exact(tensor_of<int32_t>(DType::I32, {3}, {-8, 7, 1}), DType::I4);
  BOOST_TEST(nibbles.bytes.size() == 2u);
  BOOST_TEST(element_text(nibbles, 0) == "-8");
  BOOST_TEST(element_text(nibbles, 2) == "1");
}

BOOST_AUTO_TEST_CASE(a_wrong_number_of_bytes_is_refused) {
  test::expect_error<InvalidArgument>([] { (void)tensor_of<float>(DType::F32, {3}, {1, 2}); },
                                      {"f32[3]", "12", "8"});
  test::expect_error<InvalidArgument>([] { (void)string_tensor({2}, {"a"}); }, {"[2]", "1 strings"});
}

BOOST_AUTO_TEST_CASE(a_flat_index_becomes_a_position) {
  BOOST_TEST(multi_index(Shape{2, 3, 4}, 23) == (std::vector<int64_t>{1, 2, 3}),
             boost::test_tools::per_element());
  BOOST_TEST(multi_index(Shape{2, 3, 4}, 5) == (std::vector<int64_t>{0, 1, 1}),
             boost::test_tools::per_element());
  BOOST_TEST(multi_index(Shape{}, 0).empty());
}

BOOST_AUTO_TEST_SUITE_END()
