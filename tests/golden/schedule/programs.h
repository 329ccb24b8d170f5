// Programs with the number of kernels they may take, from the tables of the design.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "mini_tensor.h"
#include "tolk/schedule/schedule.h"

namespace programs {

inline tolk::schedule::Options options() {
  tolk::schedule::Options o;
  o.default_device = "CPU";
  o.cache = false;
  return o;
}

inline tolk::schedule::Schedule schedule(const std::vector<mini::T>& roots,
                                         const tolk::schedule::Options& o = options()) {
  std::vector<tolk::UOp> nodes;
  for (const mini::T& t : roots) nodes.push_back(t.u);
  return tolk::schedule::create_schedule(nodes, o);
}

} // namespace programs
