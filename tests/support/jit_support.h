// Shorthands of the JIT's tests: settings for a scope, what is printed, plain arithmetic to compare with.
#pragma once

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "captured_stderr.h"
#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/engine/capture/capture_scope.h"
#include "tolk/engine/capture/function.h"
#include "tolk/tensor/tensor.h"

namespace jit_test {

using Floats = std::vector<float>;

// Other settings until the end of the scope: Settings quiet([](Config& c) { c.jit = 0; });
class Settings {
public:
  explicit Settings(const std::function<void(tolk::Config&)>& change) : scope_(changed(change)) {}

private:
  static tolk::Config changed(const std::function<void(tolk::Config&)>& change) {
    tolk::Config config = tolk::Config::current();
    change(config);
    return config;
  }
  tolk::ScopedConfig scope_;
};

using tolk::test::captured_stderr;

// The message of the error that the body throws; empty when it throws none.
template <class E> std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const E& e) {
    return e.what();
  }
  return {};
}
inline bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

inline Floats random_floats(size_t n) {
  static std::mt19937 generator(12345);
  std::uniform_real_distribution<float> draw(-1, 1);
  Floats out(n);
  for (float& v : out) v = draw(generator);
  return out;
}
inline Floats ramp(size_t n, float first = 0) {
  Floats out(n);
  for (size_t i = 0; i < n; ++i) out[i] = first + float(i);
  return out;
}
template <class F> Floats mapped(const Floats& a, const Floats& b, F f) {
  Floats out(a.size());
  for (size_t i = 0; i < a.size(); ++i) out[i] = f(a[i], b[i]);
  return out;
}
inline Floats plus(const Floats& a, const Floats& b) {
  return mapped(a, b, [](float x, float y) { return x + y; });
}

inline bool near(const Floats& got, const Floats& want) {
  if (got.size() != want.size()) return false;
  for (size_t i = 0; i < got.size(); ++i)
    if (!(std::abs(got[i] - want[i]) <= 1e-5f + 1e-4f * std::abs(want[i]))) return false;
  return true;
}

inline tolk::Tensor tensor(const Floats& values, const tolk::Shape& shape) {
  return tolk::Tensor::from(values, shape).realize();
}
inline tolk::Tensor tensor(const Floats& values) { return tensor(values, {int64_t(values.size())}); }

} // namespace jit_test
