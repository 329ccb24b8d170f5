// Step 3: the reachable nodes in order, with what the decisions of fusion need. From here on a node is a
// number; sources have smaller numbers than their users.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tolk/schedule/schedule.h"
#include "tolk/schedule/tensor/canonicalize.h"

namespace tolk::schedule {

enum class Kind : uint8_t {
  Storage,  // PARAM, BUFFER, SLICE
  Constant, // CONST and everything of type Index
  Iota,
  Elementwise,
  Movement,
  Gather,
  Reduce,
  After,      // a view of storage behind stores
  Store,      // a kernel that writes existing storage
  Contiguous, // a value that is stored again, or computed on a device of its own
  Copy,       // a call that copies between devices
  Select,     // one position of what is stored on a device tuple: storage without a kernel of its own
  Stack,      // stored values on single devices as one on their tuple: likewise
};
inline bool is_alias(Kind kind) { return kind == Kind::Select || kind == Kind::Stack; }

struct Node {
  UOp u;
  Kind kind = Kind::Constant;
  bool stored = false;           // must be materialised
  bool reads = false;            // depends on storage
  int device = -1;               // in Graph::devices; -1: any
  int output = -1;               // number of the output buffer that holds it
  int64_t numel = 1;             // symbolic sizes at their largest
  double cost = 0;               // of computing one element from storage; see cost.h
  bool contraction = false;      // a large product summed: worth a kernel of its own
  int contractions = 0;          // such below, itself included, up to stored values
  uint32_t first = 0, count = 0; // sources that are data, in Graph::sources
};

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
Graph build_graph(const Early& early);

} // namespace tolk::schedule
