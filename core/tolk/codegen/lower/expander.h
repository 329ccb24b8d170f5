// State of an expansion. Internal to lower/; values are in expand.cpp, indices and memory in
// expand_index.cpp, the blocks of sums in blocks.cpp.
#pragma once

#include <unordered_map>

#include "tolk/codegen/lower/expand.h"
#include "tolk/codegen/lower/fold.h"
#include "tolk/uop/symbolic/affine.h"

namespace tolk::codegen {

using sym::Affine;

class Expander {
public:
  Expander(const UOp& sink, int independent);
  Expansion run();

private:
  static constexpr int kWhole = -1; // lane of a VECTOR axis: all of them, as one vector

  struct Axis {
    UOp range;
    int extent = 1;
    bool vector = false;
    int lane = 0;
  };
  struct Key {
    uint64_t node, lanes;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& k) const {
      return (k.node * 0x9E3779B97F4A7C15ull) ^ (k.lanes * 0xD6E8FEB86659FD93ull);
    }
  };

  // expand.cpp
  void find_axes();
  int64_t flatten_ranges(std::initializer_list<AxisType> types, uint64_t special);
  void rank_loops();
  uint64_t depends(const UOp& u) const { return depends_[u.id()]; }
  uint64_t bit_of(const UOp& range) const;
  Key key_of(const UOp& u) const;
  int width_of(uint64_t mask) const;
  UOp effect(const UOp& u);
  void stores(const UOp& store, uint64_t pending, std::vector<UOp>& out);
  void scatter(const UOp& store, std::vector<UOp>& out);
  UOp lower(const UOp& u);
  UOp compute(const UOp& u);
  UOp reduction(const UOp& u);
  std::vector<UOp> unrolled(const UOp& value, uint64_t axes);
  size_t unrolled_count(const UOp& reduce) const;
  size_t chain_count(const UOp& reduce, size_t values) const;

  // work_items.cpp
  UOp fold_items(Op op, const UOp& value, const UOp& range);
  UOp gate_of(const UOp& store);

  // blocks.cpp
  struct Split {
    UOp outer, inner;
    int64_t block = 1;
  };
  void find_blocks();
  void find_levels(const UOp& reduce, std::vector<UOp> loops, int64_t per_iteration, int64_t limit);
  void split_range(const UOp& range, int64_t max_block);
  void append_parts(const UOp& range, std::vector<UOp>& out) const;
  static int64_t max_sequential_terms(const UOp& reduce);

  // expand_index.cpp
  Affine index(const UOp& u);
  Affine atom(const UOp& u);
  Affine atom_node(const UOp& u);
  Affine quotient(const Affine& x, int64_t divisor);
  Affine remainder(const Affine& x, int64_t divisor);
  UOp materialise(const Affine& form);
  UOp compare(const UOp& u);
  UOp load_node(const UOp& u);
  UOp lanewise(const UOp& u, int axis);
  UOp strided_load(const UOp& storage, const Affine& where, const UOp& gate, const UOp& alt, int64_t stride,
                   int width);
  int rank(const UOp& atom);
  UOp loop(const UOp& range);
  UOp vector_axis_node(int width);
  bool is_vector(const Affine& form) const;

  UOp sink_;
  int independent_;
  int64_t tiles_ = 1, items_ = 1;
  // The ranges that are parts of the work-group or work-item number, and how far apart two iterations are in it.
  std::unordered_map<UOp, int64_t, UOpHash> launched_;
  std::vector<UOp> shared_; // those of them that are loops of a reduction, by axis
  int64_t next_local_ = 0;  // number of the next DEFINE_LOCAL
  std::vector<Axis> axes_;
  std::vector<uint64_t> depends_; // by id: axes whose lane changes the value
  std::unordered_map<UOp, Affine, UOpHash>
      substituted_; // THREAD and LOCAL ranges in terms of their SPECIAL, split ranges of their parts
  std::unordered_map<UOp, int, UOpHash> loop_rank_; // loops from the outermost in
  int64_t next_axis_ = 0;                           // id of the next new range
  std::unordered_map<UOp, Split, UOpHash> splits_;  // ranges and the loops that replace them
  std::unordered_map<UOp, std::vector<std::vector<UOp>>, UOpHash>
      levels_; // of sums: loops, innermost level first
  std::unordered_map<Key, UOp, KeyHash> memo_;
  std::unordered_map<UOp, int, UOpHash> rank_memo_;
};

} // namespace tolk::codegen
