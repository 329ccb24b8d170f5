// Summary statistics of a tensor's elements.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/io/value.h"

namespace tolk::io {

struct Summary {
  double min = 0, max = 0, mean = 0; // over the finite elements; all 0 when there are none
  uint64_t finite = 0, nan = 0, infinite = 0;
  std::vector<std::string> first; // the first elements as text
};

// Strings have only `first`.
TOLK_API Summary summarize(const HostTensor& tensor, size_t first = 5);

// "min -0.5  max 1.25  mean 0.1  first 0.1 0.2 0.3 ..."; NaN and infinities are counted when there are any.
TOLK_API std::string summary_text(const HostTensor& tensor, size_t first = 5);
// For a sequence: one text per item, on lines of their own.
TOLK_API std::string summary_text(const Value& value, size_t first = 5);

} // namespace tolk::io
