// Items that wait for one another, in an order to run.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace tolk::schedule {

class Dependencies {
public:
  explicit Dependencies(size_t items) : items_(items) {}
  void add_item() { ++items_; }
  size_t size() const { return items_; }

  // `first` runs before `then`; nothing for an item and itself. May be said more than once.
  void before(int first, int then) {
    if (first != then) edges_.emplace_back(first, then);
  }

  // All items; among those that may come next, the one with the smallest number: items that are numbered
  // depth first from the results keep few temporaries alive. When some wait for each other, those and what
  // waits for them are missing.
  std::vector<int> order() const;
  // The items of one cycle, each before the next and the last before the first; for when `order` misses some.
  std::vector<int> cycle() const;

private:
  struct Graph {
    std::vector<int> begin, then; // who waits for item i: then[begin[i]] .. then[begin[i+1]-1]
    std::vector<int> waits;       // for how many
  };
  Graph graph() const;
  std::vector<int> run(Graph& g) const;

  size_t items_;
  std::vector<std::pair<int, int>> edges_;
};

} // namespace tolk::schedule
