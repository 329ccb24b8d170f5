// Gradients across devices, in f64: of a training step in parallel, against back-propagation by hand, and of
// what moves values between devices.
#include <cmath>
#include <random>

#include <boost/test/unit_test.hpp>

#include "device_runs.h"
#include "tolk/base/error.h"
#include "tolk/tensor/gradient.h"
#include "tolk/tensor/tensor.h"
#include "tolk/uop/build.h"

using namespace tolk;

namespace {

using Doubles = std::vector<double>;
using Whole = std::vector<int64_t>;
using Devices = std::vector<std::string>;

Doubles noise(int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  Doubles out;
  for (int64_t i = 0; i < n; ++i) out.push_back(double(int(random() % 2001) - 1000) / 1000);
  return out;
}

void near(const Doubles& got, const Doubles& want, const std::string& what) {
  BOOST_REQUIRE_MESSAGE(got.size() == want.size(), what);
  for (size_t i = 0; i < got.size(); ++i)
    BOOST_TEST(std::abs(got[i] - want[i]) <= 1e-13 * (1 + std::abs(want[i])),
               what << "[" << i << "]: " << got[i] << ", expected " << want[i]);
}

Tensor real(const Doubles& v, const Shape& shape, const std::string& device = "CPU") {
  return Tensor::from(v, shape, device);
}
std::vector<Tensor> gradients(const Tensor& loss, const std::vector<Tensor>& wrt) {
  return gradient(loss, wrt);
}

// Words looked up in a table, a layer with a ramp, and the mean of squares.
struct Network {
  int64_t batch = 12, words = 10, width = 4, out = 3;
  Whole at;
  Doubles table = noise(words * width, 1), weight = noise(width * out, 2), bias = noise(out, 3);

  Network() {
    std::mt19937 random(4);
    for (int64_t i = 0; i < batch; ++i) at.push_back(int64_t(random() % 7));
  }

  Tensor loss(const Tensor& i, const Tensor& t, const Tensor& w, const Tensor& b) const {
    return (t.gather(i, 0).matmul(w) + b).relu().square().mean();
  }

  // By table, weight and bias.
  std::vector<Doubles> by_hand() const {
    std::vector<Doubles> g = {Doubles(table.size()), Doubles(weight.size()), Doubles(bias.size())};
    for (int64_t n = 0; n < batch; ++n) {
      int64_t row = at[size_t(n)];
      for (int64_t o = 0; o < out; ++o) {
        double h = bias[size_t(o)];
        for (int64_t k = 0; k < width; ++k) h += table[size_t(row * width + k)] * weight[size_t(k * out + o)];
        double d = h > 0 ? 2 * h / double(batch * out) : 0;
        g[2][size_t(o)] += d;
        for (int64_t k = 0; k < width; ++k) {
          g[1][size_t(k * out + o)] += d * table[size_t(row * width + k)];
          g[0][size_t(row * width + k)] += d * weight[size_t(k * out + o)];
        }
      }
    }
    return g;
  }
};

const std::vector<Devices> kLists = {{"CPU:0", "CPU:1"},
                                     {"CPU", "CPU:1", "CPU:2"},
                                     {"CPU", "CPU:1", "CPU:2", "CPU:3"},
                                     {"CPU", "INTERP"},
                                     {"INTERP:1", "INTERP"}};

// Terms that differ, one a device.
Tensor stacked(const std::vector<Tensor>& terms) {
  std::vector<UOp> parts;
  for (const Tensor& t : terms) parts.push_back(t.node());
  return Tensor(mstack(parts));
}

} // namespace

BOOST_AUTO_TEST_CASE(a_training_step_in_parallel_has_the_gradients_of_one_device) {
  Network net;
  std::vector<Doubles> want = net.by_hand();
  auto compare = [&](const std::string& what, const Tensor& i, std::vector<Tensor> parameters) {
    std::vector<Tensor> g = gradients(net.loss(i, parameters[0], parameters[1], parameters[2]), parameters);
    Tensor::realize(g);
    for (size_t k = 0; k < 3; ++k) near(g[k].values<double>(), want[k], what + " " + std::to_string(k));
    // The step itself, where the parameters are.
    for (size_t k = 0; k < 3; ++k) {
      Doubles old = parameters[k].values<double>(), next;
      for (size_t e = 0; e < old.size(); ++e) next.push_back(old[e] - 0.5 * want[k][e]);
      parameters[k].assign(parameters[k] - g[k] * 0.5).realize();
      near(parameters[k].values<double>(), next, what + " step " + std::to_string(k));
    }
  };
  Shape table = {net.words, net.width}, weight = {net.width, net.out}, bias = {net.out};
  Tensor i = Tensor::from(net.at, {net.batch}, "CPU");
  compare("one device", i,
          {real(net.table, table).clone(), real(net.weight, weight).clone(), real(net.bias, bias).clone()});
  for (const Devices& on : kLists) {
    std::string list = join_devices(on);
    compare("data parallel on " + list, i.shard(on, 0),
            {real(net.table, table, list).clone(), real(net.weight, weight, list).clone(),
             real(net.bias, bias, list).clone()});
    // Copied from one device in the step: the gradients arrive there.
    Tensor t = real(net.table, table), w = real(net.weight, weight), b = real(net.bias, bias);
    std::vector<Tensor> g =
        gradients(net.loss(i.shard(on, 0), t.replicate(on), w.to(list), b.replicate(on)), {t, w, b});
    for (size_t k = 0; k < 3; ++k) near(g[k].values<double>(), want[k], "copied to " + list);
  }
}

BOOST_AUTO_TEST_CASE(a_large_lookup_of_sharded_words) {
  int64_t rows = 3000, width = 8, count = 300;
  Doubles weights = noise(count * width, 1), want(size_t(rows * width), 0.);
  Whole at;
  for (int64_t t = 0; t < count; ++t) at.push_back((t % 4 ? t * t * 31 : t) % rows);
  for (int64_t t = 0; t < count; ++t)
    for (int64_t a = 0; a < width; ++a)
      want[size_t(at[size_t(t)] * width + a)] += weights[size_t(t * width + a)];
  for (const Devices& on : kLists) {
    Tensor x = real(noise(rows * width, 2), {rows, width}, join_devices(on));
    Tensor i = Tensor::from(at, {count}, "CPU").shard(on, 0);
    Tensor g = gradients((x.gather(i, 0) * real(weights, {count, width}).shard(on, 0)).sum(), {x})[0];
    near(g.values<double>(), want, join_devices(on));
  }
}

// The terms of different devices are different variables; the zeros make a product's gradient hard.
BOOST_AUTO_TEST_CASE(an_allreduce_hands_each_term_its_gradient) {
  for (const Devices& on : kLists) {
    std::string list = join_devices(on);
    int64_t count = int64_t(on.size()), n = 6;
    std::vector<Doubles> values;
    std::vector<Tensor> terms;
    for (int64_t p = 0; p < count; ++p) {
      values.push_back(noise(n, unsigned(p + 1)));
      values.back()[0] = p == 0 ? 0 : 2;   // one zero
      values.back()[1] = p <= 1 ? 0 : 1.5; // two
      values.back()[2] = 0.25;             // the largest on every device
      terms.push_back(real(values.back(), {n}, on[size_t(p)]));
    }
    Doubles c = noise(n, 20);
    auto loss = [&](Op op) { return (stacked(terms).allreduce(op) * real(c, {n}, list)).sum(); };
    std::vector<Tensor> sum = gradients(loss(Op::ADD), terms), product = gradients(loss(Op::MUL), terms),
                        most = gradients(loss(Op::MAX), terms);
    for (size_t p = 0; p < terms.size(); ++p) {
      Doubles others, largest;
      for (size_t e = 0; e < size_t(n); ++e) {
        double product_of_others = 1, top = values[0][e], shared = 0;
        for (size_t q = 0; q < terms.size(); ++q) {
          if (q != p) product_of_others *= values[q][e];
          top = std::max(top, values[q][e]);
        }
        for (size_t q = 0; q < terms.size(); ++q) shared += values[q][e] == top;
        others.push_back(c[e] * product_of_others);
        largest.push_back(values[p][e] == top ? c[e] / shared : 0);
      }
      std::string what = list + " term " + std::to_string(p);
      BOOST_TEST(sum[p].device() == terms[p].device());
      near(sum[p].values<double>(), c, what + " of the sum");
      near(product[p].values<double>(), others, what + " of the product");
      near(most[p].values<double>(), largest, what + " of the maximum");
    }
  }
}

// As one value, a replica stands for the term of every device.
BOOST_AUTO_TEST_CASE(an_allreduce_of_a_replica_counts_it_once_for_each_device) {
  Doubles v = {2, -3, 0.5}, c = {1, 4, -2};
  for (const Devices& on : kLists) {
    std::string list = join_devices(on);
    auto count = double(on.size());
    for (bool copied : {false, true}) {
      Tensor x = real(v, {3}, copied ? "CPU" : list);
      if (!copied) x = x.clone().realize();
      auto by = [&](Op op) {
        Tensor y = (copied ? x.replicate(on) : x).allreduce(op);
        return gradients((y * real(c, {3}, list)).sum(), {x})[0].values<double>();
      };
      Doubles sum, product;
      for (size_t e = 0; e < 3; ++e) {
        sum.push_back(count * c[e]);
        product.push_back(c[e] * count * std::pow(v[e], count - 1));
      }
      near(by(Op::ADD), sum, list + " sum");
      near(by(Op::MUL), product, list + " product");
      near(by(Op::MAX), c, list + " maximum");
    }
  }
}

// Weights that all share, applied to terms that differ, summed: w's gradient is that of all its uses.
BOOST_AUTO_TEST_CASE(shared_weights_collect_from_every_term) {
  Doubles w = {2, -3, 0.5}, c = {1, 4, -2};
  for (const Devices& on : kLists) {
    std::string list = join_devices(on);
    std::vector<Tensor> terms;
    Doubles total(3, 0.);
    for (size_t p = 0; p < on.size(); ++p) {
      terms.push_back(real(noise(3, unsigned(p + 1)), {3}, on[p]));
      for (size_t e = 0; e < 3; ++e) total[e] += noise(3, unsigned(p + 1))[e];
    }
    Tensor x = real(w, {3});
    Tensor everywhere = x.replicate(on),
           y = (everywhere * stacked(terms)).allreduce(Op::ADD) + everywhere.square();
    Doubles want;
    for (size_t e = 0; e < 3; ++e) want.push_back(c[e] * (total[e] + 2 * w[e]));
    near(gradients((y * real(c, {3}, list)).sum(), {x})[0].values<double>(), want, list);
    // A second derivative: of the squared gradient by the first term, 2 * c^2 * (total + 2 w).
    Tensor g = gradients((y * real(c, {3}, list)).sum(), {x})[0];
    Doubles second;
    for (size_t e = 0; e < 3; ++e) second.push_back(2 * c[e] * want[e]);
    near(gradients(g.square().sum(), {terms[0]})[0].values<double>(), second, list + " twice");
  }
}

BOOST_AUTO_TEST_CASE(moves_between_devices_hand_the_gradient_back) {
  Doubles v = noise(24, 1), c = noise(24, 2), want;
  for (size_t e = 0; e < 24; ++e) want.push_back(2 * v[e] * c[e]);
  Shape shape = {12, 2};
  for (const Devices& on : kLists)
    for (const std::string home : {"CPU", "INTERP:2", "HOST"}) {
      std::string list = join_devices(on), what = home + " to " + list;
      Tensor x = real(v, shape, home);
      auto by = [&](const Tensor& moved, const std::string& where) {
        Tensor y = moved.square() * real(c, shape, where);
        Tensor g = gradients(y.sum(), {x})[0];
        BOOST_TEST((g.shape() == shape));
        return g.values<double>();
      };
      near(by(x.shard(on, 0), list), want, what + ", in parts");
      near(by(x.replicate(on), list), want, what + ", as replicas");
      near(by(x.shard(on, 0).replicate(on), list), want, what + ", gathered on all");
      near(by(x.shard(on, 0).to("CPU:3"), "CPU:3"), want, what + ", gathered on one");
      near(by(x.replicate(on).shard(on, 0), list), want, what + ", replicas in parts");
      near(by(x.replicate(on).to("CPU,CPU:3"), "CPU,CPU:3"), want, what + ", on another list");
      near(by(x.to("CPU:1").to("CPU:2"), "CPU:2"), want, what + ", from one to another");
    }
}

BOOST_AUTO_TEST_CASE(parts_that_never_met_are_refused) {
  Tensor a = real({1, 2}, {2}, "CPU"), b = real({3, 4}, {2}, "CPU:1");
  Tensor y = stacked({a, b}).square().to("CPU").sum();
  BOOST_CHECK_EXCEPTION(gradients(y, {a}), InvalidArgument, [](const InvalidArgument& e) {
    std::string text = e.what();
    return text.find("allreduce") != text.npos && text.find("CPU,CPU:1") != text.npos &&
           text.find("(2)") != text.npos;
  });
}
