// Random tensor graphs of small shapes, for comparing ways to compute them.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "mini_tensor.h"

namespace random_graph {

struct Graph {
  std::vector<mini::T> inputs; // buffers: floats of F64, indices of I32 with values around 0 .. 4
  std::vector<mini::T> values; // all, in order of construction
  std::vector<mini::T> roots;
};

// `operations` operations over some inputs. With `store_all`, a CONTIGUOUS after each; the same seed gives
// the same graph otherwise, over the inputs given (made when empty).
Graph make(uint32_t seed, int operations, bool store_all = false, const std::vector<mini::T>& inputs = {});

} // namespace random_graph
