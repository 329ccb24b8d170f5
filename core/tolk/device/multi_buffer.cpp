#include "tolk/device/multi_buffer.h"

#include "tolk/base/error.h"

namespace tolk {

MultiBufferRef MultiBuffer::of_bufs(std::vector<BufferRef> shards) {
  if (shards.empty()) throw InvalidArgument("a multi buffer requires at least one device");
  for (const BufferRef& shard : shards)
    if (shard->count() != shards[0]->count() || shard->dtype() != shards[0]->dtype())
      throw InvalidArgument("a multi buffer requires matching sizes and dtypes; position 0 has " +
                            std::to_string(shards[0]->count()) + " x " + name(shards[0]->dtype()) +
                            ", another " + std::to_string(shard->count()) + " x " + name(shard->dtype()));
  return MultiBufferRef(new MultiBuffer(std::move(shards)));
}

MultiBufferRef MultiBuffer::view(DType dtype, uint64_t count, uint64_t byte_offset) const {
  std::vector<BufferRef> views;
  for (const BufferRef& shard : shards_) views.push_back(view_buffer(shard, dtype, count, byte_offset));
  return of_bufs(std::move(views));
}

void MultiBuffer::add_ref(int n) const {
  for (const BufferRef& shard : shards_) shard->add_ref(n);
}

} // namespace tolk
