// Storage of a value: a buffer on one device, or one shard of equal size on each of several devices.
#pragma once

#include <span>
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
// The buffers, by device position. Valid as long as `buffer`, which has a value.
inline std::span<const BufferRef> shards(const AnyBuffer& buffer) {
  if (const auto* single = std::get_if<BufferRef>(&buffer)) return {single, 1};
  return std::get<MultiBufferRef>(buffer)->shards();
}
std::span<const BufferRef> shards(const AnyBuffer&& buffer) = delete;
// `count` elements of every buffer, from a byte offset on.
inline AnyBuffer view_of(const AnyBuffer& buffer, DType dtype, uint64_t count, uint64_t offset) {
  if (is_multi(buffer)) return std::get<MultiBufferRef>(buffer)->view(dtype, count, offset);
  return view_buffer(std::get<BufferRef>(buffer), dtype, count, offset);
}

} // namespace tolk::engine
