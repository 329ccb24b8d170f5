// Bytes of device storage, and whether two uses of them depend on the order in which they run. Everything
// that looks for overlapping arguments before a run asks here: captured functions, kernels that were compiled
// for arguments that are apart, recorded graphs.
#pragma once

#include <cstdint>

#include "tolk/engine/run/any_buffer.h"

namespace tolk::engine {

struct StorageRange {
  uint64_t base = 0;           // Buffer::base_id
  uint64_t begin = 0, end = 0; // bytes; an empty range overlaps nothing
  bool overlaps(const StorageRange& r) const { return base == r.base && begin < r.end && r.begin < end; }
  bool operator==(const StorageRange&) const = default;
};
inline StorageRange range_of(const Buffer& buffer) {
  return {buffer.base_id(), buffer.offset(), buffer.offset() + buffer.bytes()};
}

// What an operation does with a range.
struct StorageUse {
  StorageRange range;
  bool written = false;
};
inline StorageUse use_of(const Buffer& buffer, bool written) { return {range_of(buffer), written}; }

// Whether the order of two operations matters: they share bytes and one of them writes.
inline bool conflict(const StorageUse& a, const StorageUse& b) {
  return (a.written || b.written) && a.range.overlaps(b.range);
}
// Whether any shards of two values share bytes.
inline bool overlap(const AnyBuffer& a, const AnyBuffer& b) {
  for (const BufferRef& x : shards(a))
    for (const BufferRef& y : shards(b))
      if (range_of(*x).overlaps(range_of(*y))) return true;
  return false;
}

} // namespace tolk::engine
