#include "tolk/io/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tolk::io {

Summary summarize(const HostTensor& tensor, size_t first) {
  Summary s;
  uint64_t count = tensor.count();
  for (uint64_t i = 0; i < std::min<uint64_t>(count, first); ++i) s.first.push_back(element_text(tensor, i));
  if (tensor.is_string()) return s;
  double sum = 0;
  for (uint64_t i = 0; i < count; ++i) {
    double v = element_double(tensor, i);
    if (std::isnan(v)) {
      ++s.nan;
    } else if (std::isinf(v)) {
      ++s.infinite;
    } else {
      s.min = s.finite ? std::min(s.min, v) : v;
      s.max = s.finite ? std::max(s.max, v) : v;
      sum += v;
      ++s.finite;
    }
  }
  if (s.finite) s.mean = sum / static_cast<double>(s.finite);
  return s;
}

std::string summary_text(const HostTensor& tensor, size_t first) {
  uint64_t count = tensor.count();
  if (count == 0) return "no elements";
  Summary s = summarize(tensor, first);
  std::string values = fmt::format("{}{}", fmt::join(s.first, " "), count > s.first.size() ? " ..." : "");
  if (tensor.is_string() || count == 1) return values;
  std::string text = s.finite ? fmt::format("min {:.6g}  max {:.6g}  mean {:.6g}", s.min, s.max, s.mean)
                              : std::string("no finite values");
  if (s.nan) text += fmt::format("  NaN {}", s.nan);
  if (s.infinite) text += fmt::format("  inf {}", s.infinite);
  return text + "  first " + values;
}

std::string summary_text(const Value& value, size_t first) {
  if (value.kind == ValueKind::Tensor) return summary_text(value.tensor, first);
  if (value.items.empty()) return value.kind == ValueKind::Optional ? "nothing" : "no items";
  if (value.kind == ValueKind::Optional) return summary_text(value.items.front(), first);
  std::string text;
  if (value.kind == ValueKind::Map) {
    const HostTensor &keys = value.items.at(0).tensor, &values = value.items.at(1).tensor;
    for (uint64_t i = 0; i < std::min<uint64_t>(keys.count(), first); ++i)
      text += fmt::format("{}{}: {}", i ? "  " : "", element_text(keys, i), element_text(values, i));
    return text + (keys.count() > first ? "  ..." : "");
  }
  for (size_t i = 0; i < value.items.size(); ++i)
    text += fmt::format("{}[{}] {}  {}", i ? "\n" : "", i, type_text(value.items[i]),
                        summary_text(value.items[i], first));
  return text;
}

} // namespace tolk::io
