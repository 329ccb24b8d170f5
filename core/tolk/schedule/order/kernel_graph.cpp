#include "tolk/schedule/order/kernel_graph.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tolk/base/error.h"
#include "tolk/schedule/fuse/access.h"
#include "tolk/schedule/fuse/node_numbers.h"
#include "tolk/schedule/order/dependencies.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"
#include "tolk/uop/spec.h"
#include "tolk/uop/traverse.h"

namespace tolk::schedule {
namespace {

constexpr OpSet kStates(Op::AFTER, Op::BUFFER, Op::PARAM), kSeveral(Op::MSELECT, Op::MSTACK),
    kVariables(Op::BIND, Op::VAR);

// The first AFTER, storage, value on several devices or variable below views.
const UOp& unwrapped(const UOp& u) {
  const UOp* at = &u;
  while (!at->is(kStates | kSeveral | kVariables) && at->nsrc() > 0) at = &at->src(0);
  return *at;
}

void add_states(const UOp& u, std::vector<UOp>& states) {
  const UOp& at = unwrapped(u);
  if (at.is(kSeveral)) {
    for (const UOp& s : at.src()) add_states(s, states);
  } else if (at.is(kStates)) {
    states.push_back(at);
  } else if (!at.is(kVariables)) {
    throw InvalidArgument(std::string("input to kernel must resolve to a buffer state, not ") +
                          name(at.op()) + ": an argument is a BUFFER, PARAM or AFTER, or a view of one");
  }
}

class KernelOrder {
public:
  explicit KernelOrder(const UOp& sink) : sink_(sink), dependencies_(0) {}

  UOp run() {
    // Bodies are not walked: what is inside them is theirs.
    auto enter = [this](const UOp& u) {
      return u == sink_ || !u.is(OpSet(Op::SINK, Op::LINEAR, Op::PROGRAM, Op::CUSTOM_FUNCTION));
    };
    for (const UOp& u : toposort(sink_, enter))
      if (u.is(Op::AFTER)) add_after(u);
    for (const UOp& u : sink_.src())
      if (u.is(OpSet(Op::CALL, Op::END))) add_kernel(u);
    for (const Read& read : reads_) find_overwriters(read);
    answer_overwrites();
    std::vector<int> order = dependencies_.order();
    if (order.size() != kernels_.size()) report_cycle();
    std::vector<UOp> calls;
    for (int i : order) calls.push_back(emitted(kernels_[size_t(i)]));
    return linear(calls);
  }

private:
  struct After {
    UOp node;
    std::vector<int> kernels;
    std::vector<int> done; // kernels behind which it is reached
    std::vector<UOp> superseded;
    UOp storage; // whose state it is
  };
  struct Write {
    int after;
    std::vector<int> kernels; // that it adds to the state before
  };
  struct Read {
    int kernel;
    UOp state;
    bool surely; // it loads from it and does not store to it
  };

  // The After of an AFTER node: sources come before users.
  const After& at(const UOp& after) const { return afters_[after_number_.get(after) - 1]; }

  void add_after(const UOp& u) {
    afters_.emplace_back();
    after_number_[u] = uint32_t(afters_.size());
    auto number = int(afters_.size()) - 1;
    After a;
    a.node = u;
    a.storage = storage_of(u.src(0));
    add_states(u.src(0), a.superseded);
    std::vector<int> waited; // done before the kernels of this AFTER that are new
    std::vector<UOp> kernels;
    for (const UOp& effect : u.src().subspan(1)) {
      if (effect.is(OpSet(Op::CALL, Op::END))) {
        kernels.push_back(effect);
      } else if (effect.is(Op::AFTER)) {
        const After& dependency = at(effect);
        waited.insert(waited.end(), dependency.done.begin(), dependency.done.end());
      } else if (!effect.is(Op::STORE)) {
        throw InvalidArgument(std::string("AFTER source should be CALL, END, STORE, or AFTER, not ") +
                              name(effect.op()));
      }
    }
    for (const UOp& s : a.superseded)
      if (s.is(Op::AFTER)) waited.insert(waited.end(), at(s).done.begin(), at(s).done.end());
    Write write{number, {}};
    for (const UOp& k : kernels) {
      int kernel = add_kernel(k);
      a.kernels.push_back(kernel);
      bool known = std::ranges::any_of(a.superseded, [&](const UOp& s) {
        return s.is(Op::AFTER) && std::ranges::count(at(s).kernels, kernel) > 0;
      });
      if (known) continue;
      write.kernels.push_back(kernel);
      for (int other : waited) raw(other, kernel);
    }
    a.done = a.kernels.empty() ? waited : a.kernels;
    for (const UOp& s : a.superseded) writes_[state_number(s)].push_back(write);
    afters_[size_t(number)] = std::move(a);
  }

  size_t state_number(const UOp& state) {
    uint32_t& number = state_number_[state];
    if (!number) {
      writes_.emplace_back();
      number = uint32_t(writes_.size());
    }
    return number - 1;
  }

  int add_kernel(const UOp& effect) {
    const UOp* call = &effect;
    while (call->is(Op::END)) call = &call->src(0);
    if (!call->is(Op::CALL))
      throw InvalidArgument(std::string("END in a graph of kernels should wrap a CALL, not ") +
                            name(call->op()));
    uint32_t& number = kernel_number_[*call];
    if (number) return int(number) - 1;
    kernels_.push_back(*call);
    raw_.emplace_back();
    dependencies_.add_item();
    number = uint32_t(kernels_.size());
    int kernel = int(number) - 1;
    const AccessTable::Facts& facts = accesses_.of(call->src(0));
    std::vector<UOp> states;
    size_t k = 0;
    for (const UOp& argument : call->src().subspan(1)) {
      states.clear();
      add_states(argument, states);
      Access access = facts.of(k);
      k += is_storage_argument(unwrapped(argument));
      for (const UOp& s : states) {
        if (s.is(Op::AFTER))
          for (int other : at(s).done) raw(other, kernel);
        // Overwriting is not reading.
        if (access.reads) reads_.push_back({kernel, s, facts.known && !access.writes});
      }
    }
    return kernel;
  }

  // `first` makes what `then` reads or supersedes.
  void raw(int first, int then) {
    dependencies_.before(first, then);
    raw_[size_t(then)].push_back(first);
    rising_ &= first < then;
  }

  // Those who supersede a state come behind its readers.
  void find_overwriters(const Read& read) {
    uint32_t number = state_number_.get(read.state);
    if (!number) return;
    for (const Write& write : writes_[number - 1]) {
      if (std::ranges::count(afters_[size_t(write.after)].kernels, read.kernel) > 0) continue;
      for (int t : write.kernels)
        if (t != read.kernel) overwrites_.push_back({read.kernel, t, read.surely});
    }
  }

  // A kernel that the reader needs cannot come behind it. Where bodies do not show what they read, such an
  // argument is taken for a result; where they do, the reader wants what is gone, which the cycle reports.
  void answer_overwrites() {
    std::ranges::stable_sort(overwrites_, {}, &Overwrite::reader);
    for (size_t i = 0; i < overwrites_.size();) {
      size_t end = i;
      int reader = overwrites_[i].reader, least = int(kernels_.size());
      bool ask = false;
      for (; end < overwrites_.size() && overwrites_[end].reader == reader; ++end) {
        const Overwrite& o = overwrites_[end];
        if (o.surely || (rising_ && o.writer > reader)) continue;
        ask = true, least = std::min(least, o.writer);
      }
      if (ask) find_needed(reader, rising_ ? least : 0);
      for (; i < end; ++i) {
        const Overwrite& o = overwrites_[i];
        bool needed = ask && !o.surely && needed_by_[size_t(o.writer)] == reader;
        if (!needed) dependencies_.before(reader, o.writer);
      }
    }
  }

  // Marks the kernels of at least this number that `reader` needs, directly or not.
  void find_needed(int reader, int least) {
    needed_by_.resize(kernels_.size(), -1);
    std::vector<int> todo{reader};
    while (!todo.empty()) {
      int at = todo.back();
      todo.pop_back();
      for (int other : raw_[size_t(at)])
        if (other >= least && std::exchange(needed_by_[size_t(other)], reader) != reader)
          todo.push_back(other);
    }
  }

  [[noreturn]] void report_cycle() const {
    std::string text = "cycle detected in assign graph: ";
    std::vector<int> cycle = dependencies_.cycle();
    cycle.push_back(cycle.front());
    for (size_t i = 0; i < cycle.size(); ++i) {
      const UOp& call = kernels_[size_t(cycle[i])];
      text += i ? " -> " : "";
      text += "kernel " + std::to_string(cycle[i]);
      if (call.nsrc() > 1) text += " on " + print_expr(storage_of(call.src(1)));
    }
    throw InvalidArgument(text +
                          "; each reads what the next overwrites, so copy one of the old values first");
  }

  // The argument without AFTERs and views that keep storage: what the list of calls names.
  UOp storage_of(const UOp& u) const {
    const UOp* at = &u;
    while (!at->is(kStates | kSeveral | kVariables | OpSet(Op::SLICE))) at = &at->src(0);
    if (at->is(Op::AFTER)) return this->at(*at).storage;
    if (at->is(Op::SLICE)) return slice_over(*at, storage_of(at->src(0)));
    if (!at->is(kSeveral)) return *at;
    std::vector<UOp> src;
    for (const UOp& s : at->src()) src.push_back(storage_of(s));
    return with_sources(*at, src);
  }

  UOp emitted(const UOp& call) const {
    bool nested = call.src(0).is(Op::LINEAR);
    std::vector<UOp> src{call.src(0)};
    for (const UOp& argument : call.src().subspan(1)) {
      UOp storage = storage_of(argument);
      if (nested || !storage.is(kVariables)) src.push_back(storage);
    }
    return with_sources(call, src);
  }

  struct Overwrite {
    int reader, writer;
    bool surely;
  };

  const UOp& sink_;
  std::vector<After> afters_;
  NodeNumbers after_number_, kernel_number_, state_number_; // from 1
  std::vector<UOp> kernels_;
  std::vector<std::vector<int>> raw_; // by kernel: those whose results it reads
  bool rising_ = true;                // those have smaller numbers
  Dependencies dependencies_;
  AccessTable accesses_;
  std::vector<std::vector<Write>> writes_; // by number of the superseded state
  std::vector<Read> reads_;
  std::vector<Overwrite> overwrites_;
  std::vector<int> needed_by_; // by kernel: the reader that was last found to need it
};

} // namespace

UOp schedule_kernel_graph(const UOp& sink) {
  if (!sink.is(Op::SINK))
    throw InvalidArgument(std::string("a graph of kernels is rooted in a SINK, not ") + name(sink.op()));
  UOp list = KernelOrder(sink).run();
  verify_stage(list, Stage::KernelGraph);
  return list;
}

} // namespace tolk::schedule
