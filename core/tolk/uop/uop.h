// UOp: the one node type of every stage, from tensor graph to kernel.
//
// A node is immutable and hash-consed: equal (op, dtype, lanes, sources, arg) is the same node, so structural
// equality is pointer equality. A UOp is an 8-byte handle.
//
//   UOp x = reshape(buffer_node(slot, DType::F32, 32, "CPU"), {4, 8});
//   UOp y = alu(Op::ADD, x, constant(DType::F32, 1.0));
//
// Nodes live in one of two homes. The global table counts references and frees a node with its last handle;
// it holds what tensors, caches and captures keep. An arena (uop/arena.h) holds the nodes of one scheduling
// call or one kernel compile: nothing is counted, everything goes at once. Creation uses the thread's
// innermost ArenaScope, else the global table; a node and all its sources share a home, so a graph enters an
// arena whole, by `import_graph`.
//
// Threads: any thread may create, copy and drop global nodes. An arena belongs to one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/base/check.h"
#include "tolk/dtype/dtype.h"
#include "tolk/uop/arg.h"
#include "tolk/uop/ops.h"

namespace tolk {

class UOp;
struct ShapeData;

// Something hung on a global node: storage of a buffer, the realised form of a value. Dies with the node.
class TOLK_API UOpAttachment {
public:
  virtual ~UOpAttachment();
  // Once true, always true: the node stands for something else than a new node of its content would, so `make`
  // no longer finds it. Called under a lock of the node table; takes none.
  virtual bool outdated() const { return false; }
};

// What a node contains anywhere below itself, as bits.
enum UOpFlag : uint16_t {
  kHasRange = 1,  // RANGE or SPECIAL
  kHasLoad = 2,   // LOAD
  kHasVar = 4,    // VAR
  kHasReduce = 8, // REDUCE
};

struct UOpNode {
  static constexpr uint32_t kImmortal = 0x80000000u;
  mutable std::atomic<uint32_t> refs;
  Op op;
  DType dtype;
  uint16_t lanes;
  uint32_t nsrc;
  uint16_t flags;
  uint64_t id;   // increasing; a source has a smaller id than its users. Dense inside an arena
  uint64_t hash; // structural: the same in every process and home
  Arg arg;
  OpSet src_ops;      // ops of the direct sources
  int64_t vmin, vmax; // conservative bounds of integer and bool values, saturated to int64
  mutable std::atomic<const ShapeData*> shape;
  mutable std::atomic<UOpAttachment*> attachment; // global nodes only
  mutable UOpNode* chain;                         // next node of the same bucket
  // the sources follow, nsrc pointers
  const UOpNode* const* sources() const { return reinterpret_cast<const UOpNode* const*>(this + 1); }
};

class TOLK_API UOp {
public:
  UOp() = default;
  UOp(const UOp& other) : node_(other.node_) { retain(); }
  UOp(UOp&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  UOp& operator=(const UOp& other) {
    UOp copy(other);
    std::swap(node_, copy.node_);
    return *this;
  }
  UOp& operator=(UOp&& other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~UOp() { release(); }

  explicit operator bool() const { return node_ != nullptr; }
  bool operator==(const UOp& other) const { return node_ == other.node_; }
  bool operator!=(const UOp& other) const { return node_ != other.node_; }

  Op op() const { return node_->op; }
  bool is(Op op) const { return node_->op == op; }
  bool is(const OpSet& set) const { return set.has(node_->op); }
  DType dtype() const { return node_->dtype; }
  int lanes() const { return node_->lanes; }
  size_t nsrc() const { return node_->nsrc; }
  // Borrowed views of the sources: no count is touched.
  const UOp& src(size_t i) const { return src()[i]; }
  std::span<const UOp> src() const { return {reinterpret_cast<const UOp*>(node_->sources()), node_->nsrc}; }
  const Arg& arg() const { return node_->arg; }
  uint64_t id() const { return node_->id; }
  uint64_t hash() const { return node_->hash; }
  bool has(UOpFlag flag) const { return node_->flags & flag; }
  int64_t vmin() const { return node_->vmin; }
  int64_t vmax() const { return node_->vmax; }

  bool is_const() const { return node_->op == Op::CONST; }
  // Value of an integer, bool or index CONST.
  int64_t const_int() const { return int64_t(node_->arg.word); }
  // Value of a float CONST; integers convert.
  double const_float() const;
  bool is_const_int(int64_t value) const { return is_const() && !is_float(dtype()) && const_int() == value; }

  // The attachment of a global node; null when none. `set_attachment` returns false, and keeps the present
  // one, when there is one.
  UOpAttachment* attachment() const { return node_->attachment.load(std::memory_order_acquire); }
  bool set_attachment(std::unique_ptr<UOpAttachment> attachment) const;
  bool in_arena() const; // lives in an arena
  const UOpNode* node() const { return node_; }

  // Takes over one reference that the caller owns.
  static UOp adopt(const UOpNode* node) {
    UOp u;
    u.node_ = node;
    return u;
  }

private:
  void retain() const {
    if (node_ && !(node_->refs.load(std::memory_order_relaxed) & UOpNode::kImmortal))
      node_->refs.fetch_add(1, std::memory_order_relaxed);
  }
  void release() {
    if (node_ && !(node_->refs.load(std::memory_order_relaxed) & UOpNode::kImmortal)) release_counted();
  }
  void release_counted();
  const UOpNode* node_ = nullptr;
};
static_assert(sizeof(UOp) == sizeof(void*));

struct UOpHash {
  size_t operator()(const UOp& u) const { return u ? size_t(u.node()->id * 0x9E3779B97F4A7C15ull) : 0; }
};

// Creates or finds the node; one whose attachment is outdated is not found. Throws InternalError when the
// number of sources does not fit the op, or when a source lives elsewhere than the node would.
TOLK_API UOp make(Op op, DType dtype, std::span<const UOp> src, const Arg& arg = {}, int lanes = 1);
TOLK_API UOp make(Op op, DType dtype, std::initializer_list<UOp> src, const Arg& arg = {}, int lanes = 1);

// The same node with other sources (same number or not); dtype, lanes and arg stay.
TOLK_API UOp with_sources(const UOp& u, std::span<const UOp> src);

// Number of nodes in the global table; for leak tests.
TOLK_API size_t global_node_count();

} // namespace tolk
