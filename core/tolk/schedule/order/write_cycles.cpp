#include "tolk/schedule/order/write_cycles.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace tolk::schedule {
namespace {

// A kernel is two vertices: `kernel`, where it computes, and storing(kernel), where it stores. They are one
// point in time (arcs both ways) for a kernel that stores in place; via a temporary, it stores later.
class Breaker {
public:
  Breaker(std::vector<Edge> edges, std::span<const double> stores, const CopyBytes& copy_bytes)
      : edges_(std::move(edges)), stores_(stores), copy_bytes_(copy_bytes), kernels_(stores.size()),
        apart_(kernels_, false), score_(kernels_, 0) {}

  CycleBreak run() {
    do {
      find_arcs();
      find_components();
    } while (choose());
    if (out_.snapshots.empty())
      drop_unnecessary();
    else
      out_.through.clear();
    return std::move(out_);
  }

private:
  size_t storing(size_t kernel) const { return kernel + kernels_; }
  size_t kernel_of(size_t vertex) const { return vertex < kernels_ ? vertex : vertex - kernels_; }
  size_t from(const Edge& e) const {
    return e.hazard == Hazard::WriteAfterRead ? size_t(e.first) : storing(size_t(e.first));
  }
  size_t to(const Edge& e) const {
    return e.hazard == Hazard::ReadAfterWrite ? size_t(e.then) : storing(size_t(e.then));
  }
  bool inside(const Edge& e) const { return component_[from(e)] == component_[to(e)]; }

  // The successors of every vertex. Arcs between the two vertices of a kernel are not in the lists.
  void find_arcs() {
    begin_.assign(2 * kernels_ + 1, 0);
    for (const Edge& e : edges_) ++begin_[from(e) + 1];
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    std::vector<size_t> next(begin_.begin(), begin_.end() - 1);
    then_.resize(edges_.size());
    for (const Edge& e : edges_) then_[next[from(e)]++] = to(e);
  }
  size_t arc_count(size_t v) const {
    return begin_[v + 1] - begin_[v] + (v < kernels_ || !apart_[kernel_of(v)]);
  }
  size_t arc(size_t v, size_t i) const {
    if (i < begin_[v + 1] - begin_[v]) return then_[begin_[v] + i];
    return v < kernels_ ? storing(v) : kernel_of(v);
  }

  struct Store {
    double score; // bytes per edge that it removes
    size_t kernel;
    auto operator<=>(const Store&) const = default;
  };
  struct Snapshot {
    double score = 0;
    int contents = -1;
    std::vector<int> readers;
  };

  // Breaks every cycle at its cheapest place; false when there was none left.
  bool choose() {
    std::vector<Store> stores = candidate_stores();
    std::vector<double> best(components_, std::numeric_limits<double>::infinity());
    for (const Store& s : stores) best[component_[s.kernel]] = std::min(best[component_[s.kernel]], s.score);
    std::vector<Snapshot> snapshots = candidate_snapshots();
    for (size_t c = 0; c < components_; ++c)
      if (snapshots[c].score >= best[c]) snapshots[c].contents = -1;
    // All stores that share no edge are taken in one round, since they hardly influence each other: with one
    // store per round there would be as many rounds as stores.
    std::vector<bool> taken(kernels_, false), blocked(kernels_, false);
    bool more = false;
    for (const Store& s : stores) {
      if (blocked[s.kernel] || snapshots[component_[s.kernel]].contents >= 0) continue;
      std::vector<size_t> others;
      for (size_t v : {s.kernel, storing(s.kernel)})
        for (size_t i = begin_[v]; i < begin_[v + 1]; ++i) others.push_back(kernel_of(then_[i]));
      if (std::ranges::any_of(others, [&](size_t i) { return taken[i]; })) continue;
      for (size_t i : others) blocked[i] = true;
      taken[s.kernel] = apart_[s.kernel] = more = true;
      score_[s.kernel] = s.score;
      out_.through.push_back(int(s.kernel));
    }
    std::set<std::pair<int, int>> copied; // contents, reader
    for (Snapshot& s : snapshots) {
      if (s.contents < 0) continue;
      for (int reader : s.readers) copied.emplace(s.contents, reader);
      out_.snapshots.push_back({s.contents, std::move(s.readers)});
    }
    // The copy itself runs after the kernels that wrote the contents, as its readers do anyway.
    if (!copied.empty())
      std::erase_if(edges_, [&](const Edge& e) {
        return e.hazard == Hazard::WriteAfterRead && copied.contains({e.contents, e.first});
      });
    return more || !copied.empty();
  }

  // Stores in place that cycles go through, the cheapest first.
  std::vector<Store> candidate_stores() const {
    std::vector<int> in(kernels_, 0), out(kernels_, 0);
    for (const Edge& e : edges_) {
      if (e.hazard == Hazard::ReadAfterWrite || !inside(e)) continue;
      ++in[size_t(e.then)];
      if (e.hazard == Hazard::WriteAfterRead) ++out[size_t(e.first)];
    }
    std::vector<Store> candidates;
    for (size_t i = 0; i < kernels_; ++i)
      if (stores_[i] != kNoStore && !apart_[i] && in[i] && out[i])
        candidates.push_back({stores_[i] / std::min(in[i], out[i]), i});
    std::ranges::sort(candidates);
    return candidates;
  }

  // The cheapest snapshot for each component; contents -1 where none helps.
  std::vector<Snapshot> candidate_snapshots() const {
    // A snapshot runs after the writers of its contents. It helps readers that depend on something else, too.
    std::vector<int> all(kernels_, 0);
    std::map<std::pair<int, int>, int> for_contents; // by kernel and contents
    for (const Edge& e : edges_) {
      if ((e.hazard != Hazard::ReadAfterWrite && apart_[size_t(e.then)]) || !inside(e)) continue;
      ++all[size_t(e.then)];
      if (e.hazard == Hazard::ReadAfterWrite && e.contents >= 0) ++for_contents[{e.then, e.contents}];
    }
    struct Old {
      int edges = 0;
      std::vector<int> readers;
    };
    std::map<std::pair<size_t, int>, Old> old; // by component and contents
    for (const Edge& e : edges_) {
      if (e.hazard != Hazard::WriteAfterRead || !inside(e)) continue;
      auto it = for_contents.find({e.first, e.contents});
      if (all[size_t(e.first)] == (it == for_contents.end() ? 0 : it->second)) continue;
      Old& o = old[{component_[from(e)], e.contents}];
      ++o.edges;
      o.readers.push_back(e.first);
    }
    std::vector<Snapshot> best(components_);
    for (auto& [where, o] : old) {
      std::ranges::sort(o.readers);
      o.readers.erase(std::unique(o.readers.begin(), o.readers.end()), o.readers.end());
      double score = copy_bytes_(where.second, o.readers) / o.edges;
      if (Snapshot& b = best[where.first]; b.contents < 0 || score < b.score)
        b = {score, where.second, std::move(o.readers)};
    }
    return best;
  }

  // Tarjan's strongly connected components, without recursion.
  void find_components() {
    size_t n = 2 * kernels_;
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

  // Tries each by itself, the most expensive first.
  void drop_unnecessary() {
    std::vector<int> todo = out_.through;
    std::ranges::stable_sort(todo, [&](int a, int b) { return score_[size_t(a)] > score_[size_t(b)]; });
    std::vector<int> seen(2 * kernels_, -1);
    for (int kernel : todo) apart_[size_t(kernel)] = closes_cycle(size_t(kernel), seen);
    std::erase_if(out_.through, [&](int kernel) { return !apart_[size_t(kernel)]; });
  }

  // Whether a cycle leads through the kernel when it stores in place. Marks the vertices it visits with the
  // kernel's number.
  bool closes_cycle(size_t kernel, std::vector<int>& seen) const {
    std::vector<size_t> todo{kernel};
    while (!todo.empty()) {
      size_t v = todo.back();
      todo.pop_back();
      for (size_t i = 0; i < arc_count(v); ++i) {
        size_t to = arc(v, i);
        if (to == storing(kernel)) {
          if (v != kernel) return true;
        } else if (std::exchange(seen[to], int(kernel)) != int(kernel)) {
          todo.push_back(to);
        }
      }
    }
    return false;
  }

  std::vector<Edge> edges_; // except those that snapshots removed
  std::span<const double> stores_;
  const CopyBytes& copy_bytes_;
  size_t kernels_;
  std::vector<bool> apart_;   // by kernel: stores via a temporary
  std::vector<double> score_; // by kernel that does
  std::vector<size_t> begin_, then_;
  std::vector<size_t> component_; // by vertex
  size_t components_ = 0;
  CycleBreak out_;
};

} // namespace

CycleBreak break_cycles(std::vector<Edge> edges, std::span<const double> stores,
                        const CopyBytes& copy_bytes) {
  return Breaker(std::move(edges), stores, copy_bytes).run();
}

} // namespace tolk::schedule
