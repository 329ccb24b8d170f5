// Ordering constraints between numbered kernels, and an order that satisfies them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tolk::schedule {

enum class Hazard : uint8_t {
  ReadAfterWrite,  // `then` reads what `first` writes
  WriteAfterWrite, // `then` overwrites what `first` writes
  WriteAfterRead,  // `then` overwrites what `first` reads
};

// Kernel `first` runs before kernel `then`.
struct Edge {
  int first, then;
  Hazard hazard;
  // The contents of storage (KernelGraph::contents) that `then` reads after the write, or that `first` reads
  // before it is overwritten; -1 where unknown.
  int contents = -1;
};

class Dependencies {
public:
  void add_kernel() { ++kernels_; }
  void reserve(size_t edges) { edges_.reserve(edges); }
  size_t size() const { return kernels_; }

  // Ignores an edge from a kernel to itself. Duplicates do no harm.
  void add(Edge edge) {
    if (edge.first != edge.then) edges_.push_back(edge);
  }
  const std::vector<Edge>& edges() const { return edges_; }

  // A topological order; of the kernels that are ready, the one with the smallest number is next. Kernels
  // numbered depth first from the results thus keep few temporaries alive. Kernels on a cycle, and all that
  // depend on them, are missing.
  std::vector<int> order() const;
  // The kernels of one cycle, each before the next and the last before the first; empty when there is none.
  std::vector<int> cycle() const;

private:
  struct Graph {
    std::vector<int> begin, then; // successors of kernel i: then[begin[i]] .. then[begin[i+1]-1]
    std::vector<int> waits;       // number of predecessors that have not run
  };
  Graph graph() const;
  std::vector<int> run(Graph& g) const;

  size_t kernels_ = 0;
  std::vector<Edge> edges_;
};

} // namespace tolk::schedule
