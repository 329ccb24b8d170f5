#include "tolk/schedule/order/dependencies.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

namespace tolk::schedule {

Dependencies::Graph Dependencies::graph() const {
  Graph g;
  g.begin.assign(kernels_ + 1, 0), g.then.resize(edges_.size()), g.waits.assign(kernels_, 0);
  for (const Edge& e : edges_) ++g.begin[size_t(e.first) + 1], ++g.waits[size_t(e.then)];
  std::partial_sum(g.begin.begin(), g.begin.end(), g.begin.begin());
  std::vector<int> next(g.begin.begin(), g.begin.end() - 1);
  for (const Edge& e : edges_) g.then[size_t(next[size_t(e.first)]++)] = e.then;
  return g;
}

// Leaves `waits` above 0 for the kernels that are missing.
std::vector<int> Dependencies::run(Graph& g) const {
  std::vector<int> order;
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (size_t i = 0; i < kernels_; ++i)
    if (g.waits[i] == 0) ready.push(int(i));
  while (!ready.empty()) {
    int kernel = ready.top();
    ready.pop();
    order.push_back(kernel);
    for (int at = g.begin[size_t(kernel)]; at < g.begin[size_t(kernel) + 1]; ++at)
      if (--g.waits[size_t(g.then[size_t(at)])] == 0) ready.push(g.then[size_t(at)]);
  }
  return order;
}

std::vector<int> Dependencies::order() const {
  Graph g = graph();
  return run(g);
}

std::vector<int> Dependencies::cycle() const {
  Graph g = graph();
  if (run(g).size() == kernels_) return {};
  // Every waiting kernel has a waiting predecessor: going backwards ends in a cycle.
  std::vector<int> before(kernels_, -1);
  for (size_t i = 0; i < kernels_; ++i)
    for (int at = g.begin[i]; at < g.begin[i + 1]; ++at)
      if (int to = g.then[size_t(at)]; g.waits[i] > 0 && g.waits[size_t(to)] > 0 && before[size_t(to)] < 0)
        before[size_t(to)] = int(i);
  int at = 0;
  while (g.waits[size_t(at)] == 0) ++at;
  std::vector<char> seen(kernels_, 0);
  for (; !seen[size_t(at)]; at = before[size_t(at)]) seen[size_t(at)] = 1;
  std::vector<int> cycle;
  for (int stop = at; cycle.empty() || at != stop; at = before[size_t(at)]) cycle.push_back(at);
  std::reverse(cycle.begin(), cycle.end());
  return cycle;
}

} // namespace tolk::schedule
