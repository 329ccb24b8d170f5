// Which earlier operations one must wait for, from the bytes that it reads and writes.
//
//   DepsTracker tracker;
//   std::vector<DepsTracker::Access> all{{base, 0, 12, true}}, part{{base, 4, 8, true}};
//   std::vector<DepsTracker::Access> rest{{base, 0, 4, false}};
//   tracker.access(all, 0);  // {}
//   tracker.access(part, 1); // {0}
//   tracker.access(rest, 2); // {0}: the bytes that 1 did not write
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/device/buffer.h"

namespace tolk::engine {

// Ranges are those of views: temporaries share one arena, and those whose bytes are apart are independent.
class TOLK_API DepsTracker {
public:
  struct Access {
    uint64_t base;       // which storage: Buffer::base_id
    uint64_t begin, end; // bytes; an empty range is no access
    bool written;
  };
  static Access access_of(const Buffer& buffer, bool written) {
    return {buffer.base_id(), buffer.offset(), buffer.offset() + buffer.bytes(), written};
  }

  // Notes all accesses of the operation `token` and gives the tokens that it must wait for, ascending, each
  // once. Waiting for these is enough: what they waited for themselves is done by then.
  std::vector<uint32_t> access(std::span<const Access> accesses, uint32_t token);

private:
  struct Entry {
    uint64_t begin, end;
    uint32_t token;
  };
  struct Storage {
    std::vector<Entry> writes; // disjoint: a later write takes the bytes over
    std::vector<Entry> reads;  // since the last write of their bytes
  };
  static void cut(std::vector<Entry>& entries, uint64_t begin, uint64_t end);
  std::unordered_map<uint64_t, Storage> storages_;
};

} // namespace tolk::engine
