// Storage of a value: on one device, or a shard of equal size on each of several.
#pragma once

#include <variant>

#include "tolk/device/buffer.h"
#include "tolk/device/multi_buffer.h"

namespace tolk::engine {

// Default-constructed: none.
using AnyBuffer = std::variant<BufferRef, MultiBufferRef>;
inline bool is_multi(const AnyBuffer& buffer) { return std::holds_alternative<MultiBufferRef>(buffer); }
inline bool has_value(const AnyBuffer& buffer) {
  return std::visit([](const auto& b) { return b != nullptr; }, buffer);
}

} // namespace tolk::engine
