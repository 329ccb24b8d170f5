// What the heuristic looks at: the loop bodies of a nest, and how each memory access moves with each loop.
// Internal to opt/. Loops are bits of a 64-bit mask throughout.
#pragma once

#include <cstdint>
#include <vector>

#include "tolk/uop/uop.h"

namespace tolk::codegen {

struct Access {
  int bytes = 0;               // of an element
  double elements = 0;         // of the buffer
  uint64_t loops = 0;          // the address or the gate depends on them
  uint64_t address = 0;        // the address does
  uint64_t irregular = 0;      // and not linearly
  uint64_t gate = 0;           // the gate does
  std::vector<int64_t> stride; // elements per step of each loop, 0 for irregular ones

  int64_t along(uint64_t bit) const { return stride[size_t(__builtin_ctzll(bit))]; }
};

// The value of one REDUCE, or of the store of the nest.
struct Body {
  UOp reduce;                   // null for the store
  uint64_t outer = 0;           // output loops around it that it depends on
  uint64_t inner = 0;           // its own reduction loops; for the store, all output loops
  std::vector<Access> loads;    // reductions inside are bodies of their own
  Access store;                 // of the store only
  double operations = 0;        // weighed arithmetic, per iteration
  int widest = 1;               // bytes of the widest value
  bool multiplies_adds = false; // sum of products
  double trips = 1;             // iterations of everything around and inside
};

struct Nest {
  UOp end;                      // END or a bare STORE
  std::vector<UOp> loops;       // by bit number: output loops in order, then the loops of reductions
  std::vector<int64_t> extents; // at most; symbolic ones at their bound
  uint64_t output = 0;          // bits of the output loops
  std::vector<Body> bodies;     // most work first
  uint64_t bit(const UOp& range) const;
  const UOp& loop(uint64_t bit) const { return loops[size_t(__builtin_ctzll(bit))]; }
  int64_t extent(uint64_t bit) const { return extents[size_t(__builtin_ctzll(bit))]; }
};

// One effect of a kernel AST. Nothing when it has more than 60 loops.
std::vector<Nest> nests_of(const UOp& ast);

} // namespace tolk::codegen
