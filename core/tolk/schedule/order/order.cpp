#include "tolk/schedule/order/order.h"

#include <algorithm>
#include <map>

#include "tolk/base/check.h"
#include "tolk/schedule/order/dependencies.h"
#include "tolk/schedule/order/write_cycles.h"
#include "tolk/schedule/tensor/views.h"
#include "tolk/uop/build.h"

namespace tolk::schedule {
namespace {

double bytes_of(const UOp& value) {
  return double(storage_bytes(value.dtype(), uint64_t(max_numel(shape_of(value)))));
}

class Orderer {
public:
  Orderer(const Graph& graph, const Fusion& fusion, const std::vector<Item>& items)
      : graph_(graph), fusion_(fusion), items_(items) {}

  Order run() {
    find_states();
    Dependencies dependencies(items_.size());
    each_wait([&](const Wait& w) { dependencies.before(w.first, w.then); });
    Order out;
    out.items = dependencies.order();
    if (out.items.size() == items_.size()) return out;
    out.items.clear();
    make_room(out);
    return out;
  }

private:
  using Key = std::pair<const UOpNode*, int>;
  Key key(const State& state) const {
    return {state.base.node(), state.after < 0 ? -1 : same_state_[size_t(state.after)]};
  }
  const Node& node(int n) const { return graph_.nodes[size_t(n)]; }

  template <typename F> void each_wait(F tell) const {
    auto after_writers = [&](int state, int item, Wait::Why why, int number) {
      if (state < 0) return;
      for (int writer : writers_[size_t(state)]) tell(Wait{writer, item, why, number});
    };
    for (size_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      for (int other : item.needs) tell(Wait{other, int(i), Wait::Value});
      for (const State& state : item.reads) {
        auto it = ended_by_.find(key(state));
        after_writers(state.after, int(i), Wait::Value, it == ended_by_.end() ? -1 : it->second.number);
      }
      if (item.store >= 0) after_writers(item.superseded.after, int(i), Wait::Overwrite, -1);
    }
    // Readers of a state come before the stores that end it.
    for (size_t i = 0; i < items_.size(); ++i)
      for (const State& state : items_[i].reads)
        if (auto it = ended_by_.find(key(state)); it != ended_by_.end())
          for (int writer : it->second.writers) tell(Wait{int(i), writer, Wait::Old, it->second.number});
  }

  // Stores behind every AFTER, and which AFTERs are the same state: those of the same stores to its storage.
  void find_states() {
    std::vector<int> item_of_store(graph_.nodes.size(), -1);
    for (size_t i = 0; i < items_.size(); ++i)
      if (items_[i].store >= 0) item_of_store[size_t(items_[i].store)] = int(i);
    writers_.resize(graph_.nodes.size());
    same_state_.resize(graph_.nodes.size());
    parts_.resize(graph_.nodes.size());
    bases_.resize(graph_.nodes.size());
    std::map<std::vector<int>, int> first_with;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (graph_.nodes[n].kind != Kind::After) continue;
      std::vector<int>& writers = writers_[n];
      std::vector<int> parts;
      auto put_in = [&](int after) {
        const std::vector<int>& more = writers_[size_t(after)];
        writers.insert(writers.end(), more.begin(), more.end());
        parts.push_back(after);
      };
      for (int effect : graph_.sources_of(int(n)).subspan(1)) {
        if (graph_.nodes[size_t(effect)].kind == Kind::Store)
          writers.push_back(item_of_store[size_t(effect)]);
        else
          put_in(effect);
      }
      // One that overwrites what the view was before waits for those who made that.
      State before = state_below(graph_.sources_of(int(n))[0]);
      bases_[n] = before.base;
      auto overwrites = [&](int writer) { return key(items_[size_t(writer)].superseded) == key(before); };
      if (before.after >= 0 && std::ranges::none_of(writers, overwrites)) put_in(before.after);
      sort_out(writers);
      std::vector<int> to_this = writers;
      std::erase_if(to_this, [&](int w) { return items_[size_t(w)].superseded.base != before.base; });
      same_state_[n] = to_this.empty() ? Graph::kNoState : first_with.emplace(to_this, int(n)).first->second;
      for (int part : parts) {
        if (same_state_[size_t(part)] != same_state_[n])
          parts_[n].push_back(part);
        else
          parts_[n].insert(parts_[n].end(), parts_[size_t(part)].begin(), parts_[size_t(part)].end());
      }
    }
    for (size_t i = 0; i < items_.size(); ++i)
      if (items_[i].store >= 0) end(items_[i].superseded, int(i));
  }

  static void sort_out(std::vector<int>& numbers) {
    std::ranges::sort(numbers);
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  }

  // The state of storage that a view reads; of AFTERs that were met.
  State state_below(int n) const {
    while (node(n).kind != Kind::After && node(n).kind != Kind::Storage) n = graph_.sources_of(n)[0];
    if (node(n).kind == Kind::After) return {bases_[size_t(n)], n};
    return {base_of(node(n).u), Graph::kNoState};
  }

  // The store ends the state, and those of parts that it was put together from.
  void end(const State& state, int store) {
    auto [it, fresh] = ended_by_.try_emplace(key(state), Ended{int(ended_by_.size()), {}});
    std::vector<int>& writers = it->second.writers;
    if (!writers.empty() && writers.back() == store) return;
    writers.push_back(store);
    if (state.after < 0) return;
    for (int part : parts_[size_t(state.after)]) end({state.base, part}, store);
  }

  // ---- circles

  void make_room(Order& out) const {
    std::vector<Wait> waits;
    each_wait([&](const Wait& w) {
      if (w.first != w.then) waits.push_back(w);
    });
    std::vector<double> bytes; // of what the items store in place
    for (const Item& item : items_) {
      // What HOST holds is copied to: no kernel would put a temporary into place there.
      bool through = item.store >= 0 && graph_.devices[size_t(node(item.store).device)] != "HOST";
      bytes.push_back(through ? bytes_of(node(item.store).u.src(0)) : kNoStore);
    }
    std::map<int, std::vector<Path>> paths; // by item
    auto views = [&](int state, std::span<const int> readers) {
      std::vector<const Path*> all;
      for (int reader : readers) {
        auto [it, fresh] = paths.try_emplace(reader);
        if (fresh) it->second = paths_of(items_[size_t(reader)]);
        for (const Path& p : it->second)
          if (p.state == state) all.push_back(&p);
      }
      return cheapest(all);
    };
    BrokenCircles broken =
        break_circles(std::move(waits), bytes, [&](int state, std::span<const int> readers) {
          double sum = 0;
          for (int n : views(state, readers)) sum += bytes_of(node(n).u);
          return sum;
        });
    for (const BrokenCircles::Copy& copy : broken.copies)
      for (int n : views(copy.state, copy.readers)) out.copied.push_back(node(n).u);
    for (int item : broken.through) out.through.push_back(items_[size_t(item)].store);
    TOLK_CHECK(!out.copied.empty() || !out.through.empty(), "copies end every circle of stores");
  }

  // Views from the one that an expression reads down to the state that it reads.
  struct Path {
    int state;
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
    auto it = ended_by_.find(key(state_below(n)));
    while (path.views.push_back(n), node(n).kind != Kind::After && node(n).kind != Kind::Storage)
      n = graph_.sources_of(n)[0];
    if (it == ended_by_.end()) return; // nothing overwrites it
    path.state = it->second.number;
    out.push_back(std::move(path));
  }

  // The smallest view that is on all paths; when there is none, that of each.
  std::vector<int> cheapest(std::span<const Path* const> paths) const {
    auto smallest = [this](std::vector<int> views) {
      return *std::ranges::min_element(views, {},
                                       [this](int n) { return std::pair(bytes_of(node(n).u), n); });
    };
    std::vector<int> common, out;
    for (size_t i = 0; i < paths.size(); ++i) {
      const std::vector<int>& views = paths[i]->views;
      if (i == 0)
        common = views;
      else
        std::erase_if(common, [&](int n) { return std::ranges::count(views, n) == 0; });
    }
    if (!common.empty()) return {smallest(common)};
    for (const Path* p : paths) out.push_back(smallest(p->views));
    sort_out(out);
    return out;
  }

  const Graph& graph_;
  const Fusion& fusion_;
  const std::vector<Item>& items_;
  std::vector<std::vector<int>> writers_; // by AFTER node: items of its stores
  std::vector<int> same_state_;           // by AFTER node: the first of the same state, kNoState: initial
  std::vector<UOp> bases_;                // by AFTER node: what it is a view of
  std::vector<std::vector<int>> parts_;   // by AFTER node: others that it is put together from
  struct Ended {
    int number;
    std::vector<int> writers;
  };
  std::map<Key, Ended> ended_by_; // looked up only: the order of keys does not matter
};

} // namespace

Order order_items(const Graph& graph, const Fusion& fusion, const std::vector<Item>& items) {
  return Orderer(graph, fusion, items).run();
}

} // namespace tolk::schedule
