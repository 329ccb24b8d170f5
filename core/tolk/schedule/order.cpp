#include "tolk/schedule/order.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "tolk/base/error.h"
#include "tolk/schedule/dependencies.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"

namespace tolk::schedule {
namespace {

class Orderer {
public:
  Orderer(const Graph& graph, const std::vector<Item>& items)
      : graph_(graph), items_(items), dependencies_(items.size()) {}

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
    std::vector<int> order = dependencies_.order();
    if (order.size() != items_.size()) report_cycle();
    return order;
  }

private:
  using Key = std::pair<const UOpNode*, int>;
  Key key(const State& state) const {
    return {state.base.node(), state.after < 0 ? -1 : same_state_[size_t(state.after)]};
  }

  void edge(int from, int to) { dependencies_.before(from, to); }

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

  [[noreturn]] void report_cycle() const {
    std::vector<int> cycle = dependencies_.cycle();
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
  Dependencies dependencies_;
  std::vector<std::vector<int>> writers_;    // by AFTER node: items of its stores
  std::vector<int> same_state_;              // by AFTER node: the first with the same stores
  std::map<Key, std::vector<int>> ended_by_; // looked up only: the order of keys does not matter
};

} // namespace

std::vector<int> order_items(const Graph& graph, const std::vector<Item>& items) {
  return Orderer(graph, items).run();
}

} // namespace tolk::schedule
