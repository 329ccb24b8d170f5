#include "tolk/io/compare.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "tolk/base/text.h"

namespace tolk::io {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Comparison different(std::string reason) {
  Comparison c;
  c.equal = false;
  c.reason = std::move(reason);
  return c;
}

// The first reason why two tensors cannot be compared element by element; empty when there is none.
std::string type_difference(const HostTensor& actual, const HostTensor& expected) {
  if (actual.dtype != expected.dtype)
    return fmt::format("the type is {}, expected {}", type_name(actual), type_name(expected));
  if (actual.shape != expected.shape)
    return fmt::format("the shape is {}, expected {}", shape_text(actual.shape), shape_text(expected.shape));
  return {};
}

void note_worst(Comparison& c, const HostTensor& actual, const HostTensor& expected, uint64_t flat,
                double difference, double allowed) {
  c.where = multi_index(expected.shape, flat);
  c.expected = element_text(expected, flat);
  c.actual = element_text(actual, flat);
  c.difference = difference;
  c.allowed = allowed;
}

void compare_floats(Comparison& c, const HostTensor& actual, const HostTensor& expected, const Tolerance& t) {
  double worst = -1;
  uint64_t at = 0;
  double worst_difference = 0, worst_allowed = 0;
  for (uint64_t i = 0; i < c.count; ++i) {
    double a = element_double(actual, i), e = element_double(expected, i);
    double allowed = t.atol + t.rtol * std::fabs(e);
    double difference = 0;
    if (std::isnan(a) || std::isnan(e)) {
      difference = std::isnan(a) && std::isnan(e) ? 0 : kInfinity;
      allowed = t.atol;
    } else if (std::isinf(a) || std::isinf(e)) {
      difference = a == e ? 0 : kInfinity;
      allowed = t.atol;
    } else {
      difference = std::fabs(a - e);
    }
    if (!(difference <= allowed)) ++c.mismatches;
    double excess = allowed > 0 ? difference / allowed : (difference > 0 ? kInfinity : 0);
    if (excess > worst) {
      worst = excess;
      at = i;
      worst_difference = difference;
      worst_allowed = allowed;
    }
  }
  if (c.count > 0) note_worst(c, actual, expected, at, worst_difference, worst_allowed);
}

void compare_exact(Comparison& c, const HostTensor& actual, const HostTensor& expected) {
  double worst = -1;
  uint64_t at = 0;
  for (uint64_t i = 0; i < c.count; ++i) {
    double difference = 0;
    if (actual.is_string()) {
      difference = actual.strings[i] == expected.strings[i] ? 0 : 1;
    } else {
      __int128 d = element_int(actual, i) - element_int(expected, i);
      difference = static_cast<double>(d < 0 ? -d : d);
    }
    if (difference != 0) ++c.mismatches;
    if (difference > worst) {
      worst = difference;
      at = i;
    }
  }
  if (c.count > 0) note_worst(c, actual, expected, at, worst, 0);
}

Comparison compare_tensors(const HostTensor& actual, const HostTensor& expected, const Tolerance* tolerance) {
  std::string reason = type_difference(actual, expected);
  if (!reason.empty()) return different(std::move(reason));
  Comparison c;
  c.count = expected.count();
  if (!tolerance) return c;
  if (is_float(expected.dtype))
    compare_floats(c, actual, expected, *tolerance);
  else
    compare_exact(c, actual, expected);
  c.equal = c.mismatches == 0;
  return c;
}

const Value* held(const Value& value) {
  const Value* v = &value;
  while (v->kind == ValueKind::Optional && !v->items.empty()) v = &v->items.front();
  return v;
}

// How far a comparison exceeds its tolerance, to find the worst item of a sequence.
double badness(const Comparison& c) {
  if (!c.reason.empty()) return kInfinity;
  return c.allowed > 0 ? c.difference / c.allowed : c.difference;
}

Comparison compare_values(const Value& actual_value, const Value& expected_value,
                          const Tolerance* tolerance) {
  const Value& actual = *held(actual_value);
  const Value& expected = *held(expected_value);
  if (actual.kind != expected.kind)
    return different(fmt::format("the value is {}, expected {}", type_text(actual), type_text(expected)));
  if (expected.kind == ValueKind::Tensor) return compare_tensors(actual.tensor, expected.tensor, tolerance);
  if (actual.items.size() != expected.items.size())
    return different(fmt::format("the value is {}, expected {}", type_text(actual), type_text(expected)));

  Comparison total;
  uint64_t count = 0, mismatches = 0;
  bool equal = true;
  double worst = -1;
  for (size_t i = 0; i < expected.items.size(); ++i) {
    Comparison c = compare_values(actual.items[i], expected.items[i], tolerance);
    count += c.count;
    mismatches += c.mismatches;
    bool worse = (equal && !c.equal) || (equal == c.equal && badness(c) > worst);
    equal = equal && c.equal;
    if (!worse) continue;
    worst = badness(c);
    c.item = fmt::format("[{}]{}", i, c.item);
    total = std::move(c);
  }
  total.equal = equal;
  total.count = count;
  total.mismatches = mismatches;
  return total;
}

} // namespace

Comparison compare(const HostTensor& actual, const HostTensor& expected, const Tolerance& tolerance) {
  return compare_tensors(actual, expected, &tolerance);
}

Comparison compare(const Value& actual, const Value& expected, const Tolerance& tolerance) {
  return compare_values(actual, expected, &tolerance);
}

Comparison compare_type(const Value& actual, const Value& expected) {
  return compare_values(actual, expected, nullptr);
}

std::string comparison_text(const Comparison& c) {
  std::string item = c.item.empty() ? "" : fmt::format("item {}: ", c.item);
  if (!c.reason.empty()) return item + c.reason;
  if (c.count == 0) return "equal, no elements";
  std::string at = fmt::format("{}at {}", item, shape_text(c.where));
  if (c.equal && c.difference == 0) return "equal, " + counted(c.count, "element");
  if (c.equal)
    return fmt::format("equal, worst difference {:.3g} {} (allowed {:.3g})", c.difference, at, c.allowed);
  return fmt::format("{} of {} {}, worst {}: {}, expected {}, difference {:.3g}, allowed {:.3g}",
                     c.mismatches, counted(c.count, "element"), c.mismatches == 1 ? "differs" : "differ", at,
                     c.actual, c.expected, c.difference, c.allowed);
}

} // namespace tolk::io
