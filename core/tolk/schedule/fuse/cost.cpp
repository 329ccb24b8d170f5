#include "tolk/schedule/fuse/cost.h"

#include <algorithm>

#include "tolk/uop/build.h"

namespace tolk::schedule {
namespace {

constexpr double kLoad = 2;
constexpr double kMaxCost = 1e9;
constexpr double kPass = 4;         // one element written and fetched again
constexpr double kLaunch = 1 << 18; // a kernel more: about 25 microseconds of one core
constexpr double kMinReuse = 8;
// Loops around a value inside one kernel reuse it through registers and tiles to about this extent.
constexpr double kReuseInKernel = 4;

constexpr double kLargeContraction = 1 << 16; // products

} // namespace

bool is_contraction(const UOp& reduce) {
  const UOp* at = &reduce.src(0);
  while (at->is(Op::CAST)) at = &at->src(0);
  double terms = double(max_numel(shape_of(*at)));
  if (reduce_op(reduce) != Op::ADD || !at->is(Op::MUL) || terms < kLargeContraction) return false;
  for (UOp factor : at->src()) {
    while (factor.is(ops::Movement | OpSet(Op::CAST))) factor = factor.src(0);
    if (double(max_numel(shape_of(factor))) * 2 > terms) return false;
  }
  return true;
}

double element_cost(const Node& node, std::span<const int> sources, const std::vector<Node>& nodes) {
  double below = 0;
  for (int s : sources) below += nodes[size_t(s)].stored ? kLoad : nodes[size_t(s)].cost;
  double cost = below;
  switch (node.kind) {
  case Kind::Storage:
  case Kind::Contiguous:
  case Kind::Copy:
  case Kind::Select:
  case Kind::Stack:
  case Kind::After:
    cost = kLoad;
    break;
  case Kind::Constant:
  case Kind::Iota:
  case Kind::Store:
    cost = 0;
    break;
  case Kind::Elementwise:
    cost = below + op_info(node.u.op()).cost;
    break;
  case Kind::Movement:
    break;
  case Kind::Gather:
    cost = below + 2;
    break;
  case Kind::Reduce: {
    if (node.reads) {
      cost = kLoad;
      break;
    }
    double terms = double(max_numel(shape_of(node.u.src(0)))) / double(std::max<int64_t>(node.numel, 1));
    cost = (below + 1) * terms;
    break;
  }
  }
  return std::min(cost, kMaxCost);
}

bool worth_storing(const Node& node, double evaluations, int uses) {
  auto elements = double(node.numel);
  if (evaluations < kMinReuse * elements) return false;
  double saved = (evaluations - elements) * (node.cost - kLoad);
  if (uses == 1) saved /= kReuseInKernel;
  return saved > elements * kPass + kLaunch;
}

} // namespace tolk::schedule
