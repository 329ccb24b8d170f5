#include "tolk/uop/traverse.h"

#include <algorithm>

#include "tolk/uop/build.h"

namespace tolk {

std::vector<UOp> toposort(std::span<const UOp> roots, const std::function<bool(const UOp&)>& enter) {
  std::vector<UOp> order;
  Memo<char> state; // 1: on the stack and expanded, 2: emitted
  std::vector<std::pair<UOp, bool>> stack;
  for (size_t i = roots.size(); i-- > 0;) stack.emplace_back(roots[i], false);
  while (!stack.empty()) {
    auto [node, expanded] = stack.back();
    stack.pop_back();
    const char* seen = state.find(node);
    if (expanded) {
      if (!seen || *seen != 2) state.set(node, 2), order.push_back(std::move(node));
      continue;
    }
    if (seen) continue;
    state.set(node, 1);
    stack.emplace_back(node, true);
    if (enter && !enter(node)) continue;
    for (size_t i = node.nsrc(); i-- > 0;)
      if (!state.find(node.src(i))) stack.emplace_back(node.src(i), false);
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
  Memo<char> seen;
  std::vector<UOp> stack{root};
  while (!stack.empty()) {
    UOp u = stack.back();
    stack.pop_back();
    if (u == needle) return true;
    if (u.id() < needle.id() || seen.find(u)) continue; // a source is older than its users
    seen.set(u, 1);
    for (const UOp& s : u.src()) stack.push_back(s);
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
