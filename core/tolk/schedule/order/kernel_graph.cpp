#include "tolk/schedule/order/kernel_graph.h"

#include <algorithm>
#include <string>

#include "tolk/base/error.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"
#include "tolk/uop/spec.h"
#include "tolk/uop/storage_ref.h"
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

template <typename Numbers> void sort_unique(Numbers& numbers) {
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

template <typename To, typename From> void append(To& to, const From& from) {
  to.insert(to.end(), from.begin(), from.end());
}

} // namespace

KernelGraph::KernelGraph(const UOp& sink) {
  // Of a tensor program, every source is the state that one kernel makes.
  size_t kernels = sink.nsrc();
  states_.reserve(kernels), contents_.reserve(2 * kernels), calls_.reserve(kernels);
  reads_.reserve(3 * kernels), dependencies_.reserve(4 * kernels);
  // Bodies are graphs of their own.
  auto enter = [&](const UOp& u) {
    return u == sink || !u.is(OpSet(Op::SINK, Op::LINEAR, Op::PROGRAM, Op::CUSTOM_FUNCTION));
  };
  for (const UOp& u : toposort(sink, enter))
    if (u.is(Op::AFTER)) add_after(u);
  for (const UOp& u : sink.src())
    if (u.is(OpSet(Op::CALL, Op::END))) add_kernel(u);
  order_overwriters();
}

void KernelGraph::add_after(const UOp& u) {
  State state;
  state.storage = storage_of(u.src(0));
  std::vector<UOp>& below = below_;
  std::vector<int>&waited = waited_, &kernels = kernels_;
  below.clear(), waited.clear(), kernels.clear();
  add_states(u.src(0), below);
  for (const UOp& effect : u.src().subspan(1)) {
    if (effect.is(OpSet(Op::CALL, Op::END)))
      kernels.push_back(add_kernel(effect));
    else if (effect.is(Op::AFTER))
      append(waited, at(effect).done);
    else if (!effect.is(Op::STORE))
      throw InvalidArgument(std::string("AFTER source should be CALL, END, STORE, or AFTER, not ") +
                            name(effect.op()));
  }
  for (const UOp& s : below)
    if (s.is(Op::AFTER)) append(waited, at(s).done);
  auto number = int(states_.size());
  if (kernels.empty()) {
    state.contents = joined(u, below);
    sort_unique(waited);
    state.done.assign(waited.begin(), waited.end());
  } else {
    state.own = true;
    state.done.assign(kernels.begin(), kernels.end());
    // A kernel that the state below has already is repeated here, and supersedes nothing.
    auto repeated = [&](int kernel) {
      return std::ranges::any_of(below, [&](const UOp& s) {
        return s.is(Op::AFTER) && at(s).own && std::ranges::count(at(s).done, kernel) > 0;
      });
    };
    std::erase_if(kernels, repeated);
    for (int kernel : kernels)
      for (int other : waited) dependencies_.add({other, kernel, Hazard::WriteAfterWrite});
    for (const UOp& s : below) {
      for (int c : contents_of(s)) {
        UOp base = contents_[size_t(c)].base;
        for (int kernel : state.done)
          if (opaque_[size_t(kernel)]) opaque_results_.emplace(kernel, base.node());
        for (int part : parts_of(c))
          for (int kernel : kernels) contents_[size_t(part)].overwritten.push_back({kernel, number});
        state.contents.push_back(add_contents(std::move(base)));
      }
    }
  }
  states_.push_back(std::move(state));
  after_number_.set(u, uint32_t(states_.size()));
}

// Contents of an AFTER without kernels. For each storage: the parts that AFTERs among the effects name,
// otherwise the state below.
KernelGraph::Numbers KernelGraph::joined(const UOp& after, const std::vector<UOp>& below) {
  Numbers out;
  for (const UOp& s : below) {
    for (int c : contents_of(s)) {
      const UOp base = contents_[size_t(c)].base;
      std::vector<int> parts;
      for (const UOp& effect : after.src().subspan(1)) {
        if (!effect.is(Op::AFTER)) continue;
        for (int other : at(effect).contents)
          if (contents_[size_t(other)].base == base) append(parts, parts_of(other));
      }
      if (parts.empty() || s.is(Op::AFTER)) append(parts, parts_of(c));
      sort_unique(parts);
      if (parts.size() == 1) {
        out.push_back(parts[0]);
        continue;
      }
      auto [it, fresh] = joins_.try_emplace(parts, int(contents_.size()));
      if (fresh) add_contents(base, std::move(parts));
      out.push_back(it->second);
    }
  }
  sort_unique(out);
  return out;
}

std::span<const int> KernelGraph::parts_of(int contents) const {
  const Contents& c = contents_[size_t(contents)];
  return c.parts.empty() ? std::span(&c.number, 1) : std::span<const int>(c.parts);
}

int KernelGraph::add_contents(UOp base, std::vector<int> parts) {
  auto number = int(contents_.size());
  contents_.push_back({std::move(base), number, std::move(parts), {}});
  return number;
}

KernelGraph::Numbers KernelGraph::contents_of(const UOp& state) {
  if (state.is(Op::AFTER)) return at(state).contents;
  int number = number_in(base_contents_, state);
  if (number < 0) base_contents_.set(state, uint32_t(number = add_contents(state)) + 1);
  return {number};
}

int KernelGraph::contents(const UOp& state) const {
  if (!state.is(Op::AFTER)) return number_in(base_contents_, state);
  int number = number_in(after_number_, state);
  if (number < 0 || states_[size_t(number)].contents.size() != 1) return -1;
  return states_[size_t(number)].contents[0];
}

bool KernelGraph::is_superseded(int contents) const {
  return std::ranges::any_of(parts_of(contents),
                             [&](int part) { return !contents_[size_t(part)].overwritten.empty(); });
}

int KernelGraph::add_kernel(const UOp& effect) {
  const UOp* call = &effect;
  while (call->is(Op::END)) call = &call->src(0);
  if (!call->is(Op::CALL))
    throw InvalidArgument(std::string("END in a graph of kernels should wrap a CALL, not ") +
                          name(call->op()));
  if (int known = number(*call); known >= 0) return known;
  auto kernel = int(calls_.size());
  calls_.push_back(*call);
  kernel_number_.set(*call, uint32_t(kernel) + 1);
  dependencies_.add_kernel();
  const AccessTable::Facts& facts = accesses_.of(call->src(0));
  opaque_.push_back(!facts.known);
  std::vector<UOp>& states = states_of_argument_;
  size_t k = 0;
  for (const UOp& argument : call->src().subspan(1)) {
    states.clear();
    add_states(argument, states);
    bool reads = facts.of(k).reads;
    k += is_storage_argument(unwrapped(argument));
    for (const UOp& s : states) add_access(kernel, s, reads);
  }
  return kernel;
}

// An argument that is a join reads each of the states that it names, on its own: they may be the old and the
// new contents of one storage.
void KernelGraph::add_access(int kernel, const UOp& state, bool reads) {
  if (!state.is(Op::AFTER) || at(state).own || state.nsrc() == 1) return add_state(kernel, state, reads);
  Numbers whole = contents_of(state);
  bool named = false;
  for (const UOp& effect : state.src().subspan(1)) {
    if (!effect.is(Op::AFTER)) continue;
    bool same = std::ranges::any_of(at(effect).contents, [&](int c) {
      return std::ranges::any_of(
          whole, [&](int w) { return contents_[size_t(w)].base == contents_[size_t(c)].base; });
    });
    add_state(kernel, effect, reads && same);
    named |= same;
  }
  if (named) return;
  std::vector<UOp> below;
  add_states(state.src(0), below);
  for (const UOp& s : below) add_access(kernel, s, reads);
}

void KernelGraph::add_state(int kernel, const UOp& state, bool reads) {
  Numbers contents = contents_of(state);
  if (reads && !add_read(kernel, contents)) return;
  if (!state.is(Op::AFTER)) return;
  Hazard hazard = reads ? Hazard::ReadAfterWrite : Hazard::WriteAfterWrite;
  for (int other : at(state).done)
    dependencies_.add({other, kernel, hazard, contents.size() == 1 ? contents[0] : -1});
}

// False when the kernel was known to read all of these.
bool KernelGraph::add_read(int kernel, std::span<const int> contents) {
  bool fresh = false;
  for (int c : contents) {
    bool known = false;
    for (size_t i = reads_.size(); i-- > 0 && reads_[i].kernel == kernel && !known;)
      known = reads_[i].contents == c;
    if (known) continue;
    reads_.push_back({kernel, c});
    fresh = true;
  }
  return fresh;
}

// Kernels that supersede contents run after their readers.
void KernelGraph::order_overwriters() {
  for (const Read& read : reads_) {
    // An opaque kernel does not read what it is said to write.
    const Contents& c = contents_[size_t(read.contents)];
    if (opaque_[size_t(read.kernel)] && opaque_results_.contains({read.kernel, c.base.node()})) continue;
    for (int part : parts_of(read.contents)) {
      for (const Overwriter& o : contents_[size_t(part)].overwritten) {
        // Kernels of one state are not ordered by it.
        if (std::ranges::count(states_[size_t(o.state)].done, read.kernel) > 0) continue;
        dependencies_.add({read.kernel, o.kernel, Hazard::WriteAfterRead, read.contents});
      }
    }
  }
}

void KernelGraph::report_cycle() const {
  std::string text = "cycle detected in assign graph: ";
  std::vector<int> cycle = dependencies_.cycle();
  cycle.push_back(cycle.front());
  for (size_t i = 0; i < cycle.size(); ++i) {
    const UOp& call = calls_[size_t(cycle[i])];
    text += i ? " -> " : "";
    text += "kernel " + std::to_string(cycle[i]);
    if (call.nsrc() > 1) text += " on " + print_expr(storage_of(call.src(1)));
  }
  throw InvalidArgument(text + "; each reads what the next overwrites, so copy one of the old values first");
}

// The argument without AFTERs and views that keep storage: what the list of calls names.
UOp KernelGraph::storage_of(const UOp& u) const {
  const UOp* at = &u;
  while (!at->is(kStates | kSeveral | kVariables | OpSet(Op::SLICE))) at = &at->src(0);
  if (at->is(Op::AFTER)) return this->at(*at).storage;
  if (at->is(Op::SLICE)) return slice_over(*at, storage_of(at->src(0)));
  if (!at->is(kSeveral)) return *at;
  std::vector<UOp> src;
  for (const UOp& s : at->src()) src.push_back(storage_of(s));
  return with_sources(*at, src);
}

UOp KernelGraph::emitted(const UOp& call) const {
  bool nested = call.src(0).is(Op::LINEAR);
  std::vector<UOp> src{call.src(0)};
  for (const UOp& argument : call.src().subspan(1)) {
    UOp storage = storage_of(argument);
    if (nested || !storage.is(kVariables)) src.push_back(std::move(storage));
  }
  return with_sources(call, src);
}

UOp KernelGraph::linear(const std::vector<int>& order) const {
  std::vector<UOp> calls;
  calls.reserve(order.size());
  for (int i : order) calls.push_back(emitted(calls_[size_t(i)]));
  return tolk::linear(calls);
}

UOp schedule_kernel_graph(const UOp& sink, const OnCycle& on_cycle) {
  if (!sink.is(Op::SINK))
    throw InvalidArgument(std::string("a graph of kernels is rooted in a SINK, not ") + name(sink.op()));
  KernelGraph graph(sink);
  std::vector<int> order = graph.dependencies().order();
  if (order.size() == graph.size()) {
    UOp list = graph.linear(order);
    verify_stage(list, Stage::KernelGraph);
    return list;
  }
  if (!on_cycle) graph.report_cycle();
  on_cycle(graph);
  return {};
}

} // namespace tolk::schedule
