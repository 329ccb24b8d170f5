#include "tolk/schedule/tensor/views.h"

#include <vector>

#include "tolk/base/check.h"
#include "tolk/base/error.h"
#include "tolk/uop/build.h"

namespace tolk::schedule {
namespace {

// Every element of a target is stored to once.
void check_part(const UOp& u) {
  bool injective = true;
  if (u.is(Op::EXPAND)) injective = numel(shape_of(u)) == numel(shape_of(u.src(0)));
  if (u.is(Op::WINDOW)) {
    const Shape& shape = shape_of(u);
    auto axis = size_t(u.arg().i(0));
    int64_t stride = u.arg().i(1), reach = (shape[axis + 1].max() - 1) * u.arg().i(2);
    injective = shape[axis] == 1 || reach < stride;
  }
  if (!injective)
    throw InvalidArgument("a store through " + std::string(name(u.op())) + " to " + to_string(shape_of(u)) +
                          " would write elements more than once; assign to the view it repeats");
  if (u.is(Op::BITCAST))
    throw InvalidArgument("a store through a reshaped bitcast is not possible; bitcast the value instead");
}

} // namespace

UOp viewed_storage(const UOp& u) {
  const UOp& at = below_views(u);
  return at.is(ops::Storage) ? at : UOp();
}

UOp viewed_state(const UOp& u) {
  const UOp& at = below_views(u, Through::Views);
  return at.is(ops::Storage | OpSet(Op::AFTER)) ? at : UOp();
}

UOp plain_view(const UOp& u) {
  if (auto range = dense_range(u)) return reshape(storage_node(*range), shape_of(u));
  StorageRef ref = storage_ref(u);
  TOLK_CHECK(ref.storage, "a plain view is one of storage");
  UOp at = ref.storage;
  if (at.dtype() != u.dtype()) at = storage_node({at, u.dtype(), 0, elements_of(at)});
  std::vector<UOp> src;
  for (size_t i = ref.views.size(); i-- > 0;) {
    const UOp& view = ref.views[i];
    if (!view.is(ops::Movement)) continue;
    src.assign(view.src().begin(), view.src().end());
    src[0] = at;
    at = make(view.op(), u.dtype(), src, view.arg());
  }
  return at;
}

void check_store_target(const UOp& view) {
  const UOp* part = &view;
  while (part->is(OpSet(Op::BITCAST, Op::DETACH))) part = &part->src(0);
  for (; !part->is(ops::Storage); part = &part->src(0)) check_part(*part);
}

} // namespace tolk::schedule
