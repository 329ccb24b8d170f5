// Graph traversals. All are iterative, since graphs can be 10^5 nodes deep. Orders are deterministic: depth
// first, sources left to right, each node once.
#pragma once

#include <bit>
#include <deque>
#include <functional>
#include <unordered_map>
#include <vector>

#include "tolk/uop/arena.h"
#include "tolk/uop/uop.h"

namespace tolk {

// Numbers nodes 0, 1, 2 ... in the order of insertion: a hash table with open addressing, since most passes ask for every
// node several times. Does not hold the nodes.
class NodeIndex {
public:
  static constexpr uint32_t kAbsent = UINT32_MAX;

  uint32_t find(const UOpNode* node) const {
    if (slots_.empty()) return kAbsent;
    for (size_t at = home(node);; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].node == node) return slots_[at].number;
      if (!slots_[at].node) return kAbsent;
    }
  }
  // The node's number, and whether it is new.
  std::pair<uint32_t, bool> insert(const UOpNode* node) {
    if (2 * (size_t(count_) + 1) > slots_.size()) grow();
    size_t at = home(node);
    while (slots_[at].node && slots_[at].node != node) at = (at + 1) & (slots_.size() - 1);
    if (slots_[at].node) return {slots_[at].number, false};
    slots_[at] = {node, count_};
    return {count_++, true};
  }

private:
  struct Slot {
    const UOpNode* node = nullptr;
    uint32_t number = 0;
  };
  // Nodes lie at multiples of their size; the product's upper bits are the most mixed.
  size_t home(const UOpNode* node) const {
    return size_t((reinterpret_cast<uintptr_t>(node) * 0x9E3779B97F4A7C15ull) >> shift_);
  }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 16 : 2 * slots_.size());
    old.swap(slots_);
    shift_ = 64 - std::countr_zero(slots_.size());
    for (const Slot& slot : old) {
      if (!slot.node) continue;
      size_t at = home(slot.node);
      while (slots_[at].node) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = slot;
    }
  }

  std::vector<Slot> slots_; // a power of two, at most half full
  int shift_ = 60;
  uint32_t count_ = 0;
};

// A map from nodes to values for one pass: a vector over the dense ids in an arena, else a hash table. An
// entry with a null (false) value counts as absent.
template <typename Value> class Memo {
public:
  Memo() : arena_(current_arena()) {}
  const Value* find(const UOp& u) const {
    if (arena_) return u.id() < dense_.size() && bool(dense_[u.id()]) ? &dense_[u.id()] : nullptr;
    uint32_t at = index_.find(u.node());
    return at == NodeIndex::kAbsent ? nullptr : &sparse_[at].second;
  }
  void set(const UOp& u, Value value) {
    if (!arena_) {
      auto [at, fresh] = index_.insert(u.node());
      if (fresh)
        sparse_.emplace_back(u, std::move(value));
      else
        sparse_[at].second = std::move(value);
      return;
    }
    if (u.id() >= dense_.size())
      dense_.resize(std::max<size_t>(u.id() + 1, arena_->size() + arena_->size() / 2));
    dense_[u.id()] = std::move(value);
  }

private:
  Arena* arena_;
  std::vector<Value> dense_;
  NodeIndex index_;
  std::deque<std::pair<UOp, Value>>
      sparse_; // holds the nodes, so that no address is reused; values stay where they are
};

// Topological order, sources before users. Nodes for which `enter` is false are listed but not entered.
TOLK_API std::vector<UOp> toposort(const UOp& root, const std::function<bool(const UOp&)>& enter = {});
TOLK_API std::vector<UOp> toposort(std::span<const UOp> roots,
                                   const std::function<bool(const UOp&)>& enter = {});

// Replaces nodes by the map's values in one pass. Values are not substituted again, so one may contain its
// own key.
using UOpMap = std::unordered_map<UOp, UOp, UOpHash>;
TOLK_API UOp substitute(const UOp& root, const UOpMap& map);

// Whether `needle` occurs in the graph of `root`.
TOLK_API bool contains(const UOp& root, const UOp& needle);

} // namespace tolk
