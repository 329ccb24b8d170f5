// Index tuples: where a value is read, one Index expression per axis, and how movement ops carry them to their
// source.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "tolk/uop/shape.h"
#include "tolk/uop/uop.h"

namespace tolk::schedule {

using TupleId = int32_t;

// Tuples are interned: equal tuples have equal numbers. Axis numbers of RANGEs are small and mean something
// only inside one kernel, so equal parts of different kernels share tuples and simplified expressions. Works
// in the thread's arena.
class IndexSpace {
public:
  // The most loops of one kernel: their axis numbers are bits of a word.
  static constexpr int kMaxLoops = 62;

  TupleId intern(std::vector<UOp> indices);
  std::span<const UOp> tuple(TupleId id) const { return tuples_[size_t(id)]; }

  // The RANGEs below an expression, or in a tuple: bit a for axis a.
  uint64_t loops_in(const UOp& e);
  uint64_t loops_in(TupleId id);
  // Declares that a leaf that is no RANGE, a placeholder, varies with these loops.
  void set_loops(const UOp& leaf, uint64_t loops);
  // For names of placeholders, which must not be the same node.
  int fresh_number() { return stand_ins_++; }

  // The expression where the gate (null: always) is true, in normal form.
  UOp simplified(const UOp& e, const UOp& gate);
  // The conjunction, either may be null; null when it is always true.
  UOp both(const UOp& a, const UOp& b);

  struct Moved {
    TupleId tuple = 0;  // where the source is read
    UOp gate;           // when it is read at all, the reader's gate included; null: always
    UOp guard;          // PAD: when the reader sees the source and not zero; null: always
    bool never = false; // the source is not read, the value is zero
  };
  // The source's view of a read of a movement op. The reference holds until the next call.
  const Moved& through(const UOp& movement, TupleId tuple, const UOp& gate);

  // Row-major position of an element in a value of the shape.
  UOp flat(const Shape& shape, std::span<const UOp> indices, const UOp& gate);

private:
  Moved move(const UOp& movement, TupleId tuple, const UOp& gate);
  std::vector<UOp> reshaped(const Shape& from, const Shape& to, std::span<const UOp> at, const UOp& gate);

  struct KeyHash {
    size_t operator()(const std::pair<uint64_t, uint64_t>& key) const {
      return size_t((key.first * 0x9E3779B97F4A7C15ull) ^ (key.second + 0x7F4A7C15u) * 0xD6E8FEB86659FD93ull);
    }
  };
  struct MoveKey {
    const UOpNode* movement;
    TupleId tuple;
    const UOpNode* gate;
    bool operator==(const MoveKey&) const = default;
  };
  struct MoveHash {
    size_t operator()(const MoveKey& key) const;
  };
  std::deque<std::vector<UOp>> tuples_;
  std::vector<uint64_t> tuple_loops_; // by tuple
  std::unordered_multimap<uint64_t, TupleId> by_hash_;
  int stand_ins_ = 0;
  std::vector<uint64_t> loops_; // by node id: loops plus one, 0 unknown
  std::unordered_map<std::pair<uint64_t, uint64_t>, UOp, KeyHash> simplified_;
  std::unordered_map<MoveKey, Moved, MoveHash> moved_;
};

} // namespace tolk::schedule
