// Derivatives of products, whatever the number of zeros among the factors, against the finite formulas: a
// derivative by some of the factors is the product of all the others, and zero when one is named twice.
#include <boost/test/unit_test.hpp>

#include "finite_differences.h"
#include "tolk/tensor/gradient.h"
#include "tolk/uop/build.h"

using namespace tolk;

namespace {

using Doubles = std::vector<double>;

Tensor real(const Doubles& v, const Shape& shape) { return Tensor::from(v, shape, "INTERP"); }

double product_without(const Doubles& x, const std::vector<size_t>& left_out) {
  double product = 1;
  for (size_t i = 0; i < x.size(); ++i) {
    auto times = std::count(left_out.begin(), left_out.end(), i);
    if (times > 1) return 0;
    if (times == 0) product *= x[i];
  }
  return product;
}

// The derivatives by x[i] of a scalar, for every i.
Tensor derivative(const Tensor& y, const Tensor& x) { return gradient(y, std::vector<Tensor>{x})[0]; }

void near(double got, double want, const std::string& what) {
  BOOST_TEST(std::abs(got - want) <= 1e-13 * (1 + std::abs(want)),
             what << ": " << got << ", expected " << want);
}

} // namespace

BOOST_AUTO_TEST_SUITE(gradient_of_products)

BOOST_AUTO_TEST_CASE(three_derivatives_with_any_number_of_zeros) {
  DeviceScope scope("INTERP");
  for (const Doubles& values : {Doubles{2, -3, 0.5, 4}, Doubles{2, 0, 0.5, 4}, Doubles{0, 3, 0, 5},
                                Doubles{0, 0, 0, 7}, Doubles{0, 0, 0, 0}, Doubles{3}, Doubles{0},
                                Doubles{0, 0}, Doubles{0, 2, 3, 0, 5}, Doubles{1.5, 0, -2, 0, 3, 0.25, 7}}) {
    size_t n = values.size();
    Tensor x = real(values, {n}), first = derivative(x.prod(), x);
    Doubles once = first.values<double>();
    for (size_t i = 0; i < n; ++i) {
      near(once[i], product_without(values, {i}), "by " + std::to_string(i));
      Tensor second = derivative(first.narrow(0, i, 1).sum(), x);
      Doubles twice = second.values<double>();
      for (size_t j = 0; j < n; ++j) {
        near(twice[j], product_without(values, {i, j}), "by " + std::to_string(i) + ", " + std::to_string(j));
        if (n > 5) continue;
        Doubles thrice = derivative(second.narrow(0, j, 1).sum(), x).values<double>();
        for (size_t k = 0; k < n; ++k) near(thrice[k], product_without(values, {i, j, k}), "three times");
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(rows_columns_and_blocks) {
  gradients::Input x{{0, 2, 3, 0, 0, 1.5, -1, 0, 2, 0, 0, 0, 4, 5, -2, 0.5, 0, 3, 1, 2, 0, 0, 7, 1},
                     {2, 3, 4}};
  for (const Axes& axes : {Axes{0}, Axes{1}, Axes{2}, Axes{0, 2}, Axes{1, 2}, Axes{}}) {
    std::string what = "product over " + std::to_string(axes.size()) + " axes";
    auto f = [&](const std::vector<Tensor>& t) { return t[0].prod(axes); };
    gradients::check(what, f, {x});
    gradients::check_second(what, f, {x});
  }
  auto running = [](const std::vector<Tensor>& t) { return t[0].cumprod(2); };
  gradients::check("running product", running, {x});
  gradients::check_second("running product", running, {x});
}

BOOST_AUTO_TEST_CASE(infinite_factors_and_none) {
  DeviceScope scope("INTERP");
  constexpr double inf = std::numeric_limits<double>::infinity();
  Tensor x = real({inf, 2, 3}, {3});
  BOOST_TEST(derivative(x.prod(), x).values<double>() == (Doubles{6, inf, inf}),
             boost::test_tools::per_element());
  Tensor none = Tensor::empty({2, 0}, DType::F64);
  BOOST_TEST(gradient(none.prod({1}).sum(), std::vector<Tensor>{none})[0].values<double>().empty());
}

BOOST_AUTO_TEST_CASE(a_symbolic_number_of_factors) {
  DeviceScope scope("INTERP");
  Doubles values = {2, 0, 3, 5, 0, 7, 11};
  Tensor all = real(values, {7}).realize();
  for (int64_t n = 1; n <= 7; ++n) {
    Tensor x = all.narrow(0, 0, SInt(bind(variable("factors", 1, 7), n)));
    Tensor g = derivative(x.prod(), all);
    Doubles got = g.values<double>(), used(values.begin(), values.begin() + n);
    for (int64_t i = 0; i < 7; ++i)
      near(got[size_t(i)], i < n ? product_without(used, {size_t(i)}) : 0, std::to_string(n) + " factors");
  }
}

BOOST_AUTO_TEST_SUITE_END()
