// Parameters of a training step that are written together, each from the old contents of the others: against
// the same arithmetic in double, written out.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <vector>

#include "device_runs.h"
#include "jit_support.h"
#include "tolk/tensor/gradient.h"
#include "tolk/tensor/jit.h"

using namespace tolk;
using namespace jit_test;

namespace {

using V = std::vector<double>;
using Tensors = std::vector<Tensor>;

Tensor tensor64(const V& v, const Shape& shape) { return Tensor::from(v, shape).realize(); }

void close(const Tensor& got, const V& want, double tolerance) {
  V values = got.values<double>();
  BOOST_REQUIRE_EQUAL(values.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i)
    BOOST_TEST(std::abs(values[i] - want[i]) <= tolerance * (1 + std::abs(want[i])),
               "element " << i << ": " << values[i] << ", not " << want[i]);
}

// mean((tanh(x w + b) v + c - y)^2), with its gradients, by hand.
constexpr int kRows = 5, kIn = 3, kHidden = 4, kOut = 2;
struct Net {
  V w, b, v, c;
  std::vector<V*> all() { return {&w, &b, &v, &c}; }

  double loss(const V& x, const V& y) const {
    double total = 0;
    for (int r = 0; r < kRows; ++r)
      for (int o = 0; o < kOut; ++o) {
        double out = c[size_t(o)];
        for (int h = 0; h < kHidden; ++h) {
          double sum = b[size_t(h)];
          for (int i = 0; i < kIn; ++i) sum += x[size_t(r * kIn + i)] * w[size_t(i * kHidden + h)];
          out += std::tanh(sum) * v[size_t(h * kOut + o)];
        }
        total += (out - y[size_t(r * kOut + o)]) * (out - y[size_t(r * kOut + o)]);
      }
    return total / (kRows * kOut);
  }

  Net gradients(const V& x, const V& y) const {
    Net g{V(w.size()), V(b.size()), V(v.size()), V(c.size())};
    for (int r = 0; r < kRows; ++r) {
      V hidden(size_t{kHidden}), back(size_t{kHidden});
      for (int h = 0; h < kHidden; ++h) {
        double sum = b[size_t(h)];
        for (int i = 0; i < kIn; ++i) sum += x[size_t(r * kIn + i)] * w[size_t(i * kHidden + h)];
        hidden[size_t(h)] = std::tanh(sum);
      }
      for (int o = 0; o < kOut; ++o) {
        double out = c[size_t(o)];
        for (int h = 0; h < kHidden; ++h) out += hidden[size_t(h)] * v[size_t(h * kOut + o)];
        double d = 2 * (out - y[size_t(r * kOut + o)]) / double(kRows * kOut);
        g.c[size_t(o)] += d;
        for (int h = 0; h < kHidden; ++h)
          g.v[size_t(h * kOut + o)] += hidden[size_t(h)] * d, back[size_t(h)] += v[size_t(h * kOut + o)] * d;
      }
      for (int h = 0; h < kHidden; ++h) {
        double d = back[size_t(h)] * (1 - hidden[size_t(h)] * hidden[size_t(h)]);
        g.b[size_t(h)] += d;
        for (int i = 0; i < kIn; ++i) g.w[size_t(i * kHidden + h)] += x[size_t(r * kIn + i)] * d;
      }
    }
    return g;
  }
};

V draw(size_t n) {
  V out;
  for (float f : random_floats(n)) out.push_back(double(f));
  return out;
}

const std::vector<Shape> kShapes{{kIn, kHidden}, {kHidden}, {kHidden, kOut}, {kOut}};

Tensor loss_of(const Tensors& p, const Tensor& x, const Tensor& y) {
  return ((x.matmul(p[0]) + p[1]).tanh().matmul(p[2]) + p[3] - y).square().mean();
}

// Runs the step three times, plainly and captured; `update` is the same step on vectors.
void three_steps(const std::function<void(Tensors&, Tensors&, const Tensors& gradients)>& step,
                 const std::function<void(V& parameter, V* state, const V& gradient)>& update,
                 size_t states) {
  on_each_device([&](const std::string&) {
    Net start{draw(kIn * kHidden), draw(kHidden), draw(kHidden * kOut), draw(kOut)};
    V xs = draw(kRows * kIn), ys = draw(kRows * kOut);
    for (bool captured : {false, true}) {
      Net net = start;
      Tensors parameters, state;
      std::vector<V> want_state;
      for (size_t i = 0; i < 4; ++i) {
        parameters.push_back(tensor64(*net.all()[i], kShapes[i]));
        for (size_t s = 0; s < states; ++s) {
          want_state.emplace_back(net.all()[i]->size(), 0);
          state.push_back(tensor64(want_state.back(), kShapes[i]));
        }
      }
      auto body = [&](Tensor x, Tensor y) {
        Tensor loss = loss_of(parameters, x, y);
        step(parameters, state, gradient(loss, parameters));
        Tensors together = parameters;
        together.insert(together.end(), state.begin(), state.end());
        together.push_back(loss); // of the parameters as they were
        Tensor::realize(together);
        return together.back();
      };
      Jit jit(body);
      Tensor x = tensor64(xs, {kRows, kIn}), y = tensor64(ys, {kRows, kOut});
      for (int i = 0; i < 4; ++i) { // the fourth is the second replay
        close(captured ? jit(x, y) : body(x, y), {net.loss(xs, ys)}, 1e-9);
        Net g = net.gradients(xs, ys);
        for (size_t k = 0; k < 4; ++k) update(*net.all()[k], want_state.data() + k * states, *g.all()[k]);
        for (size_t k = 0; k < 4; ++k) close(parameters[k], *net.all()[k], 1e-9);
        for (size_t k = 0; k < state.size(); ++k) close(state[k], want_state[k], 1e-9);
      }
    }
  });
}

} // namespace

BOOST_AUTO_TEST_CASE(parameters_that_read_each_other_are_written_together) {
  on_each_device([](const std::string&) {
    V a0 = draw(4), b0 = draw(4);
    for (bool captured : {false, true}) {
      V a = a0, b = b0;
      Tensor p1 = tensor64(a, {4}), p2 = tensor64(b, {4});
      auto body = [&](Tensor rate) {
        Tensor loss = (p1 * p2 * p2 + p1.square() * p2).sum();
        Tensors g = gradient(loss, Tensors{p1, p2});
        p1.assign(p1 - rate * g[0]), p2.assign(p2 - rate * g[1]);
        Tensors together{p1, p2, loss};
        Tensor::realize(together);
        return together.back();
      };
      Jit jit(body);
      Tensor rate = tensor64({0.1}, {1});
      for (int step = 0; step < 5; ++step) {
        double loss = 0; // of the old values
        for (size_t i = 0; i < 4; ++i) loss += a[i] * b[i] * b[i] + a[i] * a[i] * b[i];
        close(captured ? jit(rate) : body(rate), {loss}, 1e-12);
        for (size_t i = 0; i < 4; ++i) {
          double ga = b[i] * b[i] + 2 * a[i] * b[i], gb = 2 * a[i] * b[i] + a[i] * a[i];
          a[i] -= 0.1 * ga, b[i] -= 0.1 * gb;
        }
        close(p1, a, 1e-12), close(p2, b, 1e-12);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(sgd_writes_all_parameters_of_two_layers_in_one_realize) {
  three_steps(
      [](Tensors& p, Tensors&, const Tensors& g) {
        for (size_t i = 0; i < p.size(); ++i) p[i].assign(p[i] - g[i] * 0.5);
      },
      [](V& p, V*, const V& g) {
        for (size_t i = 0; i < p.size(); ++i) p[i] -= 0.5 * g[i];
      },
      0);
}

// A step whose parameters are written from the new moments, and moments from the old parameters too.
BOOST_AUTO_TEST_CASE(adam_writes_parameters_and_moments_in_one_realize) {
  constexpr double kFirst = 0.9, kSecond = 0.99, kRate = 0.05, kDecay = 0.01, kEps = 1e-3;
  three_steps(
      [](Tensors& p, Tensors& s, const Tensors& g) {
        for (size_t i = 0; i < p.size(); ++i) {
          Tensor &m = s[2 * i], &v = s[2 * i + 1];
          Tensor with_decay = g[i] + p[i] * kDecay;
          m.assign(m * kFirst + with_decay * (1 - kFirst));
          v.assign(v * kSecond + with_decay.square() * (1 - kSecond));
          p[i].assign(p[i] - m / (v.sqrt() + kEps) * kRate);
        }
      },
      [](V& p, V* s, const V& g) {
        for (size_t i = 0; i < p.size(); ++i) {
          double d = g[i] + kDecay * p[i];
          s[0][i] = s[0][i] * kFirst + d * (1 - kFirst);
          s[1][i] = s[1][i] * kSecond + d * d * (1 - kSecond);
          p[i] -= s[0][i] / (std::sqrt(s[1][i]) + kEps) * kRate;
        }
      },
      2);
}
