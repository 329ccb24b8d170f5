// The reachable nodes in order, with what fusion needs to know of each. From here on a node is a number;
// sources have smaller numbers than their users.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tolk/schedule/fuse/node.h"
#include "tolk/schedule/options.h"
#include "tolk/schedule/tensor/canonicalize.h"

namespace tolk::schedule {

// What a root becomes. A view of storage, AFTERs stripped, with node -1; or views (of the base's shape
// upward, outermost last) of a node that is stored.
struct Root {
  UOp view;
  int node = -1;
  bool empty = false; // without elements: of the shape and dtype of `view`, nothing to compute
  std::vector<UOp> chain;
};

struct Graph {
  static constexpr int kNoState = -1;
  std::vector<Node> nodes;
  std::vector<int> sources;
  std::vector<std::string> devices;
  std::vector<Root> roots;
  std::vector<int> outputs;         // node of every output
  std::vector<uint32_t> first_user; // users of node n are users[first_user[n]] .. users[first_user[n+1]-1]
  std::vector<int> users;

  std::span<const int> sources_of(int n) const {
    return {sources.data() + nodes[size_t(n)].first, nodes[size_t(n)].count};
  }
  std::span<const int> users_of(int n) const {
    return {users.data() + first_user[size_t(n)], users.data() + first_user[size_t(n) + 1]};
  }
  const std::string& device_name(int n, const Options& options) const {
    int d = nodes[size_t(n)].device;
    return d < 0 ? options.default_device : devices[size_t(d)];
  }
};

// Throws InvalidArgument for ops that scheduling does not know and for values whose sources are on different
// devices.
Graph build_graph(const Canonical& canonical);

} // namespace tolk::schedule
