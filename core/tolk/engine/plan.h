// A compiled schedule: what to launch and copy, in order, with the storage of every argument. Made once, run
// many times.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/engine/compile.h"
#include "tolk/uop/uop.h"

namespace tolk::engine {

using VarVals = std::map<std::string, int64_t>;

// Figures of the process since its start; for tests and DEBUG.
struct Counters {
  uint64_t kernels = 0, copies = 0, runs = 0;
  double flops = 0, bytes = 0;
};
TOLK_API Counters counters();

class TOLK_API Plan {
public:
  Plan() = default;
  // Compiles every kernel of a LINEAR. `vars` are the values of symbolic integers for the runs to come.
  Plan(const UOp& linear, VarVals vars, const Progress& progress = {});

  // Runs everything in order; blocks only where a backend is synchronous or a copy to the host waits. One run
  // at a time.
  void run() const;
  size_t kernel_count() const;
  bool empty() const { return steps_.empty(); }

  struct Step {
    UOp ast;                    // the kernel's graph; null for a copy
    CompiledCall call;          // empty for a copy
    std::vector<UOp> arguments; // storage nodes; a copy has (destination, source)
    std::vector<BufferRef> buffers;
    std::vector<Buffer*> ordered; // in the program's parameter order
    std::vector<int64_t> values;
    bool in_place = false; // a copy whose destination took the source's memory over: nothing moves any more
  };
  const std::vector<Step>& steps() const { return steps_; }

private:
  UOp linear_; // keeps the storage nodes alive
  std::vector<Step> steps_;
};

} // namespace tolk::engine
