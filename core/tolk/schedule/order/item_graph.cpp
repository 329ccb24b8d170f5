#include "tolk/schedule/order/item_graph.h"

#include <algorithm>

#include "tolk/schedule/tensor/views.h"
#include "tolk/uop/build.h"

namespace tolk::schedule {
namespace {

void sort_unique(std::vector<int>& numbers) {
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

// The BUFFER or PARAM below an argument of one storage.
const UOp& base_below(const UOp& argument) {
  const UOp* at = &argument;
  while (!at->is(OpSet(Op::BUFFER, Op::PARAM))) at = &at->src(0);
  return *at;
}

class Builder {
public:
  Builder(const Graph& graph, const std::vector<Item>& items) : graph_(graph), items_(items) {
    item_of_store_.assign(graph.nodes.size(), -1);
    for (size_t i = 0; i < items.size(); ++i)
      if (items[i].store >= 0) item_of_store_[size_t(items[i].store)] = int(i);
    out_.calls.resize(items.size());
    made_.resize(items.size());
    out_.states.resize(graph.nodes.size());
  }

  ItemGraph run() {
    afters_.resize(graph_.nodes.size());
    for (size_t n = 0; n < graph_.nodes.size(); ++n)
      if (graph_.nodes[n].kind == Kind::After) find_writers(int(n));
    std::vector<UOp> states;
    states.reserve(items_.size());
    for (size_t i = 0; i < items_.size(); ++i) states.push_back(made_by(int(i)));
    out_.sink = sink(states);
    return std::move(out_);
  }

private:
  // An AFTER of the tensor graph. Views of storage may be written apart and read together, and AFTERs with the
  // same stores are one state however they are put together.
  struct After {
    UOp base;
    std::vector<int> writers; // items of its stores, except overwritten ones
    std::vector<int> to_base; // of these, the ones that write its base
  };

  // The state of storage that a view reads; its AFTERs are known.
  State state_below(int n) const {
    auto kind = [&] { return graph_.nodes[size_t(n)].kind; };
    while (kind() != Kind::After && kind() != Kind::Storage) n = graph_.sources_of(n)[0];
    if (kind() == Kind::After) return {afters_[size_t(n)].base, n};
    return {base_of(graph_.nodes[size_t(n)].u), Graph::kNoState};
  }

  bool same_state(const State& a, const State& b) const {
    static const std::vector<int> none;
    auto writers = [&](const State& s) -> const std::vector<int>& {
      return s.after < 0 ? none : afters_[size_t(s.after)].to_base;
    };
    return a.base == b.base && writers(a) == writers(b);
  }

  void find_writers(int n) {
    After& out = afters_[size_t(n)];
    auto add_all = [&](int after) {
      const std::vector<int>& more = afters_[size_t(after)].writers;
      out.writers.insert(out.writers.end(), more.begin(), more.end());
    };
    for (int effect : graph_.sources_of(n).subspan(1)) {
      if (graph_.nodes[size_t(effect)].kind == Kind::Store)
        out.writers.push_back(item_of_store_[size_t(effect)]);
      else
        add_all(effect);
    }
    State before = state_below(graph_.sources_of(n)[0]);
    out.base = before.base;
    auto overwrites = [&](int writer) { return same_state(items_[size_t(writer)].superseded, before); };
    if (before.after >= 0 && std::ranges::none_of(out.writers, overwrites)) add_all(before.after);
    sort_unique(out.writers);
    std::ranges::copy_if(out.writers, std::back_inserter(out.to_base),
                         [&](int w) { return items_[size_t(w)].superseded.base == out.base; });
  }

  UOp state_of(const State& state) {
    if (state.after < 0) return state.base;
    UOp& known = out_.states[size_t(state.after)];
    if (known) return known;
    const After& after = afters_[size_t(state.after)];
    if (after.writers.empty()) return known = state.base;
    std::vector<UOp> made;
    for (int w : after.writers) made.push_back(made_by(w));
    bool one = made.size() == 1 && after.to_base.size() == 1;
    return known = one ? made[0] : tolk::after(after.base, made);
  }

  // The state that an item makes of what it overwrites. Items mostly need items before them, whose states are
  // known: this does not recurse deeply.
  UOp made_by(int i) {
    UOp& known = made_[size_t(i)];
    if (known) return known;
    const Item& item = items_[size_t(i)];
    std::vector<Named> read;
    for (int other : item.needs) read.push_back({base_below(items_[size_t(other)].src[1]), made_by(other)});
    for (const State& state : item.reads) read.push_back({state.base, state_of(state)});
    UOp superseded = base_below(item.src[1]);
    if (item.store >= 0) {
      superseded = state_of(item.superseded);
      read.push_back({item.superseded.base, superseded});
    }
    std::vector<UOp> src{item.src[0]};
    for (size_t k = 1; k < item.src.size(); ++k) src.push_back(argument(item.src[k], read));
    UOp call = make(Op::CALL, DType::Void, src);
    out_.calls[size_t(i)] = call;
    return known = tolk::after(superseded, std::span(&call, 1));
  }

  struct Named {
    UOp base, state;
  };

  // Storage in the states of its base that an item reads: mostly one. Parts of storage can be in several, and
  // so can storage that is read before and after a write, which no order allows.
  UOp argument(const UOp& u, const std::vector<Named>& read) {
    if (u.is(OpSet(Op::MSELECT, Op::MSTACK))) {
      std::vector<UOp> src;
      for (const UOp& s : u.src()) src.push_back(argument(s, read));
      return with_sources(u, src);
    }
    const UOp& base = base_below(u);
    std::vector<UOp> states;
    for (const Named& n : read)
      if (n.base == base && std::ranges::count(states, n.state) == 0) states.push_back(n.state);
    if (states.empty() || (states.size() == 1 && states[0] == base)) return u;
    bool join = states[0].is(Op::AFTER) && !states[0].src(1).is(Op::CALL);
    if (states.size() == 1 && u == base && !join) return states[0];
    for (UOp& s : states)
      if (s == base) s = make(Op::AFTER, base.dtype(), {base}); // a part of the join
    return tolk::after(u, states);
  }

  const Graph& graph_;
  const std::vector<Item>& items_;
  std::vector<int> item_of_store_;
  std::vector<After> afters_; // by node
  std::vector<UOp> made_;     // by item
  ItemGraph out_;
};

} // namespace

ItemGraph get_kernel_graph(const Graph& graph, const std::vector<Item>& items) {
  return Builder(graph, items).run();
}

} // namespace tolk::schedule
