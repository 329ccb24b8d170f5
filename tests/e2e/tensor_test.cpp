// The Tensor library against direct loops in double precision, on the CPU plugin and the interpreter. Values
// are small integers, so that every order of summation gives the same float and results can be compared
// exactly.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "device_runs.h"
#include "tolk/base/error.h"
#include "tolk/tensor/tensor.h"

using namespace tolk;

namespace {

using Floats = std::vector<float>;

Floats whole_numbers(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Floats v(count);
  for (float& x : v) x = float(int(random() % 17) - 8);
  return v;
}

Tensor tensor(const Floats& v, const Shape& shape) { return Tensor::from(v, shape); }

void check(const std::string& what, const Tensor& got, const Floats& want) {
  Floats values = got.values<float>();
  BOOST_REQUIRE_MESSAGE(values.size() == want.size(),
                        what << ": " << values.size() << " elements, expected " << want.size());
  for (size_t i = 0; i < want.size(); ++i)
    if (values[i] != want[i]) {
      BOOST_ERROR(what << ": element " << i << " is " << values[i] << ", expected " << want[i]);
      return;
    }
}

Floats matmul(const Floats& a, const Floats& b, int m, int n, int k, bool transposed) {
  Floats out(size_t(m * n));
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int l = 0; l < k; ++l)
        sum += double(a[size_t(i * k + l)]) * b[size_t(transposed ? j * k + l : l * n + j)];
      out[size_t(i * n + j)] = float(sum);
    }
  return out;
}

struct ConvCase {
  int n, c, h, w, m, kh, kw, stride, dilation, pad, groups;
};

Floats conv(const ConvCase& t, const Floats& x, const Floats& w, const Floats& bias, int oh, int ow) {
  Floats out;
  int cg = t.c / t.groups, mg = t.m / t.groups;
  for (int n = 0; n < t.n; ++n)
    for (int m = 0; m < t.m; ++m)
      for (int i = 0; i < oh; ++i)
        for (int j = 0; j < ow; ++j) {
          double sum = bias[size_t(m)];
          for (int c = 0; c < cg; ++c)
            for (int a = 0; a < t.kh; ++a)
              for (int b = 0; b < t.kw; ++b) {
                int y = i * t.stride + a * t.dilation - t.pad, z = j * t.stride + b * t.dilation - t.pad;
                if (y < 0 || y >= t.h || z < 0 || z >= t.w) continue;
                sum += double(x[size_t(((n * t.c + m / mg * cg + c) * t.h + y) * t.w + z)]) *
                       w[size_t(((m * cg + c) * t.kh + a) * t.kw + b)];
              }
          out.push_back(float(sum));
        }
  return out;
}

} // namespace

BOOST_AUTO_TEST_CASE(matrix_products_are_exact_at_awkward_sizes) {
  on_each_device([](const std::string& device) {
    const std::vector<int> sizes = device == "CPU" ? std::vector<int>{1, 2, 5, 6, 7, 15, 16, 17, 31, 64, 100}
                                                   : std::vector<int>{1, 7, 16, 17};
    for (int m : sizes)
      for (int n : sizes)
        for (int k : sizes) {
          if (device == "CPU" && (m * 7 + n * 3 + k) % 5 != 0 && m != n)
            continue; // a fifth of the grid, and all squares
          Floats a = whole_numbers(size_t(m * k), 1), b = whole_numbers(size_t(k * n), 2);
          std::string what =
              device + " " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
          check(what, tensor(a, {m, k}).matmul(tensor(b, {k, n})), matmul(a, b, m, n, k, false));
          check(what + " transposed", tensor(a, {m, k}).matmul(tensor(b, {n, k}).transpose(0, 1)),
                matmul(a, b, m, n, k, true));
        }
    // Batches broadcast; vectors lose their axis.
    Floats a = whole_numbers(2 * 3 * 4, 3), b = whole_numbers(4 * 5, 4);
    Tensor y = tensor(a, {2, 3, 4}).matmul(tensor(b, {4, 5}));
    BOOST_TEST(to_string(y.shape()) == "(2,3,5)");
    Floats want = matmul(Floats(a.begin(), a.begin() + 12), b, 3, 5, 4, false),
           second = matmul(Floats(a.begin() + 12, a.end()), b, 3, 5, 4, false);
    want.insert(want.end(), second.begin(), second.end());
    check(device + " batch", y, want);
    BOOST_TEST(to_string(tensor(Floats(4, 1), {4}).matmul(tensor(b, {4, 5})).shape()) == "(5)");
    BOOST_TEST(tensor(Floats{1, 2}, {2}).matmul(tensor(Floats{3, 4}, {2})).item() == 11);
    // An epilogue with several uses of the product.
    Tensor p = tensor(a, {6, 4}).matmul(tensor(b, {4, 5}));
    Floats plain = matmul(a, b, 6, 5, 4, false), doubled;
    for (float v : plain) doubled.push_back(std::max(v, 0.f) + v * 2);
    check(device + " epilogue", p.relu() + p * 2.0, doubled);
  });
}

BOOST_AUTO_TEST_CASE(convolutions_are_exact) {
  const std::vector<ConvCase> cases = {
      {1, 3, 8, 8, 4, 3, 3, 1, 1, 1, 1},    {2, 4, 9, 7, 8, 3, 3, 2, 1, 1, 1},
      {1, 8, 14, 14, 16, 1, 1, 1, 1, 0, 1}, {1, 8, 7, 7, 24, 3, 3, 1, 1, 1, 1},
      {1, 6, 10, 10, 6, 3, 3, 1, 1, 1, 6},  {2, 4, 11, 11, 8, 5, 3, 2, 2, 2, 2},
      {1, 16, 7, 7, 32, 1, 1, 2, 1, 0, 1},  {1, 1, 28, 28, 8, 5, 5, 1, 1, 2, 1},
      {1, 3, 32, 32, 16, 7, 7, 2, 1, 3, 1},
  };
  on_each_device([&](const std::string& device) {
    for (size_t i = 0; i < cases.size(); ++i) {
      const ConvCase& t = cases[i];
      Floats x = whole_numbers(size_t(t.n * t.c * t.h * t.w), 5),
             w = whole_numbers(size_t(t.m * t.c / t.groups * t.kh * t.kw), 6),
             bias = whole_numbers(size_t(t.m), 7);
      int oh = (t.h + 2 * t.pad - (t.kh - 1) * t.dilation - 1) / t.stride + 1,
          ow = (t.w + 2 * t.pad - (t.kw - 1) * t.dilation - 1) / t.stride + 1;
      Tensor weight = tensor(w, {t.m, t.c / t.groups, t.kh, t.kw});
      Tensor::Conv how{
          {t.stride, t.stride}, {t.dilation, t.dilation}, {{t.pad, t.pad}, {t.pad, t.pad}}, t.groups};
      Tensor input = tensor(x, {t.n, t.c, t.h, t.w});
      Floats want = conv(t, x, w, bias, oh, ow);
      check(device + " conv " + std::to_string(i), input.conv(weight, tensor(bias, {t.m}), how), want);
      // The same with the output channels innermost in memory, as models keep their weights.
      Tensor inner = weight.permute({2, 3, 1, 0}).contiguous().realize().permute({3, 2, 0, 1});
      check(device + " conv channels innermost " + std::to_string(i),
            input.conv(inner, tensor(bias, {t.m}), how), want);
    }
    // A transposed convolution is the adjoint: <conv(x), y> == <x, conv_transpose(y)>.
    Floats x = whole_numbers(1 * 2 * 9 * 9, 8), w = whole_numbers(3 * 2 * 3 * 3, 9),
           y = whole_numbers(1 * 3 * 5 * 5, 10);
    Tensor::Conv how{{2, 2}, {1, 1}, {{1, 1}, {1, 1}}, 1};
    Tensor tw = tensor(w, {3, 2, 3, 3});
    double left = (tensor(x, {1, 2, 9, 9}).conv(tw, Tensor(), how) * tensor(y, {1, 3, 5, 5})).sum().item();
    double right =
        (tensor(x, {1, 2, 9, 9}) * tensor(y, {1, 3, 5, 5}).conv_transpose(tw, Tensor(), how, {0, 0}))
            .sum()
            .item();
    BOOST_CHECK_MESSAGE(left == right, device << " adjoint: " << left << " and " << right);
  });
}

BOOST_AUTO_TEST_CASE(reductions_are_exact_over_every_axis_and_length) {
  on_each_device([](const std::string& device) {
    for (int n = 1; n <= 70; n += device == "CPU" ? 1 : 13) {
      Floats v = whole_numbers(size_t(3 * n * 4), unsigned(n));
      Tensor t = tensor(v, {3, n, 4});
      Floats middle(12, 0.f), last(size_t(3 * n), 0.f), largest(12, -100.f);
      for (int i = 0; i < 3; ++i)
        for (int j = 0; j < n; ++j)
          for (int k = 0; k < 4; ++k) {
            float x = v[size_t((i * n + j) * 4 + k)];
            middle[size_t(i * 4 + k)] += x, last[size_t(i * n + j)] += x;
            largest[size_t(i * 4 + k)] = std::max(largest[size_t(i * 4 + k)], x);
          }
      std::string what = device + " length " + std::to_string(n);
      check(what + " middle", t.sum({1}), middle);
      check(what + " last", t.sum({-1}), last);
      check(what + " max", t.max({1}), largest);
      check(what + " all", t.sum(), {std::accumulate(v.begin(), v.end(), 0.f)});
      check(what + " nested", (t.sum({2}) + 1.0).sum({1}), [&] {
        Floats out(3, 0.f);
        for (int i = 0; i < 3; ++i)
          for (int j = 0; j < n; ++j) out[size_t(i)] += last[size_t(i * n + j)] + 1;
        return out;
      }());
      Floats running = tensor(Floats(v.begin(), v.begin() + n), {n}).cumsum(0).values<float>();
      float sum = 0;
      for (int j = 0; j < n; ++j) {
        sum += v[size_t(j)];
        BOOST_REQUIRE_MESSAGE(running[size_t(j)] == sum, what << " cumsum at " << j);
      }
    }
    Floats big = whole_numbers(1300, 11);
    Floats running = tensor(big, {1300}).cumsum(0, false, true).values<float>();
    float sum = 0;
    for (size_t j = big.size(); j-- > 0;) {
      sum += big[j];
      BOOST_REQUIRE_MESSAGE(running[j] == sum, device << " reversed cumsum at " << j);
    }
    // Partial results of a large reduction are combined.
    Floats many = whole_numbers(100000, 12);
    BOOST_TEST(tensor(many, {100000}).sum().item() == std::accumulate(many.begin(), many.end(), 0.0));
  });
}

BOOST_AUTO_TEST_CASE(movements_compose) {
  on_each_device([](const std::string& device) {
    Floats v(24);
    std::iota(v.begin(), v.end(), 0.f);
    Tensor t = tensor(v, {4, 6});
    check(device + " slice", t.slice(0, -3, 4, 2).slice(1, 5, 0, -2), {11, 9, 7, 23, 21, 19});
    check(device + " all reversed", t.slice(1, -1, INT64_MIN, -1).narrow(0, 0, 1), {5, 4, 3, 2, 1, 0});
    check(device + " reshape and permute",
          t.reshape({2, 2, 6}).permute({1, 0, 2}).reshape({4, 6}).narrow(1, 0, 1), {0, 12, 6, 18});
    check(device + " pad with a value", t.narrow(0, 0, 1).narrow(1, 0, 2).pad({{1, 0}, {0, 1}}, 7),
          {7, 7, 7, 0, 1, 7});
    check(device + " concat", Tensor::concat({t.narrow(0, 3, 1), t.narrow(0, 0, 1), t.narrow(0, 1, 0)}, 0),
          {18, 19, 20, 21, 22, 23, 0, 1, 2, 3, 4, 5});
    check(device + " repeat", tensor({1, 2}, {2}).repeat({2, 2}), {1, 2, 1, 2, 1, 2, 1, 2});
    check(device + " stack", Tensor::stack({tensor({1, 2}, {2}), tensor({3, 4}, {2})}, 1), {1, 3, 2, 4});
    check(device + " window", tensor({0, 1, 2, 3, 4, 5, 6}, {7}).window(0, 3, 2, 2, 1), {0, 1, 2, 3, 4, 5});
    check(device + " eye", Tensor::eye(2, 3, 1, DType::F32), {0, 1, 0, 0, 0, 1});
    check(device + " flip of a product", (t * t).flip({0, 1}).narrow(0, 0, 1).narrow(1, 0, 2), {529, 484});
    BOOST_CHECK_THROW(t.reshape({5, 5}), InvalidArgument);
    BOOST_CHECK_THROW(t + tensor({1, 2}, {2}), InvalidArgument);
    BOOST_CHECK_THROW(t.permute({0, 0}), InvalidArgument);
    BOOST_CHECK_THROW(t.squeeze(0), InvalidArgument);
    BOOST_CHECK_THROW(t.sum({2}), InvalidArgument);
    BOOST_CHECK_THROW(t.matmul(t), InvalidArgument);
  });
}

BOOST_AUTO_TEST_CASE(indexing_reads_wraps_and_writes) {
  on_each_device([](const std::string& device) {
    Tensor t = tensor({0, 1, 2, 10, 11, 12, 20, 21, 22}, {3, 3});
    auto ints = [](const std::vector<int64_t>& v, const Shape& s) { return Tensor::from(v, s); };
    check(device + " gather", t.gather(ints({2, -3, 0}, {3}), 0), {20, 21, 22, 0, 1, 2, 0, 1, 2});
    check(device + " gather outside reads 0", t.gather(ints({3, -4}, {2}), 1), {0, 0, 0, 0, 0, 0});
    check(device + " gather elements", t.gather_elements(ints({2, 1, 0}, {1, 3}), 0), {20, 11, 2});
    check(device + " gather nd", t.gather_nd(ints({0, 2, 2, -1}, {2, 2})), {2, 22});
    check(device + " scatter last wins",
          t.scatter_elements(ints({1, 1, -1}, {3, 1}), tensor({5, 6, 7}, {3, 1}), 1),
          {0, 5, 2, 10, 6, 12, 20, 21, 7});
    check(device + " scatter nd add",
          t.scatter_nd(ints({1, 1, 5}, {3, 1}), tensor({1, 1, 1, 2, 2, 2, 9, 9, 9}, {3, 3}),
                       Tensor::Combine::Add),
          {0, 1, 2, 13, 14, 15, 20, 21, 22});
    check(device + " one hot", ints({2, 0}, {2}).one_hot(3).cast(DType::F32), {0, 0, 1, 1, 0, 0});
    auto [values, places] = tensor({3, 1, 4, 1, 5, 9, 2, 6}, {8}).topk(3, 0);
    check(device + " topk", values, {9, 6, 5});
    check(device + " topk places", places, {5, 7, 4});
    auto [sorted, from] = tensor({3, 1, 4, 1, 5}, {5}).sort(0);
    check(device + " sort", sorted, {1, 1, 3, 4, 5});
    check(device + " sort is stable", from, {1, 3, 0, 2, 4});
  });
}

BOOST_AUTO_TEST_CASE(in_place_writes_are_seen_by_every_view) {
  on_each_device([](const std::string& device) {
    Tensor a = tensor({0, 1, 2, 3}, {2, 2}).realize();
    Tensor old = a + 0.0;
    old.realize();
    a.assign(a.transpose(0, 1) + 1.0).realize();
    check(device + " assign of its own transpose", a, {1, 3, 2, 4});
    check(device + " a copy keeps the old values", old, {0, 1, 2, 3});
    BOOST_CHECK_THROW(a.assign(tensor({1}, {1})), InvalidArgument);
  });
}

BOOST_AUTO_TEST_CASE(computed_values_are_kept_and_host_data_is_copied) {
  on_each_device([](const std::string& device) {
    for (size_t n : {size_t(4), size_t(64), size_t(100), size_t(1000), size_t(1000000)}) {
      Floats v(n, 3.f);
      Tensor t = tensor(v, {int64_t(n)});
      v[0] = -1;
      BOOST_CHECK_MESSAGE(t.narrow(0, 0, 1).item() == 3, device << " " << n);
    }
    Tensor a = (tensor({1, 2}, {2}) * 3.0), b = a + 1.0;
    a.realize();
    check(device, b, {4, 7});
  });
}
