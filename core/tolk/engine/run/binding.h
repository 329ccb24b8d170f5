// Which storage the nodes of a LINEAR stand for. The graph holds no pointers: one compiled LINEAR can run
// against different storage by running it with different bindings.
//
// A BUFFER with a user slot (>= 0) has its device Buffer at the node itself (engine/run/node_storage.h). A BUFFER with
// an internal slot (< 0) belongs to the binding that runs it: made here at first use, freed with the binding.
// `seed` precedes both. Inputs of a run (PARAMs) never touch a binding.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/engine/run/any_buffer.h"
#include "tolk/uop/uop.h"

namespace tolk::engine {

class GraphCall;
class PreparedLinears;

// One thread at a time. Holds strong handles of its nodes and buffers.
class TOLK_API BufferBinding {
public:
  // `ambient` is where storage is made for nodes that name no device.
  explicit BufferBinding(Device& ambient);
  ~BufferBinding(); // prepared forms and graph calls go first, then the buffers
  BufferBinding(const BufferBinding&) = delete;
  BufferBinding& operator=(const BufferBinding&) = delete;
  Device& ambient() const { return ambient_; }

  // The node stands for this buffer from now on, whatever its op and also when it was resolved before.
  void seed(const UOp& node, BufferRef buffer);
  void seed_multi(const UOp& node, MultiBufferRef buffer);
  bool seeded(const UOp& node) const;
  // Forgets the node: what was seeded, and what was made here.
  void remove(const UOp& node);
  // Whether the binding knows the node, seeded or made here.
  bool mem(const UOp& node) const { return find_buffer(node) != nullptr; }
  // Null when it is not known; makes nothing. Valid until the next change.
  const AnyBuffer* find_buffer(const UOp& node) const;
  // The same, null when absent; throws InvalidArgument "node is bound to a multi-device buffer".
  BufferRef find_opt(const UOp& node) const;
  // The storage of a BUFFER node: what the binding knows, else the node's own (user slots), else a fresh one,
  // not allocated, which the binding keeps. Throws InvalidArgument for another op, DeviceError when the
  // device cannot be opened.
  AnyBuffer buffer_of_node(const UOp& node);
  // The same; throws InvalidArgument "names a multi-device buffer in a single-device context".
  BufferRef of_buffer_node(const UOp& node);
  // Every node that the binding knows, in the order in which they came.
  void iter(const std::function<void(const UOp&, const AnyBuffer&)>& visit) const;
  // Forgets everything, prepared forms and graph calls too.
  void clear();
  // Goes up with every seed, remove and clear: what was resolved before may be stale then.
  uint64_t epoch() const { return epoch_; }

  // Drops the prepared forms of LINEARs and the graph calls, for example before storage is released; the
  // next run prepares and records anew.
  void drop_prepared();
  // TOLK_TEST_POISON: fills those of `nodes` that were made here and are allocated with 0xA5, so that a run
  // that reads what an earlier one left is found out. run_linear does it with the arenas after a run.
  void poison(std::span<const UOp> nodes);

  // --- for this layer ---
  // Binds a node that has no storage yet; false when it has some. The epoch stays: nobody can have resolved
  // it.
  bool adopt(const UOp& node, BufferRef buffer);
  // Resolved views that reach no PARAM, for the present epoch (engine/run/resolve.cpp).
  std::unordered_map<UOp, AnyBuffer, UOpHash>& views();
  PreparedLinears& prepared(); // engine/run/prepared.h
  // Replayed batches by their CALL node (engine/graph/graph_call.h).
  std::unordered_map<UOp, std::unique_ptr<GraphCall>, UOpHash>& graph_calls() { return graph_calls_; }

private:
  struct Entry {
    UOp node;
    AnyBuffer buffer;
    bool seeded, made;
  };
  void put(const UOp& node, AnyBuffer buffer, bool seeded, bool made);
  void changed();

  Device& ambient_;
  std::vector<Entry> entries_;
  std::unordered_map<const UOpNode*, size_t> index_; // entries_ holds the nodes
  std::unordered_map<UOp, AnyBuffer, UOpHash> views_;
  uint64_t epoch_ = 0;
  std::unordered_map<UOp, std::unique_ptr<GraphCall>, UOpHash> graph_calls_;
  std::unique_ptr<PreparedLinears> prepared_;
};

} // namespace tolk::engine
