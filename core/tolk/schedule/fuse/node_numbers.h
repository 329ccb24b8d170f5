// A map from nodes to numbers by node id, with open addressing: cheap to build and to clear.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tolk/base/hash.h"
#include "tolk/uop/uop.h"

namespace tolk::schedule {

// Holds no nodes: an id stays taken by a node for the life of the process or arena.
class NodeNumbers {
public:
  // The node's number, 0 when it is new. Valid until the next call of a function that is not const.
  uint32_t& operator[](const UOp& u) {
    if ((used_ + 1) * 2 > slots_.size()) grow();
    Slot& s = slots_[find(u.id())];
    if (s.generation != generation_) s = {u.id(), generation_, 0}, ++used_;
    return s.number;
  }
  // 0 when it has none.
  uint32_t get(const UOp& u) const {
    if (slots_.empty()) return 0;
    const Slot& s = slots_[find(u.id())];
    return s.generation == generation_ ? s.number : 0;
  }
  void clear() { ++generation_, used_ = 0; }

private:
  struct Slot {
    uint64_t id = 0;
    uint32_t generation = 0, number = 0;
  };
  size_t find(uint64_t id) const {
    size_t mask = slots_.size() - 1, i = size_t(mix64(id)) & mask;
    while (slots_[i].generation == generation_ && slots_[i].id != id) i = (i + 1) & mask;
    return i;
  }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : 2 * slots_.size());
    old.swap(slots_);
    for (const Slot& s : old)
      if (s.generation == generation_) slots_[find(s.id)] = s;
  }

  std::vector<Slot> slots_;
  size_t used_ = 0;
  uint32_t generation_ = 1;
};

} // namespace tolk::schedule
