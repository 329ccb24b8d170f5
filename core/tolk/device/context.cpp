#include "tolk/device/context.h"

#include <set>

namespace tolk {

OptimizeContextRef empty_optimize_context() { return std::make_shared<OptimizeContext>(); }

DeviceContextRef make_context(Device& device, CtxBuffers buffers, OptimizeContextRef optimize) {
  return DeviceContextRef(
      new DeviceContext(device, nullptr, std::move(buffers), std::move(optimize), std::nullopt));
}

DeviceContextRef DeviceContext::make_child(Changes changes) const {
  return DeviceContextRef(new DeviceContext(device_, shared_from_this(),
                                            changes.buffers ? std::move(*changes.buffers) : buffers_,
                                            changes.optimize ? std::move(*changes.optimize) : optimize_,
                                            changes.merge_node ? *changes.merge_node : merge_));
}

DeviceContext::~DeviceContext() {
  if (!device_.alive()) return; // its pools went with it
  std::set<int32_t> theirs{kMergePoolId}, freed;
  if (parent_)
    for (const auto& [node, loc] : parent_->buffers_) theirs.insert(loc.pool_id);
  PoolTable& pools = device_.pools();
  for (const auto& [node, loc] : buffers_) {
    if (theirs.contains(loc.pool_id) || !freed.insert(loc.pool_id).second) continue;
    if (pools.has(loc.pool_id) && pools.is_own(loc.pool_id)) pools.free_pool(loc.pool_id);
  }
}

std::string describe(const BufferLoc& loc) {
  return "pool " + std::to_string(loc.pool_id) + " + " + std::to_string(loc.offset);
}

std::string describe(const OptimizeContext& context) {
  if (context.notes.empty()) return "optimize context, empty";
  std::string text = "optimize context:";
  for (const auto& [key, value] : context.notes) text += " " + key + "=" + value;
  return text;
}

std::string describe(const DeviceContext& context) {
  size_t depth = 0;
  for (const DeviceContext* at = context.parent().get(); at; at = at->parent().get()) depth++;
  std::string text = "context of " + context.device().get_name() + ", depth " + std::to_string(depth) + ", " +
                     std::to_string(context.buffers().size()) + " nodes";
  if (context.merge_buffer_node()) text += ", merged node " + std::to_string(*context.merge_buffer_node());
  for (const auto& [node, loc] : context.buffers())
    text += "; " + std::to_string(node) + ": " + describe(loc);
  return text;
}

} // namespace tolk
