#include "tolk/schedule/order/choose_copies.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "tolk/base/check.h"
#include "tolk/schedule/order/write_cycles.h"
#include "tolk/schedule/tensor/views.h"
#include "tolk/uop/build.h"

namespace tolk::schedule {
namespace {

double bytes_of(const UOp& value) {
  return double(storage_bytes(value.dtype(), uint64_t(max_numel(shape_of(value)))));
}

class Chooser {
public:
  Chooser(const Graph& graph, const Fusion& fusion, const std::vector<Item>& items, const ItemGraph& made,
          const KernelGraph& kernels)
      : graph_(graph), fusion_(fusion), items_(items), made_(made), kernels_(kernels),
        item_of_(kernels.size()) {
    for (size_t i = 0; i < items.size(); ++i) item_of_[size_t(kernels.number(made.calls[i]))] = i;
  }

  Copies run() const {
    std::vector<double> bytes; // of what the kernels store in place
    for (size_t item : item_of_) {
      int store = items_[item].store;
      // What HOST holds is copied to: no kernel would put a temporary into place there.
      bool in_place = store >= 0 && graph_.devices[size_t(node(store).device)] != "HOST";
      bytes.push_back(in_place ? bytes_of(node(store).u.src(0)) : kNoStore);
    }
    std::map<int, std::vector<Path>> paths; // by kernel
    auto views = [&](int contents, std::span<const int> readers) {
      std::vector<const Path*> all;
      for (int reader : readers) {
        auto [it, fresh] = paths.try_emplace(reader);
        if (fresh) it->second = paths_of(items_[item_of_[size_t(reader)]]);
        for (const Path& p : it->second)
          if (p.contents == contents) all.push_back(&p);
      }
      return cheapest(all);
    };
    CycleBreak found = break_cycles(distinct_edges(), bytes, [&](int contents, std::span<const int> readers) {
      double sum = 0;
      for (int n : views(contents, readers)) sum += bytes_of(node(n).u);
      return sum;
    });
    Copies out;
    for (const CycleBreak::Snapshot& copy : found.snapshots)
      for (int n : views(copy.contents, copy.readers)) out.snapshots.push_back(node(n).u);
    for (int kernel : found.through) out.through.push_back(items_[item_of_[size_t(kernel)]].store);
    TOLK_CHECK(!out.snapshots.empty() || !out.through.empty(), "copies break every cycle of writes");
    return out;
  }

private:
  const Node& node(int n) const { return graph_.nodes[size_t(n)]; }

  // Contents matter where a kernel reads them.
  std::vector<Edge> distinct_edges() const {
    std::vector<Edge> out;
    std::set<std::tuple<int, int, Hazard, int>> seen;
    for (Edge e : kernels_.dependencies().edges()) {
      if (e.hazard == Hazard::WriteAfterWrite) e.contents = -1;
      if (seen.emplace(e.first, e.then, e.hazard, e.contents).second) out.push_back(e);
    }
    return out;
  }

  // Views from the one that an expression reads down to the state that it reads.
  struct Path {
    int contents = -1;
    std::vector<int> views;
  };

  std::vector<Path> paths_of(const Item& item) const {
    std::vector<Path> out;
    std::span<const int> sources = graph_.sources_of(item.node);
    if (node(item.node).kind == Kind::Store) sources = sources.last(1);
    std::vector<int> todo(sources.begin(), sources.end());
    std::vector<bool> seen(graph_.nodes.size());
    while (!todo.empty()) {
      int n = todo.back();
      todo.pop_back();
      if (seen[size_t(n)]) continue;
      seen[size_t(n)] = true;
      if (fusion_.nodes[size_t(n)].stored && !is_alias(node(n).kind)) continue;
      if (viewed_storage(node(n).u))
        add_path(n, out);
      else
        for (int s : graph_.sources_of(n)) todo.push_back(s);
    }
    return out;
  }

  void add_path(int n, std::vector<Path>& out) const {
    Path path;
    while (path.views.push_back(n), node(n).kind != Kind::After && node(n).kind != Kind::Storage)
      n = graph_.sources_of(n)[0];
    path.contents =
        kernels_.contents(node(n).kind == Kind::After ? made_.states[size_t(n)] : base_of(node(n).u));
    if (path.contents >= 0 && kernels_.is_superseded(path.contents)) out.push_back(std::move(path));
  }

  // The smallest view that is on all paths; when there is none, that of each.
  std::vector<int> cheapest(std::span<const Path* const> paths) const {
    auto smallest = [this](std::vector<int> views) {
      return *std::ranges::min_element(views, {},
                                       [this](int n) { return std::pair(bytes_of(node(n).u), n); });
    };
    std::vector<int> common;
    for (size_t i = 0; i < paths.size(); ++i) {
      const std::vector<int>& views = paths[i]->views;
      if (i == 0)
        common = views;
      else
        std::erase_if(common, [&](int n) { return std::ranges::count(views, n) == 0; });
    }
    if (!common.empty()) return {smallest(common)};
    std::set<int> out;
    for (const Path* p : paths) out.insert(smallest(p->views));
    return {out.begin(), out.end()};
  }

  const Graph& graph_;
  const Fusion& fusion_;
  const std::vector<Item>& items_;
  const ItemGraph& made_;
  const KernelGraph& kernels_;
  std::vector<size_t> item_of_; // by kernel
};

} // namespace

Copies choose_copies(const Graph& graph, const Fusion& fusion, const std::vector<Item>& items,
                     const ItemGraph& made, const KernelGraph& kernels) {
  return Chooser(graph, fusion, items, made, kernels).run();
}

} // namespace tolk::schedule
