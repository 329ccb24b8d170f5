#include "tolk/schedule/circles.h"

#include <algorithm>
#include <map>
#include <utility>

#include "tolk/schedule/dependencies.h"

namespace tolk::schedule {
namespace {

class Breaker {
public:
  Breaker(std::vector<Wait> waits, std::span<const double> stores, const CopyBytes& copy_bytes)
      : waits_(std::move(waits)), stores_(stores), copy_bytes_(copy_bytes) {
    for (size_t i = 0; i < stores.size(); ++i) write_.push_back(int(i));
    vertices_ = int(stores.size());
  }

  BrokenCircles run() {
    for (;;) {
      find_components();
      std::vector<Choice> best = choices();
      bool more = false;
      for (const Choice& c : best) {
        if (c.item >= 0) {
          write_[size_t(c.item)] = vertices_++;
          out_.through.push_back(c.item);
          more = true;
        } else if (c.state >= 0) {
          out_.copies.push_back({c.state, c.readers});
        }
      }
      if (!out_.copies.empty()) out_.through.clear();
      if (!more || !out_.copies.empty()) break;
    }
    leave_out_unnecessary();
    return std::move(out_);
  }

private:
  // What is best for one circle.
  struct Choice {
    double score = 0; // bytes for each wait
    int item = -1, state = -1;
    std::vector<int> readers;
    bool none() const { return item < 0 && state < 0; }
  };

  // An item that stores through a temporary is two vertices: its number, and write_[number].
  std::pair<int, int> vertices(const Wait& w) const {
    return {w.why == Wait::Old ? w.first : write_[size_t(w.first)],
            w.why == Wait::Value ? w.then : write_[size_t(w.then)]};
  }
  template <typename F> void each_arc(F tell) const {
    for (const Wait& w : waits_) {
      auto [from, to] = vertices(w);
      tell(from, to);
    }
    for (size_t i = 0; i < write_.size(); ++i)
      if (write_[i] != int(i)) tell(int(i), write_[i]);
  }

  std::vector<Choice> choices() const {
    size_t items = stores_.size();
    std::vector<int> in(items, 0), out(items, 0);
    struct Old {
      int waits = 0;
      std::vector<int> readers;
    };
    std::map<std::pair<int, int>, Old> old; // by component and state
    // A copy of old contents waits for those who made them. It helps readers that wait for something else.
    std::vector<int> all(items, 0);
    std::map<std::pair<int, int>, int> for_contents; // by item and state
    auto each_inside = [&](auto tell) {
      for (const Wait& w : waits_) {
        auto [from, to] = vertices(w);
        if (from != to && component_[size_t(from)] == component_[size_t(to)]) tell(w, from, to);
      }
    };
    each_inside([&](const Wait& w, int, int to) {
      if (to != w.then) return; // apart from computing
      ++all[size_t(to)];
      if (w.why == Wait::Value && w.state >= 0) ++for_contents[{to, w.state}];
    });
    each_inside([&](const Wait& w, int from, int) {
      if (w.why == Wait::Value) return;
      ++in[size_t(w.then)];
      if (w.why != Wait::Old) return;
      ++out[size_t(w.first)];
      auto it = for_contents.find({w.first, w.state});
      if (all[size_t(w.first)] == (it == for_contents.end() ? 0 : it->second)) return;
      Old& o = old[{component_[size_t(from)], w.state}];
      ++o.waits;
      if (std::ranges::count(o.readers, w.first) == 0) o.readers.push_back(w.first);
    });
    std::vector<Choice> best;
    best.resize(size_t(components_));
    for (size_t i = 0; i < items; ++i) {
      if (stores_[i] == kNoStore || write_[i] != int(i) || !in[i] || !out[i]) continue;
      double score = stores_[i] / std::min(in[i], out[i]);
      if (Choice& b = best[size_t(component_[i])]; b.none() || score < b.score) b = {score, int(i), -1, {}};
    }
    for (const auto& [where, o] : old) {
      double score = copy_bytes_(where.second, o.readers) / o.waits;
      Choice& b = best[size_t(where.first)];
      if (b.none() || score < b.score) b = {score, -1, where.second, o.readers};
    }
    return best;
  }

  // Tarjan's strongly connected components, without recursion.
  void find_components() {
    auto n = size_t(vertices_);
    std::vector<int> begin(n + 1, 0), then;
    each_arc([&](int from, int) { ++begin[size_t(from) + 1]; });
    for (size_t i = 0; i < n; ++i) begin[i + 1] += begin[i];
    then.resize(size_t(begin[n]));
    std::vector<int> next(begin.begin(), begin.end() - 1);
    each_arc([&](int from, int to) { then[size_t(next[size_t(from)]++)] = to; });
    next.assign(begin.begin(), begin.end() - 1);
    std::vector<int> met(n, 0), low(n, 0), open, path;
    int count = 0;
    component_.assign(n, -1);
    components_ = 0;
    for (size_t root = 0; root < n; ++root) {
      if (met[root]) continue;
      path.push_back(int(root));
      while (!path.empty()) {
        auto v = size_t(path.back());
        if (!met[v]) met[v] = low[v] = ++count, open.push_back(int(v));
        if (next[v] < begin[v + 1]) {
          auto to = size_t(then[size_t(next[v]++)]);
          if (!met[to])
            path.push_back(int(to));
          else if (component_[to] < 0)
            low[v] = std::min(low[v], met[to]);
          continue;
        }
        path.pop_back();
        if (!path.empty()) low[size_t(path.back())] = std::min(low[size_t(path.back())], low[v]);
        if (low[v] != met[v]) continue;
        for (int u = -1; u != int(v); open.pop_back()) component_[size_t(u = open.back())] = components_;
        ++components_;
      }
    }
  }

  bool circles() const {
    Dependencies all{size_t(vertices_)};
    each_arc([&](int from, int to) { all.before(from, to); });
    return all.order().size() != size_t(vertices_);
  }

  // Each by itself, those that cost most first.
  void leave_out_unnecessary() {
    std::vector<int> todo = out_.through;
    std::ranges::stable_sort(todo, [&](int a, int b) { return stores_[size_t(a)] > stores_[size_t(b)]; });
    for (int item : todo) {
      int was = std::exchange(write_[size_t(item)], item);
      if (circles())
        write_[size_t(item)] = was;
      else
        std::erase(out_.through, item);
    }
  }

  std::vector<Wait> waits_;
  std::span<const double> stores_;
  const CopyBytes& copy_bytes_;
  std::vector<int> write_; // by item
  int vertices_;
  std::vector<int> component_; // by vertex
  int components_ = 0;
  BrokenCircles out_;
};

} // namespace

BrokenCircles break_circles(std::vector<Wait> waits, std::span<const double> stores,
                            const CopyBytes& copy_bytes) {
  return Breaker(std::move(waits), stores, copy_bytes).run();
}

} // namespace tolk::schedule
