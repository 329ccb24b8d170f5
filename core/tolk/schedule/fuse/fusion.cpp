#include "tolk/schedule/fuse/fusion.h"

#include <algorithm>
#include <map>
#include <set>

#include "tolk/base/error.h"
#include "tolk/schedule/fuse/cost.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"

namespace tolk::schedule {
namespace {

// A value that is used in more ways than this is stored; values of a few operations may be computed more
// often.
constexpr size_t kMaxUses = 8, kMaxUsesOfSmall = 64;
constexpr double kSmallCost = 4;
// Expressions beyond this size are cut: code generation is not linear in it, and a giant kernel gains nothing.
constexpr int kMaxKernelSize = 600;
// Loops of one kernel beyond which reductions are stored.
constexpr int kManyLoops = 40;
// A reduction read through a pad may run this much more often than it has elements.
constexpr double kPadTolerance = 1.125;

double extent_of(const UOp& range) { return double(range.vmax()) + 1; }

class Pass {
public:
  Pass(const Graph& graph, IndexSpace& index, const std::vector<bool>& stored)
      : graph_(graph), index_(index), stored_(stored) {
    out_.nodes.resize(graph.nodes.size());
  }

  Fusion run() {
    for (int n = int(graph_.nodes.size()); n-- > 0;) visit(n);
    return std::move(out_);
  }
  // Reductions that were stored by rule, not by request.
  const std::vector<int>& cut_reductions() const { return cut_reductions_; }

private:
  const Node& node(int n) const { return graph_.nodes[size_t(n)]; }

  void visit(int n) {
    const Node& at = node(n);
    FusedNode& fused = out_.nodes[size_t(n)];
    if (at.kind == Kind::Store) {
      Use own = open_kernel(n, shape_of(at.u.src(0)));
      // The target's index is found with the kernel; only the value is a use.
      finish(n, own,
             {-1, link(graph_.sources_of(n).back(), own, value_tuple(n, 1, own.tuple), {}, own.loops)});
      return;
    }
    fused.stored = decide(n);
    if (fused.stored) {
      if (is_alias(at.kind)) return;
      if (at.kind == Kind::Copy) {
        fused.kernel = int(out_.kernels.size());
        out_.kernels.push_back({n, {}, 0, 0, false});
        return;
      }
      Use own = open_kernel(n, shape_of(at.u));
      propagate(n, own);
      finish(n, own, {});
      return;
    }
    for (size_t i = 0; i < fused.uses.size(); ++i) propagate(n, fused.uses[i]);
  }

  // A kernel that computes node n, with a loop for every axis of the shape.
  Use open_kernel(int n, const Shape& shape) {
    Use own;
    own.kernel = int(out_.kernels.size());
    out_.kernels.push_back({n, {}, 0, 0, false});
    std::vector<UOp> at;
    for (const SInt& size : shape)
      at.push_back(size == 1 ? index_const(0) : open_loop(own, size.uop(), AxisType::Loop));
    out_.kernels.back().result_loops = int(out_.kernels.back().loops.size());
    own.tuple = index_.intern(std::move(at));
    return own;
  }

  UOp open_loop(Use& use, const UOp& extent, AxisType type) {
    auto& loops = out_.kernels[size_t(use.kernel)].loops;
    if (int(loops.size()) >= IndexSpace::kMaxLoops)
      throw InvalidArgument("a kernel would need more than " + std::to_string(IndexSpace::kMaxLoops) +
                            " loops; make a value in the middle contiguous: " +
                            describe(node(out_.kernels[size_t(use.kernel)].node).u));
    loops.push_back(range_node(extent, int64_t(loops.size()), type));
    use.loops |= uint64_t(1) << (loops.size() - 1);
    return loops.back();
  }

  void finish(int n, Use& own, std::initializer_list<int> links) {
    if (links.size()) {
      own.links = int(out_.links.size());
      out_.links.insert(out_.links.end(), links);
    }
    FusedNode& fused = out_.nodes[size_t(n)];
    fused.kernel = own.kernel;
    fused.own = int(out_.own.size());
    out_.own.push_back(std::move(own));
  }

  // How often a use runs: all its open loops, or only those up to the innermost one that the index contains,
  // since what is constant in the loops inside that is computed before them.
  double iterations(const Use& use, bool hoisted) {
    uint64_t loops = use.loops;
    if (hoisted) {
      uint64_t present = loops & index_.loops_in(use.tuple);
      loops = present ? loops & (~uint64_t(0) >> __builtin_clzll(present)) : 0;
    }
    double n = 1;
    const auto& ranges = out_.kernels[size_t(use.kernel)].loops;
    for (; loops; loops &= loops - 1) n *= extent_of(ranges[size_t(__builtin_ctzll(loops))]);
    return n;
  }

  bool decide(int n) {
    const Node& at = node(n);
    const auto& uses = out_.nodes[size_t(n)].uses;
    if (stored_[size_t(n)]) return true;
    if (uses.empty()) return false;
    switch (at.kind) {
    case Kind::Elementwise:
    case Kind::Gather:
    case Kind::Reduce:
      break;
    default:
      return false;
    }
    if (at.kind == Kind::Reduce && at.reads) {
      if (!computed_once(n) || (at.contraction && !has_own_kernel(n))) {
        cut_reductions_.push_back(n);
        return true;
      }
      return false;
    }
    // The device of a value that depends on no storage is not known yet.
    if (at.device < 0 && graph_.devices.size() > 1) return false;
    if (uses.size() > (at.cost <= kSmallCost ? kMaxUsesOfSmall : kMaxUses)) return true;
    double evaluations = 0;
    int most = 0;
    for (const Use& use : uses) {
      evaluations += iterations(use, true);
      most = std::max(most, out_.kernels[size_t(use.kernel)].size);
    }
    if (most > kMaxKernelSize && at.cost > kSmallCost) return true;
    return worth_storing(at, evaluations, int(uses.size()));
  }

  bool computed_once(int n) {
    const auto& uses = out_.nodes[size_t(n)].uses;
    if (uses.size() > 1) return false;
    const Use& use = uses[0];
    if (use.loops & ~index_.loops_in(use.tuple)) return false;
    const FusedKernel& kernel = out_.kernels[size_t(use.kernel)];
    if (int(kernel.loops.size()) > kManyLoops || kernel.size > kMaxKernelSize) return false;
    double most = double(node(n).numel) * (use.gate ? kPadTolerance : 1);
    return iterations(use, false) <= most;
  }

  // Whether the one use of a contraction is outside every other reduction, in a kernel without another
  // contraction.
  bool has_own_kernel(int n) {
    const Use& use = out_.nodes[size_t(n)].uses[0];
    FusedKernel& kernel = out_.kernels[size_t(use.kernel)];
    bool nested = use.loops >> kernel.result_loops != 0;
    if (nested || kernel.contracts) return false;
    kernel.contracts = true;
    return true;
  }

  // The tuple at which source `i` of an elementwise op or a STORE is read: scalars meet every shape.
  TupleId value_tuple(int n, size_t i, TupleId tuple) {
    return shape_of(node(n).u.src(i)).empty() ? index_.intern({}) : tuple;
  }

  // The number of the use among those of node n, which it joins or becomes.
  int link(int n, const Use& user, TupleId tuple, const UOp& gate, uint64_t loops,
           int state = Graph::kNoState) {
    auto& uses = out_.nodes[size_t(n)].uses;
    // Equal uses arise close together; storage that is read by thousands of kernels is not searched each
    // time.
    size_t oldest = uses.size() > 16 ? uses.size() - 16 : 0;
    for (size_t i = uses.size(); i-- > oldest;) {
      Use& known = uses[i];
      if (known.kernel == user.kernel && known.tuple == tuple && known.gate == gate && known.state == state) {
        known.loops |= loops;
        return int(i);
      }
    }
    Use use;
    use.kernel = user.kernel, use.tuple = tuple, use.gate = gate, use.loops = loops, use.state = state;
    uses.push_back(std::move(use));
    return int(uses.size()) - 1;
  }

  void propagate(int n, Use& use) {
    const Node& at = node(n);
    std::span<const int> sources = graph_.sources_of(n);
    ++out_.evaluations;
    if (at.kind == Kind::Storage || at.kind == Kind::Constant || at.kind == Kind::Iota) return;
    ++out_.kernels[size_t(use.kernel)].size;
    std::vector<int> links;
    switch (at.kind) {
    case Kind::Elementwise: {
      size_t next = 0;
      int state = at.u.is(Op::BITCAST) ? use.state : Graph::kNoState; // storage of another dtype
      for (size_t i = 0; i < at.u.nsrc(); ++i)
        if (at.u.src(i).dtype() != DType::Index)
          links.push_back(
              link(sources[next++], use, value_tuple(n, i, use.tuple), use.gate, use.loops, state));
      break;
    }
    case Kind::Movement: {
      const IndexSpace::Moved& moved = index_.through(at.u, use.tuple, use.gate);
      use.guard = moved.guard, use.never = moved.never;
      if (!use.never) links.push_back(link(sources[0], use, moved.tuple, moved.gate, use.loops, use.state));
      break;
    }
    case Kind::After:
      links.push_back(link(sources[0], use, use.tuple, use.gate, use.loops, use.state < 0 ? n : use.state));
      break;
    case Kind::Contiguous:
    case Kind::Copy:
      links.push_back(link(sources[0], use, use.tuple, use.gate, use.loops));
      break;
    case Kind::Gather:
      gather(n, use, links);
      break;
    case Kind::Reduce: {
      auto& loops = out_.kernels[size_t(use.kernel)].loops;
      const Shape& from = shape_of(at.u.src(0));
      std::span<const UOp> tuple = index_.tuple(use.tuple);
      std::vector<UOp> inner(tuple.begin(), tuple.end());
      use.first_loop = int(loops.size());
      Use inside = use;
      for (size_t i = 0; i < from.size(); ++i)
        if (reduce_axes(at.u) >> i & 1) inner[i] = open_loop(inside, from[i].uop(), AxisType::Reduce);
      use.loop_count = int(out_.kernels[size_t(use.kernel)].loops.size()) - use.first_loop;
      links.push_back(link(sources[0], use, index_.intern(std::move(inner)), use.gate, inside.loops));
      break;
    }
    default:
      break;
    }
    use.links = int(out_.links.size());
    out_.links.insert(out_.links.end(), links.begin(), links.end());
  }

  void gather(int n, Use& use, std::vector<int>& links) {
    const Node& at = node(n);
    std::span<const int> sources = graph_.sources_of(n);
    const Shape& from = shape_of(at.u.src(0));
    size_t axis = at.u.arg().word, picks = shape_of(at.u.src(1)).size();
    std::span<const UOp> tuple = index_.tuple(use.tuple);
    std::vector<UOp> pick(tuple.begin() + std::ptrdiff_t(axis), tuple.begin() + std::ptrdiff_t(axis + picks));
    TupleId pick_tuple = index_.intern(std::move(pick));
    int pick_use = link(sources[1], use, pick_tuple, use.gate, use.loops);
    const IndexPlaceholder& placeholder =
        placeholder_for(sources[1], pick_use, from[axis], index_.loops_in(pick_tuple));
    std::vector<UOp> inner(tuple.begin(), tuple.begin() + std::ptrdiff_t(axis));
    inner.push_back(placeholder.index);
    inner.insert(inner.end(), tuple.begin() + std::ptrdiff_t(axis + picks), tuple.end());
    use.guard = placeholder.inside;
    links.push_back(link(sources[0], use, index_.intern(std::move(inner)),
                         index_.both(use.gate, placeholder.inside), use.loops));
    links.push_back(pick_use);
  }

  const IndexPlaceholder& placeholder_for(int n, int use, const SInt& size, uint64_t loops) {
    UOp extent = size.uop();
    for (size_t i : placeholders_of_[{n, use}])
      if (out_.placeholders[i].size == extent) return out_.placeholders[i];
    IndexPlaceholder placeholder;
    std::string number = std::to_string(index_.fresh_number());
    placeholder.index = variable("@index" + number, 0, std::max<int64_t>(size.max() - 1, 0));
    placeholder.inside = make(Op::VAR, DType::BOOL, {}, Arg({0, 1, 1}, {"@inside" + number}));
    placeholder.node = n, placeholder.use = use, placeholder.size = extent;
    index_.set_loops(placeholder.index, loops);
    index_.set_loops(placeholder.inside, loops);
    placeholders_of_[{n, use}].push_back(out_.placeholders.size());
    out_.placeholders.push_back(std::move(placeholder));
    return out_.placeholders.back();
  }

  const Graph& graph_;
  IndexSpace& index_;
  const std::vector<bool>& stored_;
  Fusion out_;
  std::vector<int> cut_reductions_;
  std::map<std::pair<int, int>, std::vector<size_t>> placeholders_of_;
};

// The last elementwise node that every use of the reduction passes through, with as many elements; the
// reduction itself when there is none.
int epilogue_of(const Graph& graph, const std::vector<bool>& stored, int reduction) {
  constexpr int kFar = 64;
  int best = reduction, most_contractions = std::max(graph.nodes[size_t(reduction)].contractions, 1);
  std::set<int> frontier{reduction};
  for (int steps = 0; steps < kFar && !frontier.empty(); ++steps) {
    int n = *frontier.begin();
    frontier.erase(frontier.begin());
    const Node& at = graph.nodes[size_t(n)];
    if (frontier.empty() && at.kind == Kind::Elementwise) best = n;
    if (n != reduction && stored[size_t(n)]) break;
    std::span<const int> users = graph.users_of(n);
    if (users.empty()) break;
    for (int u : users) {
      const Node& user = graph.nodes[size_t(u)];
      bool follows =
          user.kind == Kind::Elementwise && user.numel == at.numel && user.contractions <= most_contractions;
      // A shuffle must be the only way on: two ways could meet at different elements.
      if (user.u.is(OpSet(Op::RESHAPE, Op::PERMUTE, Op::FLIP)))
        follows = users.size() == 1 && frontier.empty();
      if (!follows) return best;
      frontier.insert(u);
    }
  }
  return best;
}

} // namespace

Fusion fuse(const Graph& graph, IndexSpace& index, const std::vector<int>& also_stored) {
  std::vector<bool> stored(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) stored[i] = graph.nodes[i].stored;
  for (int n : also_stored) stored[size_t(n)] = true;
  Pass first(graph, index, stored);
  Fusion result = first.run();
  bool moved = false;
  std::vector<bool> cuts = stored;
  for (int reduction : first.cut_reductions()) {
    int cut = epilogue_of(graph, stored, reduction);
    moved |= cut != reduction && !cuts[size_t(cut)];
    cuts[size_t(cut)] = true;
  }
  if (!moved) return result;
  int64_t evaluations = result.evaluations;
  result = Pass(graph, index, cuts).run();
  result.evaluations += evaluations;
  return result;
}

} // namespace tolk::schedule
