// The buffer of a node that is on one device.
#pragma once

#include <variant>

#include "tolk/engine/run/resolve.h"

namespace tolk::test {

inline BufferRef resolve(engine::BufferBinding& binding, const engine::ExecContext& context,
                         const UOp& node) {
  return std::get<BufferRef>(engine::resolve_buffer(binding, context, node));
}

} // namespace tolk::test
