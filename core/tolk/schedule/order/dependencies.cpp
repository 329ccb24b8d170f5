#include "tolk/schedule/order/dependencies.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

namespace tolk::schedule {

Dependencies::Graph Dependencies::graph() const {
  Graph g;
  g.begin.assign(items_ + 1, 0), g.then.resize(edges_.size()), g.waits.assign(items_, 0);
  for (auto [first, then] : edges_) ++g.begin[size_t(first) + 1], ++g.waits[size_t(then)];
  std::partial_sum(g.begin.begin(), g.begin.end(), g.begin.begin());
  std::vector<int> next(g.begin.begin(), g.begin.end() - 1);
  for (auto [first, then] : edges_) g.then[size_t(next[size_t(first)]++)] = then;
  return g;
}

// `waits` is left above 0 for the items that are missing.
std::vector<int> Dependencies::run(Graph& g) const {
  std::vector<int> order;
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (size_t i = 0; i < items_; ++i)
    if (g.waits[i] == 0) ready.push(int(i));
  while (!ready.empty()) {
    int item = ready.top();
    ready.pop();
    order.push_back(item);
    for (int at = g.begin[size_t(item)]; at < g.begin[size_t(item) + 1]; ++at)
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
  if (run(g).size() == items_) return {};
  // Every waiting item has a waiting predecessor: walking backwards ends in a cycle.
  std::vector<int> before(items_, -1);
  for (size_t i = 0; i < items_; ++i)
    for (int at = g.begin[i]; at < g.begin[i + 1]; ++at)
      if (int to = g.then[size_t(at)]; g.waits[i] > 0 && g.waits[size_t(to)] > 0 && before[size_t(to)] < 0)
        before[size_t(to)] = int(i);
  int at = 0;
  while (g.waits[size_t(at)] == 0) ++at;
  std::vector<char> seen(items_, 0);
  for (; !seen[size_t(at)]; at = before[size_t(at)]) seen[size_t(at)] = 1;
  std::vector<int> cycle;
  for (int stop = at; cycle.empty() || at != stop; at = before[size_t(at)]) cycle.push_back(at);
  std::reverse(cycle.begin(), cycle.end());
  return cycle;
}

} // namespace tolk::schedule
