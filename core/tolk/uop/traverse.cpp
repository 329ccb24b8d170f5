#include "tolk/uop/traverse.h"

#include <algorithm>
#include <utility>

#include "tolk/uop/build.h"

namespace tolk {
namespace {

// A set of nodes. Does not hold them.
class Seen {
public:
  bool has(const UOp& u) const {
    return arena_ ? u.id() < dense_.size() && dense_[u.id()] : index_.find(u.node()) != NodeIndex::kAbsent;
  }
  // Whether it was not there before.
  bool add(const UOp& u) {
    if (!arena_) return index_.insert(u.node()).second;
    if (u.id() >= dense_.size())
      dense_.resize(std::max<size_t>(u.id() + 1, arena_->size() + arena_->size() / 2));
    return !std::exchange(dense_[u.id()], 1);
  }

private:
  Arena* arena_ = current_arena();
  std::vector<char> dense_;
  NodeIndex index_;
};

} // namespace

std::vector<UOp> toposort(std::span<const UOp> roots, const std::function<bool(const UOp&)>& enter) {
  std::vector<UOp> order;
  Seen seen;
  std::vector<std::pair<const UOp*, bool>>
      stack; // the roots hold the nodes, and each its sources; true: they are listed
  for (size_t i = roots.size(); i-- > 0;) stack.emplace_back(&roots[i], false);
  while (!stack.empty()) {
    auto [node, listed] = stack.back();
    stack.pop_back();
    if (listed) {
      order.push_back(*node);
      continue;
    }
    if (!seen.add(*node)) continue;
    stack.emplace_back(node, true);
    if (enter && !enter(*node)) continue;
    for (size_t i = node->nsrc(); i-- > 0;)
      if (!seen.has(node->src(i))) stack.emplace_back(&node->src(i), false);
  }
  return order;
}

std::vector<UOp> toposort(const UOp& root, const std::function<bool(const UOp&)>& enter) {
  return toposort(std::span<const UOp>(&root, 1), enter);
}

UOp substitute(const UOp& root, const UOpMap& map) {
  if (map.empty()) return root;
  Memo<UOp> done;
  std::vector<UOp> src;
  for (const UOp& u : toposort(root, [&](const UOp& n) { return !map.contains(n); })) {
    if (auto it = map.find(u); it != map.end()) {
      done.set(u, it->second);
      continue;
    }
    bool changed = false;
    src.clear();
    for (const UOp& s : u.src()) {
      src.push_back(*done.find(s));
      changed |= src.back() != s;
    }
    done.set(u, changed ? with_sources(u, src) : u);
  }
  return *done.find(root);
}

bool contains(const UOp& root, const UOp& needle) {
  Seen seen;
  std::vector<const UOp*> stack{&root};
  while (!stack.empty()) {
    const UOp& u = *stack.back();
    stack.pop_back();
    if (u == needle) return true;
    if (u.id() < needle.id() || !seen.add(u)) continue; // a source is older than its users
    for (const UOp& s : u.src()) stack.push_back(&s);
  }
  return false;
}

UOp import_graph(const UOp& root) {
  if (root.in_arena() == (current_arena() != nullptr) && !current_arena()) return root;
  std::unordered_map<const UOpNode*, UOp> done;
  std::vector<std::pair<UOp, bool>> stack{{root, false}};
  std::vector<UOp> src;
  while (!stack.empty()) {
    auto [node, expanded] = stack.back();
    stack.pop_back();
    if (done.contains(node.node())) continue;
    if (!expanded) {
      stack.emplace_back(node, true);
      for (size_t i = node.nsrc(); i-- > 0;)
        if (!done.contains(node.src(i).node())) stack.emplace_back(node.src(i), false);
      continue;
    }
    src.clear();
    for (const UOp& s : node.src()) src.push_back(done.at(s.node()));
    done.emplace(node.node(), make(node.op(), node.dtype(), src, node.arg(), node.lanes()));
  }
  return done.at(root.node());
}

} // namespace tolk
