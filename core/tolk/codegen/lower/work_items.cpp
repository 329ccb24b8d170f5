// Reductions that the work-items of a group share.
#include "tolk/base/error.h"
#include "tolk/codegen/lower/expander.h"

namespace tolk::codegen {
namespace {

// Values that a work-item folds between two barriers: few barriers, and short chains of additions.
constexpr int64_t kFanIn = 8;

UOp at_barrier(const UOp& storage, const UOp& effect) {
  UOp barrier = make(Op::BARRIER, DType::Void, {effect});
  return after(storage, {&barrier, 1});
}

} // namespace

// The values that the work-items along `range` hold, folded in a tree through work-group storage. Every work-item gets
// the result. No two work-items access one element between two barriers, unless both read it.
UOp Expander::fold_items(Op op, const UOp& value, const UOp& range) {
  if (value.lanes() > 1) {
    std::vector<UOp> lanes;
    for (int i = 0; i < value.lanes(); ++i) lanes.push_back(fold_items(op, extract(value, i), range));
    return stack(lanes);
  }
  UOp item = make(Op::SPECIAL, DType::Index, {index_const(items_)}, Arg(uint64_t{256}));
  UOp part = materialise(substituted_.at(range));
  int64_t stride = launched_.at(range), left = range.src(0).const_int();
  UOp storage = make(Op::DEFINE_LOCAL, value.dtype(), {}, Arg({next_local_++, items_}));
  UOp sum = value, gate, identity = reduce_identity(op, value.dtype());
  while (left > 1) {
    storage = at_barrier(storage, store(storage, item, sum, gate));
    int64_t count = std::min(left, kFanIn);
    left /= count;
    gate = less(part, index_const(left));
    std::vector<UOp> values{sum};
    for (int64_t i = 1; i < count; ++i)
      values.push_back(load(storage, item + i * left * stride, gate, identity));
    sum = fold_values(op, values);
  }
  storage = at_barrier(storage, store(storage, item, sum, gate));
  return load(storage, item + part * -stride);
}

// Of several work-items that share a reduction, the first one stores the result. Null: always.
UOp Expander::gate_of(const UOp& store) {
  UOp gate;
  if (store.nsrc() > 3) gate = lower(store.src(3));
  for (const UOp& range : shared_) {
    UOp first = less(materialise(substituted_.at(range)), index_const(1));
    gate = gate ? value_op(Op::AND, gate, first) : first;
  }
  return gate;
}

} // namespace tolk::codegen
