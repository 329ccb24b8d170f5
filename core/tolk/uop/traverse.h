// Graph traversals. All are iterative, since graphs can be 10^5 nodes deep. Orders are deterministic: depth
// first, sources left to right, each node once.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "tolk/uop/arena.h"
#include "tolk/uop/uop.h"

namespace tolk {

// A map from nodes to values for one pass: a vector over the dense ids in an arena, else a hash table. An
// entry with a null (false) value counts as absent.
template <typename Value> class Memo {
public:
  Memo() : arena_(current_arena()) {}
  const Value* find(const UOp& u) const {
    if (arena_) return u.id() < dense_.size() && bool(dense_[u.id()]) ? &dense_[u.id()] : nullptr;
    auto it = sparse_.find(u);
    return it == sparse_.end() ? nullptr : &it->second;
  }
  void set(const UOp& u, Value value) {
    if (!arena_) {
      sparse_.insert_or_assign(u, std::move(value));
      return;
    }
    if (u.id() >= dense_.size())
      dense_.resize(std::max<size_t>(u.id() + 1, arena_->size() + arena_->size() / 2));
    dense_[u.id()] = std::move(value);
  }

private:
  Arena* arena_;
  std::vector<Value> dense_;
  std::unordered_map<UOp, Value, UOpHash> sparse_; // holds the nodes, so that no address is reused
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
