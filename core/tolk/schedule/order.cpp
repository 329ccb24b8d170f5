#include "tolk/schedule/order.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <unordered_map>

#include "tolk/base/error.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"

namespace tolk::schedule {
namespace {

class Orderer {
public:
  Orderer(const Graph& graph, const std::vector<Item>& items)
      : graph_(graph), items_(items), next_(items.size()), waits_(items.size(), 0) {}

  std::vector<int> run() {
    find_states();
    for (size_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      for (int other : item.needs) edge(other, int(i));
      for (const State& state : item.reads) after_writers(state.after, int(i));
      if (item.store >= 0) after_writers(item.superseded.after, int(i));
    }
    // Readers of a state come before the stores that end it.
    for (size_t i = 0; i < items_.size(); ++i)
      for (const State& state : items_[i].reads)
        if (auto it = ended_by_.find(key(state)); it != ended_by_.end())
          for (int writer : it->second) edge(int(i), writer);
    return sorted();
  }

private:
  using Key = std::pair<const UOpNode*, int>;
  Key key(const State& state) const {
    return {state.base.node(), state.after < 0 ? -1 : same_state_[size_t(state.after)]};
  }

  void edge(int from, int to) {
    if (from == to) return;
    next_[size_t(from)].push_back(to);
    ++waits_[size_t(to)];
  }

  // Stores behind every AFTER. Two AFTERs of the same stores are the same state.
  void find_states() {
    std::vector<int> item_of_store(graph_.nodes.size(), -1);
    for (size_t i = 0; i < items_.size(); ++i)
      if (items_[i].store >= 0) item_of_store[size_t(items_[i].store)] = int(i);
    writers_.resize(graph_.nodes.size());
    same_state_.resize(graph_.nodes.size());
    std::map<std::vector<int>, int> first_with;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (graph_.nodes[n].kind != Kind::After) continue;
      std::vector<int>& writers = writers_[n];
      for (int effect : graph_.sources_of(int(n)).subspan(1)) {
        if (graph_.nodes[size_t(effect)].kind == Kind::Store)
          writers.push_back(item_of_store[size_t(effect)]);
        else
          writers.insert(writers.end(), writers_[size_t(effect)].begin(), writers_[size_t(effect)].end());
      }
      std::sort(writers.begin(), writers.end());
      writers.erase(std::unique(writers.begin(), writers.end()), writers.end());
      same_state_[n] = first_with.emplace(writers, int(n)).first->second;
    }
    for (size_t i = 0; i < items_.size(); ++i)
      if (items_[i].store >= 0) ended_by_[key(items_[i].superseded)].push_back(int(i));
  }

  void after_writers(int state, int item) {
    if (state < 0) return;
    for (int writer : writers_[size_t(state)]) edge(writer, item);
  }

  std::vector<int> sorted() {
    std::vector<int> order;
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    std::vector<int> waits = waits_;
    for (size_t i = 0; i < items_.size(); ++i)
      if (waits[i] == 0) ready.push(int(i));
    while (!ready.empty()) {
      int item = ready.top();
      ready.pop();
      order.push_back(item);
      for (int to : next_[size_t(item)])
        if (--waits[size_t(to)] == 0) ready.push(to);
    }
    if (order.size() != items_.size()) report_cycle(waits);
    return order;
  }

  [[noreturn]] void report_cycle(const std::vector<int>& waits) const {
    // Every waiting item has a waiting predecessor: walking backwards ends in the cycle.
    std::vector<int> before(items_.size(), -1);
    for (size_t i = 0; i < items_.size(); ++i)
      for (int to : next_[i])
        if (waits[i] > 0 && waits[size_t(to)] > 0 && before[size_t(to)] < 0) before[size_t(to)] = int(i);
    int at = 0;
    while (waits[size_t(at)] == 0) ++at;
    std::vector<char> seen(items_.size(), 0);
    for (; !seen[size_t(at)]; at = before[size_t(at)]) seen[size_t(at)] = 1;
    std::vector<int> cycle;
    for (int stop = at; cycle.empty() || at != stop; at = before[size_t(at)]) cycle.push_back(at);
    std::reverse(cycle.begin(), cycle.end());
    std::string text = "cycle detected in assign graph: ";
    for (int i : cycle) text += describe(i) + " -> ";
    text += describe(cycle.front()) +
            "; each needs what the next overwrites, so copy one of the old values first (clone)";
    throw InvalidArgument(text);
  }

  std::string describe(int i) const {
    const Item& item = items_[size_t(i)];
    const UOp& target = item.call.src(1);
    std::string what = item.store >= 0 ? "store to " : "kernel writing ";
    return what + print_expr(target.is(Op::SLICE) ? target.src(0) : target) + " " +
           to_string(shape_of(item.store >= 0 ? graph_.nodes[size_t(item.store)].u.src(0)
                                              : graph_.nodes[size_t(item.node)].u));
  }

  const Graph& graph_;
  const std::vector<Item>& items_;
  std::vector<std::vector<int>> next_;
  std::vector<int> waits_;
  std::vector<std::vector<int>> writers_;    // by AFTER node: items of its stores
  std::vector<int> same_state_;              // by AFTER node: the first with the same stores
  std::map<Key, std::vector<int>> ended_by_; // looked up only: the order of keys does not matter
};

} // namespace

std::vector<int> order_items(const Graph& graph, const std::vector<Item>& items) {
  return Orderer(graph, items).run();
}

} // namespace tolk::schedule
