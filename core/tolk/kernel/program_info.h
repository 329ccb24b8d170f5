// Launch metadata of a compiled kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tolk/dtype/dtype.h"

namespace tolk {

// A value parameter of a kernel: a symbolic integer bound at launch.
struct VarInfo {
  std::string name;
  DType dtype = DType::I32;
  int64_t min = 0, max = 0;
};

struct ProgramInfo {
  std::string name;              // function name
  std::vector<int> globals;      // call-argument number of each buffer parameter, in parameter order
  std::vector<int> outs, ins;    // subsets of globals that are written / read
  std::vector<VarInfo> vars;     // value parameters, after the buffers
  int64_t grid[3] = {1, 1, 1};   // work-groups; on CPU grid[0] counts tiles
  int64_t local[3] = {1, 1, 1};  // work-items of a group
  uint64_t shared_bytes = 0;     // work-group storage
  double flops = 0;              // arithmetic operations of one launch
  double bytes_loaded = 0;       // upper bound on traffic
  double bytes_touched = 0;      // lower bound: each buffer once
  std::vector<std::string> opts; // applied opts, for diagnostics
};

} // namespace tolk
