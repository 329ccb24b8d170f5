// Loop nest analysis for the heuristic: the bodies of a nest, and the stride of each memory access along each loop.
// Internal to opt/.
#pragma once

#include <cstdint>
#include <vector>

#include "tolk/codegen/opt/loop_set.h"
#include "tolk/uop/uop.h"

namespace tolk::codegen {

struct Access {
  int bytes = 0;               // of an element
  double elements = 0;         // of the buffer
  LoopSet loops;               // the address or the gate depends on them
  LoopSet address;             // the address does
  LoopSet irregular;           // and not linearly
  LoopSet gate;                // the gate does
  std::vector<int64_t> stride; // elements per step of each loop, 0 for irregular ones

  int64_t along(LoopSet loop) const { return stride[loop.number()]; }
};

// The value of one REDUCE, or of the store of the nest.
struct Body {
  UOp reduce;                   // null for the store
  LoopSet outer;                // output loops around it that it depends on
  LoopSet inner;                // its own reduction loops; for the store, all output loops
  std::vector<Access> loads;    // reductions inside are bodies of their own
  Access store;                 // of the store only
  double operations = 0;        // weighed arithmetic, per iteration
  int widest = 1;               // bytes of the widest value
  bool multiplies_adds = false; // sum of products
  double trips = 1;             // iterations of everything around and inside
};

struct Nest {
  UOp end;                                // END or a bare STORE
  std::vector<UOp> loops;                 // by number: output loops in order, then the loops of reductions
  std::vector<int64_t> extents;           // at most; symbolic ones at their bound
  LoopSet output;                         // the output loops
  std::vector<Body> bodies;               // most work first
  LoopSet set_of(const UOp& range) const; // empty when it is no loop of the nest
  const UOp& loop(LoopSet one) const { return loops[one.number()]; }
  int64_t extent(LoopSet one) const { return extents[one.number()]; }
};

// The nests of a kernel AST, one for each effect; those with more than LoopSet::kMaxLoops loops are left out.
std::vector<Nest> nests_of(const UOp& ast);

} // namespace tolk::codegen
