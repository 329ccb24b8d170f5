// One logical buffer on an ordered list of devices: one Buffer, the shard, for each position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/device/buffer.h"

namespace tolk {

class MultiBuffer;
using MultiBufferRef = std::shared_ptr<const MultiBuffer>;

// Immutable; shards never change their order and agree in element count and dtype, so that whatever is done
// for each device can be done position by position. A device may occur twice.
class TOLK_API MultiBuffer {
public:
  // Throws InvalidArgument for an empty list, and "multi buffer requires matching sizes and dtypes".
  static MultiBufferRef of_bufs(std::vector<BufferRef> shards);
  // The same view of every shard; throws what view_buffer throws.
  MultiBufferRef view(DType dtype, uint64_t count, uint64_t byte_offset) const;

  const std::vector<BufferRef>& shards() const { return shards_; }
  const BufferRef& shard(size_t position) const { return shards_[position]; }
  size_t positions() const { return shards_.size(); }
  DType dtype() const { return shards_[0]->dtype(); }
  uint64_t count() const { return shards_[0]->count(); } // elements of one shard
  uint64_t bytes() const { return shards_[0]->bytes(); } // of one shard
  void add_ref(int n) const;                             // Buffer::add_ref of every shard

private:
  explicit MultiBuffer(std::vector<BufferRef> shards) : shards_(std::move(shards)) {}
  std::vector<BufferRef> shards_;
};

} // namespace tolk
