// Comparison of long lists: one assertion for each list, with the first difference in its message.
#pragma once

#include <sstream>

#include <boost/test/unit_test.hpp>

#include "harness.h"
#include "reference.h"

namespace tolk::test {

// Every argument list with every other, flattened: pairs(a, b) gives two lists of a.size() * b.size().
inline void cross(std::vector<uint64_t>& a, std::vector<uint64_t>& b) {
  std::vector<uint64_t> left, right;
  for (uint64_t x : a)
    for (uint64_t y : b) left.push_back(x), right.push_back(y);
  a = left, b = right;
}

// Repeats the last value until the length is a multiple of `lanes`.
inline void pad(std::vector<uint64_t>& values, size_t lanes) {
  while (values.size() % lanes != 0) values.push_back(values.back());
}

// `expected(i)` gives the raw result for position i; `same(got, want)` compares.
template <class Expected, class Same>
void check_all(const char* what, DType dtype, const std::vector<uint64_t>& got,
               const std::vector<Argument>& arguments, Expected expected, Same same) {
  size_t wrong = 0;
  std::ostringstream first;
  for (size_t i = 0; i < got.size(); i++) {
    uint64_t want = expected(i);
    if (same(got[i], want)) continue;
    if (wrong++ == 0) {
      first << std::hex << "(";
      for (const Argument& argument : arguments) first << " " << argument.values[i];
      first << " ) gave " << got[i] << ", expected " << want;
    }
  }
  BOOST_TEST(wrong == 0u, what << " " << name(dtype) << ": " << wrong << " of " << got.size()
                               << " wrong, first " << first.str());
}

} // namespace tolk::test
