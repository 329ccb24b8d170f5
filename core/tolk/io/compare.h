// Compares results with expected values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/io/host_tensor.h"
#include "tolk/io/value.h"

namespace tolk::io {

// A float element passes when |actual - expected| <= atol + rtol * |expected|. NaN equals NaN, infinities
// equal themselves. Integers, bools and strings must be equal. Types and shapes must be equal.
struct Tolerance {
  double rtol = 1e-3, atol = 1e-7; // the defaults of the ONNX project's backend tests
};

struct Comparison {
  bool equal = true;
  std::string reason;                 // mismatch of types, shapes or kinds; empty if only elements differ
  uint64_t count = 0, mismatches = 0; // elements compared and found different
  // The worst element: the one whose difference is largest relative to its tolerance.
  std::vector<int64_t> where;
  std::string expected, actual; // its values, printed
  double difference = 0, allowed = 0;
  std::string item; // "[2]" when the worst element is in item 2 of a sequence
};

TOLK_API Comparison compare(const HostTensor& actual, const HostTensor& expected, const Tolerance& tolerance);
// Compares sequences item by item; an optional equals the value it contains.
TOLK_API Comparison compare(const Value& actual, const Value& expected, const Tolerance& tolerance);
// Compares only types, shapes and kinds, for random results.
TOLK_API Comparison compare_type(const Value& actual, const Value& expected);

// One line: "equal, worst difference 1e-06 at [0,3] (allowed 1e-03)" or what differs, where, and the allowed
// difference.
TOLK_API std::string comparison_text(const Comparison& comparison);

} // namespace tolk::io
