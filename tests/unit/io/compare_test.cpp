#include "tolk/io/compare.h"

#include <cmath>
#include <limits>

#include "io_fixtures.h"
#include "tolk/io/summary.h"

using namespace tolk;
using namespace tolk::io;

namespace {

HostTensor f32(const Shape& shape, const std::vector<float>& values) {
  return tensor_of(DType::F32, shape, values);
}
HostTensor i64(const Shape& shape, const std::vector<int64_t>& values) {
  return tensor_of(DType::I64, shape, values);
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

} // namespace

BOOST_AUTO_TEST_SUITE(comparison)

BOOST_AUTO_TEST_CASE(the_allowance_is_absolute_plus_relative_to_the_expected_value) {
  // allowed at 100: 0.1 + 0.01 * 100 = 1.1
  Tolerance t{0.01, 0.1};
  BOOST_TEST(compare(f32({1}, {101.0625F}), f32({1}, {100}), t).equal);
  BOOST_TEST(!compare(f32({1}, {101.125F}), f32({1}, {100}), t).equal);
  // the other way round the allowance is larger: 0.1 + 1.01125
  BOOST_TEST(compare(f32({1}, {100.03F}), f32({1}, {101.125F}), t).equal);
}

BOOST_AUTO_TEST_CASE(the_worst_element_is_the_one_that_exceeds_its_allowance_most) {
  Comparison c = compare(f32({2, 2}, {1000.5F, 2, 3, 0.01F}), f32({2, 2}, {1000, 2, 3, 0}), {1e-3, 1e-7});
  BOOST_TEST(!c.equal);
  BOOST_TEST(c.mismatches == 1u); // 0.5 of 1000 is allowed, 0.01 of 0 is not
  BOOST_TEST(c.where == (std::vector<int64_t>{1, 1}), boost::test_tools::per_element());
  BOOST_TEST(c.expected == "0");
  BOOST_TEST(c.actual == "0.01");
  BOOST_TEST(c.allowed == 1e-7);
  BOOST_TEST(comparison_text(c) ==
             "1 of 4 elements differs, worst at [1,1]: 0.01, expected 0, difference 0.01, allowed 1e-07");
}

BOOST_AUTO_TEST_CASE(nan_and_infinities_equal_only_themselves) {
  Tolerance loose{1e9, 1e9};
  BOOST_TEST(compare(f32({3}, {kNan, kInf, -kInf}), f32({3}, {kNan, kInf, -kInf}), {0, 0}).equal);
  BOOST_TEST(!compare(f32({1}, {kNan}), f32({1}, {0}), loose).equal);
  BOOST_TEST(!compare(f32({1}, {0}), f32({1}, {kNan}), loose).equal);
  BOOST_TEST(!compare(f32({1}, {kInf}), f32({1}, {1e30F}), loose).equal);
  BOOST_TEST(!compare(f32({1}, {1e30F}), f32({1}, {kInf}), loose).equal);
  BOOST_TEST(!compare(f32({1}, {kInf}), f32({1}, {-kInf}), loose).equal);
}

BOOST_AUTO_TEST_CASE(integers_bools_and_strings_must_be_equal) {
  Tolerance loose{1, 10};
  Comparison c = compare(i64({3}, {1, INT64_MAX, 5}), i64({3}, {1, INT64_MIN, 4}), loose);
  BOOST_TEST(c.mismatches == 2u);
  BOOST_TEST(c.where[0] == 1);
  BOOST_TEST(c.expected == "-9223372036854775808");
  BOOST_TEST(
      !compare(tensor_of<uint8_t>(DType::BOOL, {1}, {1}), tensor_of<uint8_t>(DType::BOOL, {1}, {0}), loose)
           .equal);
  BOOST_TEST(compare(string_tensor({2}, {"a", "b"}), string_tensor({2}, {"a", "b"}), loose).equal);
  BOOST_TEST(compare(string_tensor({2}, {"a", "c"}), string_tensor({2}, {"a", "b"}), loose).expected ==
             "\"b\"");
  // neighbours above 2^53, which doubles cannot tell apart
  BOOST_TEST(!compare(i64({1}, {(int64_t{1} << 53) + 1}), i64({1}, {int64_t{1} << 53}), loose).equal);
}

BOOST_AUTO_TEST_CASE(types_and_shapes_must_be_equal) {
  BOOST_TEST(comparison_text(compare(f32({2}, {1, 2}), f32({1, 2}, {1, 2}), {})) ==
             "the shape is [2], expected [1,2]");
  BOOST_TEST(comparison_text(compare(f32({1}, {1}), i64({1}, {1}), {})) == "the type is f32, expected i64");
  BOOST_TEST(comparison_text(compare(f32({0}, {}), f32({0}, {}), {})) == "equal, no elements");
}

BOOST_AUTO_TEST_CASE(sequences_are_compared_item_by_item_and_optionals_by_what_they_hold) {
  Value a = Value::sequence({f32({1}, {1}), f32({1}, {5})}),
        b = Value::sequence({f32({1}, {1}), f32({1}, {2})});
  Comparison c = compare(a, b, {});
  BOOST_TEST(!c.equal);
  BOOST_TEST(c.item == "[1]");
  BOOST_TEST(c.count == 2u);
  BOOST_TEST(
      comparison_text(c).starts_with("1 of 2 elements differs, worst item [1]: at [0]: 5, expected 2"));
  BOOST_TEST(compare(Value::some(b), b, {}).equal);
  BOOST_TEST(compare(Value::nothing(), Value::nothing(), {}).equal);
  BOOST_TEST(!compare(Value::nothing(), b, {}).equal);
  BOOST_TEST(!compare(Value::sequence({}), b, {}).equal);
  BOOST_TEST(!compare(Value(f32({1}, {1})), b, {}).equal);
  BOOST_TEST(compare(Value::sequence({}), Value::sequence({}), {}).equal);
}

BOOST_AUTO_TEST_CASE(random_results_are_compared_by_type_and_shape_only) {
  BOOST_TEST(compare_type(Value(f32({2}, {1, 2})), Value(f32({2}, {3, 4}))).equal);
  BOOST_TEST(!compare_type(Value(f32({2}, {1, 2})), Value(f32({1}, {3}))).equal);
}

BOOST_AUTO_TEST_CASE(small_floats_are_compared_as_numbers) {
  HostTensor one = tensor_of<uint16_t>(DType::F16, {1}, {0x3c00}),
             near = tensor_of<uint16_t>(DType::F16, {1}, {0x3c01});
  BOOST_TEST(compare(near, one, {1e-3, 0}).equal); // 2^-10 = 0.000977
  BOOST_TEST(!compare(near, one, {9e-4, 0}).equal);
}

BOOST_AUTO_TEST_CASE(the_summary_counts_what_is_not_finite) {
  Summary s = summarize(f32({5}, {1, kNan, -3, kInf, 5}), 2);
  BOOST_TEST(s.min == -3.0);
  BOOST_TEST(s.max == 5.0);
  BOOST_TEST(s.mean == 1.0);
  BOOST_TEST(s.nan == 1u);
  BOOST_TEST(s.infinite == 1u);
  BOOST_TEST(summary_text(f32({2}, {1, 2})) == "min 1  max 2  mean 1.5  first 1 2");
  BOOST_TEST(summary_text(f32({0}, {})) == "no elements");
  BOOST_TEST(summary_text(f32({}, {2.5F})) == "2.5");
  BOOST_TEST(summary_text(f32({2}, {kNan, kNan})) == "no finite values  NaN 2  first nan nan");
  BOOST_TEST(summary_text(i64({6}, {1, 2, 3, 4, 5, 6}), 3) == "min 1  max 6  mean 3.5  first 1 2 3 ...");
}

BOOST_AUTO_TEST_SUITE_END()
