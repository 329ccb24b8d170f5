// Sums by index at sizes where asking every row for every index would cost too much: gradients of lookups,
// and scatters that add. Expected values come from plain loops.
#include <random>

#include <boost/test/unit_test.hpp>

#include "device_runs.h"
#include "tolk/tensor/gradient.h"
#include "tolk/uop/build.h"
#include "tolk/uop/traverse.h"

using namespace tolk;

namespace {

using Doubles = std::vector<double>;
using Whole = std::vector<int64_t>;

Doubles noise(int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  Doubles out;
  for (int64_t i = 0; i < n; ++i) out.push_back(double(int(random() % 2001) - 1000) / 1000);
  return out;
}

// Many of few rows, some of all, some from the end, some outside.
Whole indices(int64_t count, int64_t rows, unsigned seed) {
  std::mt19937 random(seed);
  Whole out;
  for (int64_t i = 0; i < count; ++i) {
    int64_t any = int64_t(random() % uint64_t(rows));
    out.push_back(i % 3 == 0 ? any % 4 : i % 7 == 0 ? any - rows : i % 11 == 0 ? rows + any : any);
  }
  return out;
}

void near(const Doubles& got, const Doubles& want) {
  BOOST_REQUIRE(got.size() == want.size());
  size_t wrong = 0;
  for (size_t i = 0; i < got.size(); ++i)
    wrong += !(std::abs(got[i] - want[i]) <= 1e-12 * (1 + std::abs(want[i])));
  BOOST_TEST(wrong == 0U);
}

// The largest number of elements of a value that the tensor's graph computes, views left out.
int64_t widest(const Tensor& t) {
  int64_t most = 0;
  for (const UOp& u : toposort(t.node()))
    if (u.is(ops::Elementwise | OpSet(Op::REDUCE_AXIS, Op::GATHER)))
      most = std::max(most, max_numel(shape_of(u)));
  return most;
}

struct Lookup {
  int64_t before, rows, after, count;
  Doubles weights = noise(count * before * after, 2);
  Whole at = indices(count, rows, 3);

  Tensor indices_on(const std::string& device) const { return Tensor::from(at, {count}, device); }
  // d(sum weights * x[:, at, :]) / dx
  Doubles expected() const {
    Doubles out(size_t(before * rows * after), 0.);
    for (int64_t b = 0; b < before; ++b)
      for (int64_t t = 0; t < count; ++t) {
        int64_t row = at[size_t(t)] < 0 ? at[size_t(t)] + rows : at[size_t(t)];
        if (row < 0 || row >= rows) continue;
        for (int64_t a = 0; a < after; ++a)
          out[size_t((b * rows + row) * after + a)] += weights[size_t((b * count + t) * after + a)];
      }
    return out;
  }
};

} // namespace

BOOST_AUTO_TEST_SUITE(gradient_of_lookups)

BOOST_AUTO_TEST_CASE(a_lookup_costs_its_indices_and_its_table_not_their_product) {
  on_each_device([](const std::string& device) {
    for (const Lookup& l : {Lookup{1, 3000, 8, 300}, Lookup{2, 1500, 5, 300}, Lookup{1, 2500, 6, 321},
                            Lookup{1, 3000, 4, 2501}}) {
      Tensor x = Tensor::from(noise(l.before * l.rows * l.after, 1), {l.before, l.rows, l.after}, device);
      Tensor weights = Tensor::from(l.weights, {l.before, l.count, l.after}, device);
      Tensor loss = (x.gather(l.indices_on(device), 1) * weights).sum();
      Tensor g = gradient(loss, std::vector<Tensor>{x})[0];
      BOOST_TEST(widest(g) < l.rows * l.count);
      near(g.values<double>(), l.expected());
    }
  });
}

BOOST_AUTO_TEST_CASE(a_second_derivative_is_a_lookup_again) {
  DeviceScope scope("INTERP");
  Lookup l{1, 3000, 8, 300};
  Tensor x = Tensor::from(noise(l.rows * l.after, 1), {l.rows, l.after});
  Tensor weights = Tensor::from(l.weights, {l.count, l.after});
  Tensor g = gradient((x.gather(l.indices_on("INTERP"), 0) * weights).sum(), std::vector<Tensor>{x})[0];
  Tensor h = gradient(g.square().sum(), std::vector<Tensor>{weights})[0];
  BOOST_TEST(widest(h) < l.rows * l.count);
  Doubles sums = l.expected(), want(size_t(l.count * l.after), 0.);
  for (int64_t t = 0; t < l.count; ++t) {
    int64_t row = l.at[size_t(t)] < 0 ? l.at[size_t(t)] + l.rows : l.at[size_t(t)];
    for (int64_t a = 0; a < l.after && row >= 0 && row < l.rows; ++a)
      want[size_t(t * l.after + a)] = 2 * sums[size_t(row * l.after + a)];
  }
  near(h.values<double>(), want);
}

// 2048 and 299 ones: added one by one in f16 the ones would vanish.
BOOST_AUTO_TEST_CASE(a_large_lookup_of_small_floats_accumulates_in_f32) {
  DeviceScope scope("INTERP");
  int64_t rows = 3000, width = 8, count = 300;
  std::vector<float> weights(size_t(count * width), 1.f);
  std::fill_n(weights.begin(), width, 2048.f);
  Tensor x =
      Tensor::from(std::vector<float>(size_t(rows * width)), {rows, width}).cast(DType::F16).contiguous();
  Tensor at = Tensor::from(Whole(size_t(count), 5), {count});
  Tensor loss = (x.gather(at, 0) * Tensor::from(weights, {count, width}).cast(DType::F16)).sum();
  Tensor g = gradient(loss, std::vector<Tensor>{x})[0];
  BOOST_TEST(widest(g) < rows * count);
  BOOST_TEST((g.dtype() == DType::F16));
  BOOST_TEST(g.cast(DType::F32).values<float>()[size_t(5 * width)] == 2348);
}

BOOST_AUTO_TEST_CASE(a_scatter_that_adds_costs_no_more) {
  DeviceScope scope("INTERP");
  Lookup l{1, 3000, 8, 300};
  Doubles old = noise(l.rows * l.after, 5), want = l.expected();
  for (size_t i = 0; i < want.size(); ++i) want[i] += old[i];
  Tensor x = Tensor::from(old, {l.rows, l.after}), updates = Tensor::from(l.weights, {l.count, l.after});
  Tensor y = x.scatter_nd(l.indices_on("INTERP").unsqueeze(1), updates, Tensor::Combine::Add);
  BOOST_TEST(widest(y) < l.rows * l.count);
  near(y.values<double>(), want);
  // Integers too, bit for bit.
  Whole ones(size_t(l.count * l.after), 1), counts(size_t(l.rows * l.after), 0);
  for (int64_t i : l.at) {
    int64_t row = i < 0 ? i + l.rows : i;
    for (int64_t a = 0; a < l.after && row >= 0 && row < l.rows; ++a) ++counts[size_t(row * l.after + a)];
  }
  Tensor zeros = Tensor::zeros({l.rows, l.after}, DType::I64);
  Tensor counted = zeros.scatter_nd(l.indices_on("INTERP").unsqueeze(1),
                                    Tensor::from(ones, {l.count, l.after}), Tensor::Combine::Add);
  BOOST_TEST((counted.values<int64_t>() == counts));
}

BOOST_AUTO_TEST_SUITE_END()
