#include "tolk/io/value.h"

#include <fmt/format.h>

namespace tolk::io {

std::string type_text(const Value& value) {
  switch (value.kind) {
  case ValueKind::Tensor:
    return type_text(value.tensor);
  case ValueKind::Sequence:
    return fmt::format("sequence of {}", value.items.size());
  case ValueKind::Optional:
    return value.items.empty() ? "nothing" : "optional " + type_text(value.items.front());
  case ValueKind::Map:
    return fmt::format("map of {}", value.items.at(0).tensor.count());
  }
  return "?";
}

} // namespace tolk::io
