#include "tolk/tensor/gradient.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tolk/schedule/tensor/multi_axis.h"
#include "tolk/schedule/tensor/realized.h"
#include "tolk/tensor/gradient_rules.h"
#include "tolk/tensor/tensor_internal.h"
#include "tolk/uop/print.h"
#include "tolk/uop/traverse.h"

namespace tolk {
namespace {

constexpr OpSet kReorders(Op::RESHAPE, Op::PERMUTE);

// A node of the loss's graph that stands for one of `wrt`, and the reorderings from it to that tensor. The
// constructors merge reorderings of reorderings, so a tensor that is one need not be in the graph itself.
struct Base {
  UOp node;
  std::vector<UOp> chain; // outermost first
};

// Reorderings, and the copy of host data to a device: sharding takes the data from the host directly.
bool has_other_names(const UOp& u) {
  return u.is(kReorders) || (u.is(Op::COPY) && device_of(u.src(0)) == "HOST");
}

Base base_of(UOp u) {
  Base base;
  for (; has_other_names(u); u = u.src(0)) base.chain.push_back(u);
  base.node = u;
  return base;
}

Tensor reordered(Tensor g, const std::vector<UOp>& chain) {
  for (size_t i = chain.size(); i-- > 0;) {
    const UOp& u = chain[i];
    if (u.is(Op::RESHAPE)) g = g.reshape(shape_of(u));
    if (u.is(Op::PERMUTE)) g = g.permute({u.arg().ints().begin(), u.arg().ints().end()});
    if (u.is(Op::COPY) && !g.device().empty()) g = g.to(device_text(u));
  }
  return g;
}

// Which values are local to each device of a list: their positions may hold different terms of an all-reduce.
// Results are memoized.
class Replicas {
public:
  bool operator()(const UOp& u) {
    for (const UOp& n : toposort(u, [this](const UOp& n) { return !known_.contains(n); }))
      if (!known_.contains(n)) known_.emplace(n, found(n));
    const Value& v = known_.at(u);
    return v.on == Several && !v.sharding.sharded();
  }

private:
  enum On { Nothing, One, Several };
  struct Value {
    On on = Nothing;
    schedule::Sharding sharding;
  };

  Value found(const UOp& u) {
    std::vector<schedule::Sharding> sources;
    On on = Nothing;
    for (const UOp& s : u.src()) {
      const Value& v = known_.at(s);
      sources.push_back(v.sharding);
      if (on == Nothing) on = v.on;
    }
    if (u.is(OpSet(Op::BUFFER, Op::PARAM, Op::COPY))) on = is_multi(device_text(u)) ? Several : One;
    if (u.is(Op::MSELECT)) on = One;
    if (u.is(Op::MSTACK)) on = u.nsrc() > 1 ? Several : One;
    return {on, schedule::sharding_from(u, sources)};
  }

  std::unordered_map<UOp, Value, UOpHash> known_;
};

// The gradient of a value. `whole`: of the value as one, the same on every device. `terms`, below an
// all-reduce only: position p's is that of what position p holds. The value's gradient is the sum of them
// all.
struct Arrived {
  Tensor whole, terms;
};

// The sum over the positions of `u`'s devices, on all of them.
Tensor over_positions(const Tensor& terms, const UOp& u) {
  if (is_multi(terms.device())) return Tensor(allreduce(terms.node(), Op::ADD));
  return terms * double(split_devices(device_of(u)).size());
}

Tensor plus(const Tensor& a, const Tensor& b) { return !a.defined() ? b : !b.defined() ? a : a + b; }

Tensor total_of(const Arrived& g, const UOp& u) {
  return g.terms.defined() ? plus(g.whole, over_positions(g.terms, u)) : g.whole;
}

class Pass {
public:
  // `wrt` in the order of the results.
  explicit Pass(std::span<const Tensor> wrt) {
    for (const Tensor& t : wrt) {
      std::vector<Base>& bases = targets_.emplace_back();
      auto add_base = [&](Base base) {
        if (std::any_of(bases.begin(), bases.end(), [&](const Base& b) { return b.node == base.node; }))
          return;
        bases_.insert(base.node);
        bases.push_back(std::move(base));
      };
      // The loss may be built on the tensor as it was before it was realised, or after, or both.
      std::vector<UOp> outer;
      for (UOp u = t.node();; u = u.src(0)) {
        if (UOp stored = schedule::realized_form(u); stored != u) {
          Base base = base_of(stored);
          base.chain.insert(base.chain.begin(), outer.begin(), outer.end());
          add_base(std::move(base));
          counted_below_.insert(u);
        }
        if (!has_other_names(u)) break;
        outer.push_back(u);
      }
      add_base(base_of(t.node()));
    }
  }

  std::vector<Tensor> run(const Tensor& loss, const Tensor& seed, std::span<const Tensor> wrt) {
    walk(loss.node());
    if (marked_.contains(loss.node())) gradients_[loss.node()].whole = seed;
    for (size_t i = order_.size(); i-- > 0;) {
      const UOp& u = order_[i];
      if (auto it = gradients_.find(u); it != gradients_.end()) pass_on(u, it->second);
    }
    std::vector<Tensor> out;
    for (size_t i = 0; i < wrt.size(); ++i) {
      Tensor total;
      for (const Base& b : targets_[i]) {
        auto it = gradients_.find(b.node);
        if (it == gradients_.end()) continue;
        total = plus(total, reordered(total_of(it->second, b.node), b.chain));
      }
      out.push_back(total.defined() ? total : Tensor::zeros(wrt[i].shape(), wrt[i].dtype()));
    }
    return out;
  }

private:
  // The storage that holds a value which was realised elsewhere: a second name of the same value.
  UOp stored_form(const UOp& u) const {
    if (counted_below_.contains(u)) return {};
    UOp stored = schedule::realized_form(u);
    return stored != u && bases_.contains(base_of(stored).node) ? stored : UOp();
  }

  // Sources first, and which nodes lie between the loss and a target.
  void walk(const UOp& loss) {
    struct Frame {
      UOp u;
      std::vector<UOp> next;
      size_t at = 0;
    };
    std::vector<Frame> stack;
    std::unordered_set<UOp, UOpHash> seen;
    auto visit = [&](const UOp& u) {
      if (!is_float(u.dtype()) || !seen.insert(u).second) return;
      Frame frame{u, detail::gradient_carriers(u)};
      if (UOp stored = stored_form(u)) frame.next.push_back(stored);
      stack.push_back(std::move(frame));
    };
    visit(loss);
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.at < top.next.size()) {
        UOp next = top.next[top.at++];
        visit(next);
        continue;
      }
      bool on_path = bases_.contains(top.u) || std::any_of(top.next.begin(), top.next.end(),
                                                           [&](const UOp& s) { return marked_.contains(s); });
      if (on_path) marked_.insert(top.u);
      order_.push_back(top.u);
      stack.pop_back();
    }
  }

  void pass_on(const UOp& u, const Arrived& c) {
    if (UOp stored = stored_form(u)) {
      if (c.whole.defined()) add(stored, c.whole, &Arrived::whole);
      if (c.terms.defined()) add(stored, c.terms, &Arrived::terms);
    }
    std::vector<UOp> carriers = detail::gradient_carriers(u);
    std::vector<bool> wanted;
    for (const UOp& s : carriers) wanted.push_back(marked_.contains(s));
    if (!any(wanted)) return;
    if (!detail::gradient_rule(u))
      throw InvalidArgument("no gradient goes through " + describe(u) +
                            "; detach it, or build the value from other operations");
    if (u.is(Op::MSTACK)) {
      // As one value the parts are replicas of each other, so none of them alone has a derivative.
      if (c.whole.defined())
        throw InvalidArgument("no gradient goes to the parts of " + describe(u) +
                              ": devices that hold different values meet in an allreduce first");
      return hand_on(u, carriers, c.terms, wanted, &Arrived::whole);
    }
    if (u.is(OpSet(Op::ALLREDUCE, Op::MSELECT)))
      return hand_on(u, carriers, total_of(c, u), wanted, &Arrived::terms);
    if (c.whole.defined()) hand_on(u, carriers, c.whole, wanted, &Arrived::whole);
    if (!c.terms.defined()) return;
    // What is one value, on one device or in parts, or was one when it was copied, gets the sum of the terms.
    std::vector<bool> as_terms = wanted;
    for (size_t i = 0; i < carriers.size(); ++i) {
      if (wanted[i]) as_terms[i] = !u.is(Op::COPY) && replicas_(carriers[i]);
      if (as_terms[i]) wanted[i] = false;
    }
    hand_on(u, carriers, c.terms, as_terms, &Arrived::terms);
    if (any(wanted)) hand_on(u, carriers, over_positions(c.terms, u), wanted, &Arrived::whole);
  }

  static bool any(const std::vector<bool>& wanted) {
    return std::find(wanted.begin(), wanted.end(), true) != wanted.end();
  }

  void hand_on(const UOp& u, const std::vector<UOp>& carriers, const Tensor& c,
               const std::vector<bool>& wanted, Tensor Arrived::* as) {
    if (!any(wanted)) return;
    std::vector<Tensor> results = detail::gradient_rule(u)({u, c, wanted});
    for (size_t i = 0; i < carriers.size(); ++i)
      if (wanted[i] && results[i].defined()) add(carriers[i], results[i], as);
  }

  void add(const UOp& u, Tensor g, Tensor Arrived::* as) {
    // A scalar operand met every element.
    if (shape_of(u).empty() && g.rank() > 0) g = g.sum_as(sum_dtype(g.dtype()), {}, false);
    g = g.cast(u.dtype());
    TOLK_CHECK(g.shape() == shape_of(u), "a gradient has the shape of its value");
    Tensor& total = gradients_[u].*as;
    total = plus(total, g);
  }

  std::vector<std::vector<Base>> targets_;
  std::unordered_set<UOp, UOpHash> bases_, marked_;
  // Values of `wrt` with storage whose own node gets the gradient; handing it to the storage too would count
  // it twice.
  std::unordered_set<UOp, UOpHash> counted_below_;
  std::vector<UOp> order_;
  Replicas replicas_;
  std::unordered_map<UOp, Arrived, UOpHash> gradients_;
};

void require_variable(const Tensor& t, size_t position) {
  if (!is_float(t.dtype()))
    throw InvalidArgument("a gradient needs float tensors; tensor " + std::to_string(position) +
                          " of wrt is " + name(t.dtype()));
  UOp u = t.node();
  while (u.is(ops::Movement | OpSet(Op::CAST))) u = u.src(0);
  if (u.is_const())
    throw InvalidArgument("a gradient needs variables; tensor " + std::to_string(position) +
                          " of wrt is a constant, and equal constants are one node; give it storage with "
                          "Tensor::from or contiguous().realize()");
}

} // namespace

std::vector<Tensor> gradient(const Tensor& loss, std::span<const Tensor> wrt, const Tensor& seed) {
  if (!is_float(loss.dtype()))
    throw InvalidArgument(std::string("a gradient needs a float loss, this one is ") + name(loss.dtype()));
  if (!seed.defined() && !(loss.numel() == 1))
    throw InvalidArgument("a gradient without a seed needs a loss of one element, this one has shape " +
                          to_string(loss.shape()) + "; reduce it, or give a seed of that shape");
  if (seed.defined() && !(seed.shape() == loss.shape()))
    throw InvalidArgument("the seed of a gradient must have the loss's shape " + to_string(loss.shape()) +
                          ", it has " + to_string(seed.shape()));
  for (size_t i = 0; i < wrt.size(); ++i) require_variable(wrt[i], i);
  Tensor first = seed.defined() ? seed.cast(loss.dtype()) : Tensor::ones(loss.shape(), loss.dtype());
  return Pass(wrt).run(loss, first, wrt);
}

} // namespace tolk
