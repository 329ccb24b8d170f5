// Rebuilding expressions with some nodes replaced, many times in one arena: tables are kept and told apart by
// generation.
#pragma once

#include <cstdint>
#include <vector>

#include "tolk/uop/arena.h"
#include "tolk/uop/uop.h"

namespace tolk::schedule {

class Rebuilder {
public:
  // Forgets earlier results: `enter` may answer differently from now on.
  void start() { ++generation_; }

  // `root` with every node for which `enter(node)` returns a node replaced by it. Nodes are entered once a
  // generation, users before sources, sources left to right. Nodes with neither loops, loads nor variables
  // below stay as they are, unseen, except storage.
  template <typename Enter> UOp run(const UOp& root, Enter enter) {
    return run(root, enter, [](UOp u) { return u; });
  }
  // `leave` sees every node whose sources changed, rebuilt, and may replace it.
  template <typename Enter, typename Leave> UOp run(const UOp& root, Enter enter, Leave leave) {
    if (skipped(root)) return root;
    std::vector<Frame> stack;
    auto push = [&](const UOp& u) {
      if (skipped(u) || known(u)) return;
      if (UOp other = enter(u))
        set(u, std::move(other));
      else
        stack.push_back({u, 0});
    };
    push(root);
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.next < top.node.nsrc()) {
        push(top.node.src(top.next++)); // `top` is invalid from here on
        continue;
      }
      UOp node = top.node;
      stack.pop_back();
      if (known(node)) continue;
      bool changed = false;
      src_.clear();
      for (const UOp& s : node.src()) {
        src_.push_back(result(s));
        changed |= src_.back() != s;
      }
      set(node, changed ? leave(with_sources(node, src_)) : node);
    }
    return result(root);
  }

private:
  struct Frame {
    UOp node;
    uint32_t next;
  };
  struct Slot {
    uint32_t generation = 0;
    UOp node;
  };
  static bool skipped(const UOp& u) {
    return !u.has(kHasRange) && !u.has(kHasLoad) && !u.has(kHasVar) && !u.is(ops::Storage);
  }
  bool known(const UOp& u) const {
    return u.id() < slots_.size() && slots_[u.id()].generation == generation_;
  }
  UOp result(const UOp& u) const { return skipped(u) ? u : slots_[u.id()].node; }
  void set(const UOp& u, UOp value) {
    if (u.id() >= slots_.size()) slots_.resize(current_arena()->size() + current_arena()->size() / 2 + 1);
    slots_[u.id()] = {generation_, std::move(value)};
  }

  uint32_t generation_ = 0;
  std::vector<Slot> slots_;
  std::vector<UOp> src_;
};

} // namespace tolk::schedule
