#include "tolk/schedule/order/write_cycles.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace tolk::schedule {
namespace {

// An item is two vertices: where it computes, its number, and where it stores. One that stores in place is in
// both at the same time; one that stores through a temporary comes to the second later.
class Breaker {
public:
  Breaker(std::vector<Wait> waits, std::span<const double> stores, const CopyBytes& copy_bytes)
      : waits_(std::move(waits)), stores_(stores), copy_bytes_(copy_bytes), items_(stores.size()),
        apart_(items_, false), score_(items_, 0) {}

  BrokenCircles run() {
    do {
      find_arcs();
      find_components();
    } while (choose());
    if (out_.copies.empty())
      leave_out_unnecessary();
    else
      out_.through.clear();
    return std::move(out_);
  }

private:
  size_t storing(size_t item) const { return item + items_; }
  size_t item_of(size_t vertex) const { return vertex < items_ ? vertex : vertex - items_; }
  size_t from(const Wait& w) const { return w.why == Wait::Old ? size_t(w.first) : storing(size_t(w.first)); }
  size_t to(const Wait& w) const { return w.why == Wait::Value ? size_t(w.then) : storing(size_t(w.then)); }
  bool inside(const Wait& w) const { return component_[from(w)] == component_[to(w)]; }

  // Those who wait for a vertex. The arcs between an item's two vertices are not in the lists.
  void find_arcs() {
    begin_.assign(2 * items_ + 1, 0);
    for (const Wait& w : waits_) ++begin_[from(w) + 1];
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    std::vector<size_t> next(begin_.begin(), begin_.end() - 1);
    then_.resize(waits_.size());
    for (const Wait& w : waits_) then_[next[from(w)]++] = to(w);
  }
  size_t arc_count(size_t v) const { return begin_[v + 1] - begin_[v] + (v < items_ || !apart_[item_of(v)]); }
  size_t arc(size_t v, size_t i) const {
    if (i < begin_[v + 1] - begin_[v]) return then_[begin_[v] + i];
    return v < items_ ? storing(v) : item_of(v);
  }

  struct Store {
    double score; // bytes for each wait that it takes out of a circle
    size_t item;
    auto operator<=>(const Store&) const = default;
  };
  struct Copy {
    double score = 0;
    int state = -1;
    std::vector<int> readers;
  };

  // Treats what is best for every circle; false when there is none left.
  bool choose() {
    std::vector<Store> stores = useful_stores();
    std::vector<double> best(components_, std::numeric_limits<double>::infinity());
    for (const Store& s : stores) best[component_[s.item]] = std::min(best[component_[s.item]], s.score);
    std::vector<Copy> copies = useful_copies();
    for (size_t c = 0; c < components_; ++c)
      if (copies[c].score >= best[c]) copies[c].state = -1;
    // As many stores at once as have no wait in common, which changes little for one another: with one in a
    // round the rounds would be as many as the stores.
    std::vector<bool> taken(items_, false), blocked(items_, false);
    bool more = false;
    for (const Store& s : stores) {
      if (blocked[s.item] || copies[component_[s.item]].state >= 0) continue;
      std::vector<size_t> others;
      for (size_t v : {s.item, storing(s.item)})
        for (size_t i = begin_[v]; i < begin_[v + 1]; ++i) others.push_back(item_of(then_[i]));
      if (std::ranges::any_of(others, [&](size_t i) { return taken[i]; })) continue;
      for (size_t i : others) blocked[i] = true;
      taken[s.item] = apart_[s.item] = more = true;
      score_[s.item] = s.score;
      out_.through.push_back(int(s.item));
    }
    std::set<std::pair<int, int>> copied; // states and who reads them from a copy
    for (Copy& c : copies) {
      if (c.state < 0) continue;
      for (int reader : c.readers) copied.emplace(c.state, reader);
      out_.copies.push_back({c.state, std::move(c.readers)});
    }
    // The copy itself waits for those who made the contents only, and its readers wait for them already.
    if (!copied.empty())
      std::erase_if(waits_,
                    [&](const Wait& w) { return w.why == Wait::Old && copied.contains({w.state, w.first}); });
    return more || !copied.empty();
  }

  // Stores in place that circles go through, the best first.
  std::vector<Store> useful_stores() const {
    std::vector<int> in(items_, 0), out(items_, 0);
    for (const Wait& w : waits_) {
      if (w.why == Wait::Value || !inside(w)) continue;
      ++in[size_t(w.then)];
      if (w.why == Wait::Old) ++out[size_t(w.first)];
    }
    std::vector<Store> useful;
    for (size_t i = 0; i < items_; ++i)
      if (stores_[i] != kNoStore && !apart_[i] && in[i] && out[i])
        useful.push_back({stores_[i] / std::min(in[i], out[i]), i});
    std::ranges::sort(useful);
    return useful;
  }

  // The best copy for each component; state -1 where none helps.
  std::vector<Copy> useful_copies() const {
    // A copy of old contents waits for those who made them. It helps readers that wait for something else.
    std::vector<int> all(items_, 0);
    std::map<std::pair<int, int>, int> for_contents; // by item and state
    for (const Wait& w : waits_) {
      if ((w.why != Wait::Value && apart_[size_t(w.then)]) || !inside(w)) continue;
      ++all[size_t(w.then)];
      if (w.why == Wait::Value && w.state >= 0) ++for_contents[{w.then, w.state}];
    }
    struct Old {
      int waits = 0;
      std::vector<int> readers;
    };
    std::map<std::pair<size_t, int>, Old> old; // by component and state
    for (const Wait& w : waits_) {
      if (w.why != Wait::Old || !inside(w)) continue;
      auto it = for_contents.find({w.first, w.state});
      if (all[size_t(w.first)] == (it == for_contents.end() ? 0 : it->second)) continue;
      Old& o = old[{component_[from(w)], w.state}];
      ++o.waits;
      o.readers.push_back(w.first);
    }
    std::vector<Copy> best(components_);
    for (auto& [where, o] : old) {
      std::ranges::sort(o.readers);
      o.readers.erase(std::unique(o.readers.begin(), o.readers.end()), o.readers.end());
      double score = copy_bytes_(where.second, o.readers) / o.waits;
      if (Copy& b = best[where.first]; b.state < 0 || score < b.score)
        b = {score, where.second, std::move(o.readers)};
    }
    return best;
  }

  // Tarjan's strongly connected components, without recursion.
  void find_components() {
    size_t n = 2 * items_;
    constexpr size_t kNone = size_t(-1);
    std::vector<size_t> next(n, 0), met(n, 0), low(n, 0), open, path;
    size_t count = 0;
    component_.assign(n, kNone);
    components_ = 0;
    for (size_t root = 0; root < n; ++root) {
      if (met[root]) continue;
      path.push_back(root);
      while (!path.empty()) {
        size_t v = path.back();
        if (!met[v]) met[v] = low[v] = ++count, open.push_back(v);
        if (next[v] < arc_count(v)) {
          size_t to = arc(v, next[v]++);
          if (!met[to])
            path.push_back(to);
          else if (component_[to] == kNone)
            low[v] = std::min(low[v], met[to]);
          continue;
        }
        path.pop_back();
        if (!path.empty()) low[path.back()] = std::min(low[path.back()], low[v]);
        if (low[v] != met[v]) continue;
        for (size_t u = kNone; u != v; open.pop_back()) component_[u = open.back()] = components_;
        ++components_;
      }
    }
  }

  // Each by itself, the worst choices first.
  void leave_out_unnecessary() {
    std::vector<int> todo = out_.through;
    std::ranges::stable_sort(todo, [&](int a, int b) { return score_[size_t(a)] > score_[size_t(b)]; });
    std::vector<int> seen(2 * items_, -1);
    for (int item : todo) apart_[size_t(item)] = closes_circle(size_t(item), seen);
    std::erase_if(out_.through, [&](int item) { return !apart_[size_t(item)]; });
  }

  // Whether the item, stored in place, waits for itself: apart from computing before it stores. Marks what it
  // meets with its number.
  bool closes_circle(size_t item, std::vector<int>& seen) const {
    std::vector<size_t> todo{item};
    while (!todo.empty()) {
      size_t v = todo.back();
      todo.pop_back();
      for (size_t i = 0; i < arc_count(v); ++i) {
        size_t to = arc(v, i);
        if (to == storing(item)) {
          if (v != item) return true;
        } else if (std::exchange(seen[to], int(item)) != int(item)) {
          todo.push_back(to);
        }
      }
    }
    return false;
  }

  std::vector<Wait> waits_; // but those that copies ended
  std::span<const double> stores_;
  const CopyBytes& copy_bytes_;
  size_t items_;
  std::vector<bool> apart_;   // by item: stores through a temporary
  std::vector<double> score_; // by item that does
  std::vector<size_t> begin_, then_;
  std::vector<size_t> component_; // by vertex
  size_t components_ = 0;
  BrokenCircles out_;
};

} // namespace

BrokenCircles break_circles(std::vector<Wait> waits, std::span<const double> stores,
                            const CopyBytes& copy_bytes) {
  return Breaker(std::move(waits), stores, copy_bytes).run();
}

} // namespace tolk::schedule
