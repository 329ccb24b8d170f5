// The two node stores behind make(): the sharded weak global table and the arenas.
#pragma once

#include <deque>
#include <mutex>
#include <vector>

#include "tolk/uop/arena.h"
#include "tolk/uop/uop.h"

namespace tolk {

// What identifies a node, before it exists.
struct NodeKey {
  Op op;
  DType dtype;
  uint16_t lanes;
  std::span<const UOp> src;
  const Arg& arg;
  uint64_t hash;
};

// A chained hash table of nodes; grows by doubling, never shrinks below its start.
class NodeTable {
public:
  explicit NodeTable(size_t buckets) : buckets_(buckets, nullptr) {}
  size_t size() const { return size_; }
  // First node equal to the key for which `accept` is true.
  template <typename Accept> UOpNode* find(const NodeKey& key, Accept accept) const {
    for (UOpNode* n = buckets_[key.hash & (buckets_.size() - 1)]; n; n = n->chain)
      if (equal(*n, key) && accept(n)) return n;
    return nullptr;
  }
  void insert(UOpNode* node);
  void erase(UOpNode* node);

private:
  static bool equal(const UOpNode& node, const NodeKey& key);
  std::vector<UOpNode*> buckets_;
  size_t size_ = 0;
};

struct Arena::Impl {
  NodeTable table{1024};
  std::vector<UOpNode*> nodes;             // by id
  std::vector<const UOpNode*> normal_form; // by id: what simplify() made of the node; null unknown
  std::vector<std::unique_ptr<std::byte[]>> blocks;
  std::byte* next = nullptr;
  size_t left = 0;
  void* allocate(size_t bytes);
};

// Fills a fresh node of `key` at `memory`; sources are retained.
UOpNode* construct_node(void* memory, const NodeKey& key, uint64_t id, uint32_t refs);
inline size_t node_bytes(size_t nsrc) { return sizeof(UOpNode) + nsrc * sizeof(void*); }

// Bounds of an integer or bool node from its sources; see bounds.cpp.
std::pair<int64_t, int64_t> compute_bounds(Op op, DType dtype, std::span<const UOp> src, const Arg& arg);
// Frees a node's cached shape.
void destroy_shape(const ShapeData* shape);

} // namespace tolk
