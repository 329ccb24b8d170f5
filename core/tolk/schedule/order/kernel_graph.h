// Kernel graphs: CALLs whose arguments name states of storage, and their order.
//
//   UOp b1 = after(b, {call(kernel, {b, a})});       // b once the kernel wrote it
//   UOp c1 = after(c, {call(other, {c, b1})});       // reads that state
//   schedule_kernel_graph(sink({c1}))                // LINEAR(CALL(kernel, b, a), CALL(other, c, b))
//
// A state of storage is one of
// - BUFFER, PARAM: the contents before any kernel ran;
// - AFTER(state, effects...) with a CALL, or END of a CALL, among the effects: the contents once these kernels
//   ran. They *supersede* the state below. AFTERs among the effects complete before them.
// - AFTER(state, AFTER...): a join. Kernels that wrote parts of one storage are each AFTER the same state; the
//   join has all of their writes. AFTERs of other storage only complete before it. AFTER(state) is `state`.
// SLICEs, views, MSELECT and MSTACK of states stand for the states below them. STOREs among the effects set
// variables and order nothing.
#pragma once

#include <boost/container/small_vector.hpp>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/schedule/fuse/access.h"
#include "tolk/schedule/order/dependencies.h"
#include "tolk/uop/traverse.h"
#include "tolk/uop/uop.h"

namespace tolk::schedule {

// The kernels of a graph, numbered as a depth first walk from the SINK meets them, and the order they need:
// a kernel runs after the kernels of every state that its arguments name, and before the kernels that
// supersede a state that it reads. One thread; all nodes in one home.
class KernelGraph {
public:
  // Throws InvalidArgument: "input to kernel must resolve to a buffer state, not <op>"; "AFTER source should
  // be CALL, END, STORE, or AFTER, not <op>".
  explicit KernelGraph(const UOp& sink);

  size_t size() const { return calls_.size(); }
  // The number of a CALL of the graph.
  int number(const UOp& call) const { return number_in(kernel_number_, call); }
  const Dependencies& dependencies() const { return dependencies_; }

  // The number of the contents that a state (AFTER, BUFFER or PARAM) names; equal states share it. -1 for
  // storage that no kernel reads or supersedes, and for a state of several storages.
  int contents(const UOp& state) const;
  bool is_superseded(int contents) const;

  // LINEAR of the CALLs in this order. Arguments are storage in place of states; those that bind variables
  // are dropped, except for calls of LINEARs, as a kernel's parameters number storage alone.
  UOp linear(const std::vector<int>& order) const;
  // Throws InvalidArgument "cycle detected" with the kernels of one cycle.
  [[noreturn]] void report_cycle() const;

private:
  using Numbers = boost::container::small_vector<int, 2>;
  struct State { // an AFTER
    UOp storage;
    Numbers contents; // one for each storage
    Numbers done;     // the kernels that have run once the state is reached
    bool own = false; // `done` are kernels among its effects
  };
  struct Overwriter {
    int kernel, state;
  };
  struct Contents {
    UOp base;                                                  // BUFFER or PARAM
    int number;                                                // in contents_
    std::vector<int> parts;                                    // of a join: contents that are no joins
    boost::container::small_vector<Overwriter, 1> overwritten; // of others: by kernels that supersede it
  };
  struct Read {
    int kernel, contents;
  };

  void add_after(const UOp& u);
  int add_kernel(const UOp& effect);
  void add_access(int kernel, const UOp& state, bool reads);
  void add_state(int kernel, const UOp& state, bool reads);
  bool add_read(int kernel, std::span<const int> contents);
  void order_overwriters();
  // From 0; -1 for a node that is not in the table.
  static int number_in(const Memo<uint32_t>& table, const UOp& u) {
    const uint32_t* number = table.find(u);
    return number ? int(*number) - 1 : -1;
  }
  const State& at(const UOp& after) const { return states_[size_t(number_in(after_number_, after))]; }
  Numbers contents_of(const UOp& state);
  Numbers joined(const UOp& after, const std::vector<UOp>& below);
  // Of other contents than a join: themselves. Valid until contents are added.
  std::span<const int> parts_of(int contents) const;
  int add_contents(UOp base, std::vector<int> parts = {});
  UOp storage_of(const UOp& u) const;
  UOp emitted(const UOp& call) const;

  std::vector<State> states_;
  std::vector<Contents> contents_;
  std::map<std::vector<int>, int> joins_;                       // contents by parts
  Memo<uint32_t> after_number_, kernel_number_, base_contents_; // from 1
  std::vector<UOp> calls_;
  Dependencies dependencies_;
  AccessTable accesses_;
  std::vector<Read> reads_;
  std::vector<UOp> below_, states_of_argument_;             // scratch
  std::vector<int> waited_, kernels_;                       // likewise
  std::vector<bool> opaque_;                                // by kernel: its body does not show its accesses
  std::set<std::pair<int, const UOpNode*>> opaque_results_; // kernel, base that it writes
};

// Takes a graph with a cycle, in place of an error.
using OnCycle = std::function<void(const KernelGraph& graph)>;

// The kernels below a SINK in an order to run; each kernel once, bodies untouched. A graph with a cycle, in
// which each kernel reads what the next overwrites, has no order: it is handed to `on_cycle`, and null is
// returned; without one, throws InvalidArgument "cycle detected" with the kernels on it. Also throws what
// KernelGraph throws.
TOLK_API UOp schedule_kernel_graph(const UOp& sink, const OnCycle& on_cycle = {});

} // namespace tolk::schedule
