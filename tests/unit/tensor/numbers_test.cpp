// A number meets a tensor: comparisons are exact by value, arithmetic keeps the dtype and refuses what does
// not fit. Then which dtype functions of integers compute in.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "device_runs.h"
#include "tolk/base/error.h"
#include "tolk/dtype/scalar.h"
#include "tolk/tensor/tensor.h"

using namespace tolk;

namespace {

using Wide = __int128;

// Values at and around the ends of an integer dtype.
std::vector<Wide> edges(DType dtype) {
  std::vector<Wide> v;
  for (Wide w : {int_min(dtype), Wide(0), Wide(5), Wide(-5), Wide(100), Wide(200), Wide(1) << 24,
                 (Wide(1) << 24) + 1, (Wide(1) << 53) + 1, int_max(dtype) - 1, int_max(dtype)})
    if (w >= int_min(dtype) && w <= int_max(dtype)) v.push_back(w);
  return v;
}

Tensor integers(DType dtype, const std::vector<Wide>& v) {
  if (dtype == DType::U64) return Tensor::from(std::vector<uint64_t>(v.begin(), v.end()), {v.size()});
  return Tensor::from(std::vector<int64_t>(v.begin(), v.end()), {v.size()}).cast(dtype);
}

// Each comparison of t with the number, both ways round, against those of exact values; `exact` gives the
// sign of t's element i minus the number, 2 where there is no order.
template <typename T, typename F>
void check_comparisons(const std::string& what, const Tensor& t, T number, F exact) {
  std::vector<bool> less = (t < number).template values<bool>(), more = (t > number).template values<bool>(),
                    most = (t <= number).template values<bool>(),
                    least = (t >= number).template values<bool>(),
                    same = equal(t, number).template values<bool>(),
                    other = not_equal(t, number).template values<bool>(),
                    turned = (number > t).template values<bool>(),
                    turned_most = (number >= t).template values<bool>();
  for (size_t i = 0; i < less.size(); ++i) {
    int sign = exact(i);
    bool right = less[i] == (sign == -1) && more[i] == (sign == 1) && most[i] == (sign == -1 || sign == 0) &&
                 least[i] == (sign == 0 || sign == 1) && same[i] == (sign == 0) && other[i] == (sign != 0) &&
                 turned[i] == (sign == -1) && turned_most[i] == (sign == -1 || sign == 0);
    BOOST_CHECK_MESSAGE(right, what << " element " << i << ": < " << less[i] << " <= " << most[i] << " > "
                                    << more[i] << " >= " << least[i] << " == " << same[i]
                                    << " != " << other[i] << ", sign " << sign);
  }
}

int sign_of(Wide a, Wide b) { return (a > b) - (a < b); }

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const InvalidArgument& e) {
    return e.what();
  }
  return "accepted";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

} // namespace

BOOST_AUTO_TEST_CASE(comparisons_of_integers_with_numbers_are_exact_by_value) {
  on_each_device([](const std::string& device) {
    for (DType dtype :
         {DType::I8, DType::U8, DType::I16, DType::U16, DType::I32, DType::U32, DType::I64, DType::U64}) {
      std::vector<Wide> v = edges(dtype);
      Tensor t = integers(dtype, v).realize();
      std::string what = device + " " + name(dtype);
      for (int64_t n :
           {int64_t(-1), int64_t(0), int64_t(127), int64_t(128), int64_t(200), int64_t(300), int64_t(-129),
            int64_t(-32769), int64_t(65535), int64_t(1) << 31, (int64_t(1) << 53) + 1, INT64_MIN, INT64_MAX})
        check_comparisons(what + " with " + std::to_string(n), t, n,
                          [&](size_t i) { return sign_of(v[i], Wide(n)); });
      for (uint64_t n : {uint64_t(1) << 63, UINT64_MAX, uint64_t(200)})
        check_comparisons(what + " with " + std::to_string(n), t, n,
                          [&](size_t i) { return sign_of(v[i], Wide(n)); });
      for (double x :
           {2.5, -2.5, 200.0, 1e300, -1e300, double(INFINITY), -double(INFINITY), 16777216.5, 0x1p63, 0x1p64})
        check_comparisons(what + " with " + std::to_string(x), t, x, [&](size_t i) {
          // Exact: the double's floor, then whether there is a rest.
          if (std::abs(x) > 1e30) return x > 0 ? -1 : 1;
          int s = sign_of(v[i], Wide(std::floor(x)));
          return s == 0 && std::floor(x) != x ? -1 : s;
        });
      check_comparisons(what + " with NaN", t, std::nan(""), [](size_t) { return 2; });
    }
    Tensor truth = Tensor::from(std::vector<bool>{false, true}, {2});
    for (int n : {-1, 0, 1, 2})
      check_comparisons(device + " bool with " + std::to_string(n), truth, n,
                        [&](size_t i) { return sign_of(Wide(i), Wide(n)); });
  });
}

BOOST_AUTO_TEST_CASE(comparisons_of_floats_with_whole_numbers_are_exact_by_value) {
  on_each_device([](const std::string& device) {
    for (DType dtype : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
      std::vector<double> v;
      for (double x : {0.0, -0.0, 1.5, 200.0, 2048.0, 2050.0, 65504.0, 16777216.0, 16777218.0,
                       9007199254740992.0, 0x1p63, 0x1p64, double(INFINITY), -double(INFINITY), std::nan("")})
        v.push_back(round_to(dtype, x));
      Tensor t = Tensor::from(v, {v.size()}).cast(dtype).realize();
      auto check = [&](auto n) {
        check_comparisons(device + " " + name(dtype) + " with " + std::to_string(n), t, n, [&](size_t i) {
          if (std::isnan(v[i])) return 2;
          if (std::abs(v[i]) > 1e30) return v[i] > 0 ? 1 : -1;
          int s = sign_of(Wide(std::floor(v[i])), Wide(n));
          return s == 0 && std::floor(v[i]) != v[i] ? 1 : s;
        });
      };
      for (int64_t n : {int64_t(0), int64_t(200), int64_t(2049), int64_t(16777217), (int64_t(1) << 53) + 1,
                        int64_t(1000000), INT64_MAX, INT64_MIN, int64_t(-1000000)})
        check(n);
      check(UINT64_MAX);
      check(16777217.0);
      check(1e6); // beyond f16, where infinity is still more
    }
    // A fraction that is not whole is the dtype's nearest, as in arithmetic.
    Tensor tenth = Tensor::from(std::vector<float>{0.1f}, {1});
    BOOST_TEST(equal(tenth, 0.1).values<bool>()[0]);
    BOOST_TEST((tenth <= 0.1).values<bool>()[0]);
    check_comparisons(device + " f32 with NaN", tenth, std::nan(""), [](size_t) { return 2; });
  });
}

BOOST_AUTO_TEST_CASE(arithmetic_with_a_number_keeps_the_dtype_and_refuses_what_does_not_fit) {
  Tensor u8 = Tensor::from(std::vector<uint8_t>{200}, {1}), i8 = Tensor::from(std::vector<int8_t>{-5}, {1}),
         u64 = Tensor::from(std::vector<uint64_t>{1}, {1}), f16 = Tensor::ones({1}, DType::F16),
         truth = Tensor::ones({1}, DType::BOOL);
  BOOST_TEST(((u8 + 55).dtype() == DType::U8));
  BOOST_TEST(((255 - u8).dtype() == DType::U8));
  BOOST_TEST(((u8 * 0.5).dtype() == kDefaultFloat));
  BOOST_TEST(((f16 + 1).dtype() == DType::F16));
  BOOST_TEST(((truth + 1).dtype() == kDefaultInt));
  std::string text = refusal([&] { (void)(u8 + 300); });
  BOOST_TEST(has(text, "300"), text);
  BOOST_TEST(has(text, "u8"), text);
  BOOST_TEST(has(text, "cast the tensor to i16"), text);
  BOOST_TEST(has(refusal([&] { (void)(u8 - -1); }), "-1 does not fit u8"));
  BOOST_TEST(has(refusal([&] { (void)(i8 * 200); }), "200 does not fit i8"));
  BOOST_TEST(has(refusal([&] { (void)(f16 * 1e6); }), "does not fit f16"));
  BOOST_TEST(has(refusal([&] { (void)(Tensor::ones({1}, DType::I64) + UINT64_MAX); }),
                 "18446744073709551615 does not fit i64"));
  BOOST_TEST(has(refusal([&] { (void)Tensor::constant(DType::I32, 2.5); }), "2.5 does not fit i32"));
  BOOST_TEST(has(refusal([&] { (void)Tensor::constant(DType::I32, std::nan("")); }), "does not fit i32"));
  on_each_device([&](const std::string& device) {
    Tensor one = Tensor::from(std::vector<uint64_t>{1}, {1});
    BOOST_TEST((one * UINT64_MAX).values<uint64_t>()[0] == UINT64_MAX, device);
    BOOST_TEST((one + ((size_t(1) << 63) + 5)).values<uint64_t>()[0] == (uint64_t(1) << 63) + 6, device);
    BOOST_TEST(one.pad({{1, 0}}, UINT64_MAX - 1).values<uint64_t>()[0] == UINT64_MAX - 1, device);
    BOOST_TEST(Tensor::constant(DType::U64, 18446744073709549568.0).values<uint64_t>()[0] ==
                   18446744073709549568u,
               device);
    Tensor whole = Tensor::from(std::vector<int64_t>{1}, {1});
    BOOST_TEST(whole.pad({{0, 1}}, (int64_t(1) << 53) + 1).values<int64_t>()[1] == (int64_t(1) << 53) + 1,
               device);
    BOOST_TEST((Tensor::from(std::vector<double>{0}, {1}) + 0.1).item() == 0.1, device);
  });
}

BOOST_AUTO_TEST_CASE(operations_on_integers_refuse_floats) {
  Tensor f = Tensor::ones({2}), i = Tensor::ones({2}, DType::I32), b = Tensor::ones({2}, DType::BOOL);
  const std::vector<std::pair<const char*, std::function<void()>>> all = {
      {"floordiv", [&] { (void)f.floordiv(i); }},
      {"cdiv", [&] { (void)i.cdiv(f); }},
      {"shl", [&] { (void)f.shl(f); }},
      {"shr", [&] { (void)i.shr(f); }},
      {"&", [&] { (void)(f & i); }},
      {"|", [&] { (void)(b | f); }},
      {"^", [&] { (void)(f ^ f); }},
      {"shl", [&] { (void)b.shl(b); }},
      {"floordiv", [&] { (void)b.floordiv(b); }},
      {"floormod", [&] { (void)b.floormod(b); }},
      {"fmod", [&] { (void)b.fmod(b); }},
      {"logical_not", [&] { (void)!f; }},
      {"bool", [&] { (void)(b - b); }},
  };
  for (const auto& [what, call] : all) BOOST_TEST(has(refusal(call), what), what << ": " << refusal(call));
  BOOST_TEST(((b & b).dtype() == DType::BOOL));
}

BOOST_AUTO_TEST_CASE(float_functions_of_integers_compute_in_the_default_float) {
  on_each_device([](const std::string& device) {
    for (DType dtype : {DType::I32, DType::U8, DType::I64, DType::BOOL}) {
      Tensor t = Tensor::from(std::vector<int32_t>{0, 1, 1, 0, 0, 1}, {1, 2, 3}).cast(dtype),
             f = t.cast(DType::F32);
      Tensor::Pool pool{{2}, {}, {}, {}, false};
      using Fn = std::function<Tensor(const Tensor&)>;
      const std::vector<std::pair<const char*, Fn>> all = {
          {"softmax", [](const Tensor& x) { return x.softmax(); }},
          {"log_softmax", [](const Tensor& x) { return x.log_softmax(); }},
          {"layer_norm", [](const Tensor& x) { return x.layer_norm({-1}, 1e-5); }},
          {"avg_pool", [&](const Tensor& x) { return x.avg_pool(pool, false); }},
          {"logsumexp", [](const Tensor& x) { return x.logsumexp({-1}); }},
          {"mean", [](const Tensor& x) { return x.mean({-1}); }},
          {"var", [](const Tensor& x) { return x.var({-1}); }},
          {"exp", [](const Tensor& x) { return x.exp(); }},
          {"sqrt", [](const Tensor& x) { return x.sqrt(); }},
          {"sigmoid", [](const Tensor& x) { return x.sigmoid(); }},
          {"tanh", [](const Tensor& x) { return x.tanh(); }},
          {"softplus", [](const Tensor& x) { return x.softplus(); }},
          {"reciprocal", [](const Tensor& x) { return x.reciprocal(); }},
          {"divided", [](const Tensor& x) { return x / 2; }},
      };
      for (const auto& [what, function] : all) {
        Tensor got = function(t);
        BOOST_TEST((got.dtype() == kDefaultFloat), device << " " << what << " of " << name(dtype));
        BOOST_TEST((got.values<float>() == function(f).values<float>()),
                   device << " " << what << " of " << name(dtype));
      }
    }
    std::vector<uint8_t> many(300, 1);
    BOOST_TEST(Tensor::from(many, {300}).cumsum(0).values<int64_t>().back() == 300, device);
    BOOST_TEST(Tensor::ones({300}, DType::BOOL).cumsum(0).values<int64_t>().back() == 300, device);
    BOOST_TEST(Tensor::from(std::vector<int8_t>(8, 2), {8}).cumprod(0).values<int64_t>().back() == 256,
               device);
    BOOST_TEST(
        (Tensor::ones({3}, DType::BOOL).cumsum(0).dtype() == Tensor::ones({3}, DType::BOOL).sum().dtype()));
  });
}

BOOST_AUTO_TEST_CASE(small_floats_are_squared_and_summed_wide) {
  on_each_device([](const std::string& device) {
    for (DType dtype : {DType::F16, DType::BF16}) {
      // Squares of 60000 overflow f16, and so does a sum of these.
      Tensor x = Tensor::from(std::vector<float>{60000, -60000, 60000, -60000}, {1, 1, 4}).cast(dtype);
      std::string what = device + " " + name(dtype);
      double v = round_to(dtype, 60000);
      BOOST_TEST(x.abs().mean().item() == v, what);
      BOOST_TEST(x.layer_norm({-1}, 0).values<double>()[0] == 1, what);
      BOOST_TEST(x.avg_pool({{4}, {}, {}, {}, false}, false).item() == 0, what);
      Tensor norm = x.computed_wide([](const Tensor& w) { return w.square().sum().sqrt() / 4; });
      BOOST_TEST((norm.dtype() == dtype), what);
      BOOST_TEST(norm.item() == v / 2, what);
      Tensor spread = (x * 0.004).var(); // 240 squared; the squares' sum overflows f16
      BOOST_TEST(std::abs(spread.item() / 57600 - 1) < 0.02, what << " " << spread.item());
      BOOST_TEST(std::abs(Tensor::constant(dtype, 1, {100000}).logsumexp().item() - 12.5129) < 0.06, what);
    }
  });
}

// Assignment to what is no variable would change nothing.
static_assert(std::is_copy_assignable_v<Tensor> && std::is_move_assignable_v<Tensor>);
static_assert(!std::is_assignable_v<Tensor, Tensor> && !std::is_assignable_v<Tensor, const Tensor&>);
static_assert(std::is_nothrow_move_constructible_v<Tensor>);

BOOST_AUTO_TEST_CASE(one_hot_counts_negative_indices_from_the_end_once) {
  on_each_device([](const std::string& device) {
    Tensor i = Tensor::from(std::vector<int8_t>{-1, 2, -3, 3, -4}, {5});
    std::vector<bool> want = {false, false, true,  false, false, true,  true, false,
                              false, false, false, false, false, false, false};
    BOOST_TEST((i.one_hot(3).values<bool>() == want), device);
    // More classes than the indices' dtype counts, and indices that i64 cannot hold.
    std::vector<bool> row = Tensor::from(std::vector<uint8_t>{44}, {1}).one_hot(301).values<bool>();
    BOOST_TEST(std::count(row.begin(), row.end(), true) == 1, device);
    Tensor large = Tensor::from(std::vector<uint64_t>{UINT64_MAX, 1}, {2}),
           data = Tensor::from(std::vector<float>{4, 5, 6}, {3});
    BOOST_TEST(
        (large.one_hot(3).values<bool>() == std::vector<bool>{false, false, false, false, true, false}),
        device);
    BOOST_TEST((data.gather_elements(large, 0).values<float>() == std::vector<float>{0, 5}), device);
    BOOST_TEST((data.gather(large, 0).values<float>() == std::vector<float>{0, 5}), device);
  });
}
