// Where the values of a program lie on a device, by node: an immutable chain of contexts, each adding to its parent's.
//
//   auto root = make_context(d, {{1, {pool, 0}}});
//   auto child = root->make_child({.buffers = more});     // what is omitted is inherited
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "tolk/base/api.h"
#include "tolk/device/device.h"
#include "tolk/device/pools.h"

namespace tolk {

using NodeId = uint64_t;
using CtxBuffers = std::map<NodeId, BufferLoc>;

// What was learnt while kernels were optimised for a context, by key, so that tuning can find it again.
struct OptimizeContext {
  std::map<std::string, std::string> notes;
};
using OptimizeContextRef = std::shared_ptr<OptimizeContext>;
TOLK_API OptimizeContextRef empty_optimize_context(); // a fresh one each time

class DeviceContext;
using DeviceContextRef = std::shared_ptr<const DeviceContext>;

// A context owns the pools that it names and its parent does not, except the merge pool: each is freed once, when the
// context goes, however many nodes lie in it. Any thread.
class TOLK_API DeviceContext : public std::enable_shared_from_this<DeviceContext> {
public:
  Device& device() const { return device_; }
  const DeviceContextRef& parent() const { return parent_; } // null for a root
  const CtxBuffers& buffers() const { return buffers_; }
  const OptimizeContextRef& optimize_context() const { return optimize_; }
  // The node whose value is in the merge pool.
  std::optional<NodeId> merge_buffer_node() const { return merge_; }

  struct Changes {
    std::optional<CtxBuffers> buffers = {};
    std::optional<OptimizeContextRef> optimize = {};
    std::optional<std::optional<NodeId>> merge_node = {}; // an inner nullopt: none
  };
  DeviceContextRef make_child(Changes changes) const;

  ~DeviceContext();
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

private:
  friend DeviceContextRef make_context(Device&, CtxBuffers, OptimizeContextRef);
  DeviceContext(Device& device, DeviceContextRef parent, CtxBuffers buffers, OptimizeContextRef optimize,
                std::optional<NodeId> merge)
      : device_(device), parent_(std::move(parent)), buffers_(std::move(buffers)),
        optimize_(std::move(optimize)), merge_(merge) {}

  Device& device_;
  DeviceContextRef parent_;
  CtxBuffers buffers_;
  OptimizeContextRef optimize_;
  std::optional<NodeId> merge_;
};

TOLK_API DeviceContextRef make_context(Device& device, CtxBuffers buffers = {},
                                       OptimizeContextRef optimize = empty_optimize_context());

TOLK_API std::string describe(const DeviceContext& context);
TOLK_API std::string describe(const OptimizeContext& context);
TOLK_API std::string describe(const BufferLoc& loc);

} // namespace tolk
