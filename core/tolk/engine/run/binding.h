// The buffer table of a run: which device buffers the nodes of a LINEAR stand for. Graphs hold no pointers,
// so one compiled LINEAR runs on other storage by running with another binding.
//
// A BUFFER with a user slot (>= 0) has its device Buffer attached to the node (engine/run/node_storage.h). A
// BUFFER with an internal slot (< 0) belongs to the binding that runs it: created here at first use, freed
// with the binding. Seeds override both. Inputs of a run (PARAMs) are never entered.
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

// State that run_linear keeps between runs in a binding; opaque here (engine/run/prepared.h).
struct RunState {
  virtual ~RunState();
};

// One thread at a time. Holds strong handles of its nodes and buffers.
class TOLK_API BufferBinding {
public:
  // `ambient` is the device of nodes that name none.
  explicit BufferBinding(Device& ambient);
  ~BufferBinding(); // drops the run state first, then the buffers
  BufferBinding(const BufferBinding&) = delete;
  BufferBinding& operator=(const BufferBinding&) = delete;
  Device& ambient() const { return ambient_; }

  // Enters storage for the node, of any op, in place of what the node was resolved to before.
  void seed(const UOp& node, AnyBuffer buffer);
  // Removes the node's entry, seeded or created here.
  void remove(const UOp& node);
  // Whether the node has an entry, seeded or created here.
  bool mem(const UOp& node) const { return find_buffer(node) != nullptr; }
  // The entry of the node, null when it has none; creates nothing. Valid until the next change.
  const AnyBuffer* find_buffer(const UOp& node) const;
  // The storage of a BUFFER node: its entry, else the buffer attached to the node (user slots), else a new
  // one, not allocated, which is entered. Throws InvalidArgument for another op, DeviceError when the device
  // cannot be opened.
  AnyBuffer buffer_of_node(const UOp& node);
  // Calls `visit` for every entry, in the order of entry.
  void iter(const std::function<void(const UOp&, const AnyBuffer&)>& visit) const;
  // Removes all entries and the run state.
  void clear();
  // Incremented by every seed, remove and clear: what was resolved before may be stale.
  uint64_t epoch() const { return epoch_; }

  // Drops the run state, for example before storage is released: the next run prepares and records again.
  void drop_prepared();
  // Fills those of `nodes` that were created here and are allocated with 0xA5 (TestSwitches::poison).
  void poison(std::span<const UOp> nodes);

  // --- for this layer ---
  // Enters a buffer for a BUFFER node that has none yet; false when it has one. The epoch stays: nothing can
  // have resolved the node.
  bool adopt(const UOp& node, BufferRef buffer);
  // Resolved views that reach no PARAM, at the present epoch (engine/run/resolve.cpp).
  std::unordered_map<UOp, AnyBuffer, UOpHash>& views() { return views_; }
  std::unique_ptr<RunState>& run_state() { return run_state_; }

private:
  struct Entry {
    UOp node;
    AnyBuffer buffer;
    bool made; // here, not by seed()
  };
  void put(const UOp& node, AnyBuffer buffer, bool made);
  void changed();

  Device& ambient_;
  std::vector<Entry> entries_;
  std::unordered_map<const UOpNode*, size_t> index_; // entries_ holds the nodes
  std::unordered_map<UOp, AnyBuffer, UOpHash> views_;
  uint64_t epoch_ = 0;
  std::unique_ptr<RunState> run_state_;
};

} // namespace tolk::engine
