// Unary float functions by the C library: the reference of the evaluators and sweeps.
#pragma once

#include <cmath>
#include <map>
#include <optional>
#include <string_view>

namespace tolk::test {

// The function that an Op or opcode of this name computes, at the precision of F. Nothing for other names.
template <class F> std::optional<F> float_function(std::string_view name, F x) {
  static const std::map<std::string_view, F (*)(F)> functions = {
      {"NEG", [](F a) { return -a; }},
      {"RECIPROCAL", [](F a) { return 1 / a; }},
      {"SQRT", [](F a) { return std::sqrt(a); }},
      {"TRUNC", [](F a) { return std::trunc(a); }},
      {"EXP2", [](F a) { return std::exp2(a); }},
      {"LOG2", [](F a) { return std::log2(a); }},
      {"SIN", [](F a) { return std::sin(a); }},
      {"EXP", [](F a) { return std::exp(a); }},
      {"LOG", [](F a) { return std::log(a); }},
      {"COS", [](F a) { return std::cos(a); }},
  };
  auto found = functions.find(name);
  return found == functions.end() ? std::nullopt : std::optional<F>(found->second(x));
}

} // namespace tolk::test
