// Storage on one or several devices, for the files of this folder.
#pragma once

#include <vector>

#include "tolk/engine/run/binding.h"

namespace tolk::engine {

inline void seed_any(BufferBinding& binding, const UOp& node, const AnyBuffer& buffer) {
  if (const auto* single = std::get_if<BufferRef>(&buffer))
    binding.seed(node, *single);
  else
    binding.seed_multi(node, std::get<MultiBufferRef>(buffer));
}

// The buffers of all positions.
inline std::vector<BufferRef> shards_of(const AnyBuffer& buffer) {
  if (const auto* single = std::get_if<BufferRef>(&buffer)) return {*single};
  return std::get<MultiBufferRef>(buffer)->shards();
}

} // namespace tolk::engine
