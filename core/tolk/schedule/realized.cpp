#include "tolk/schedule/realized.h"

#include "tolk/base/check.h"
#include "tolk/uop/shape.h"

namespace tolk::schedule {
namespace {
thread_local const RealizedFilter::Follow* filter = nullptr;
} // namespace

RealizedFilter::RealizedFilter(Follow follow) : follow_(std::move(follow)) { filter = &follow_; }
RealizedFilter::~RealizedFilter() { filter = nullptr; }

Realized::~Realized() = default;

UOp realized_form(const UOp& u) {
  const UOp* at = &u;
  // A chain arises when a value is realised again in another form; it is short.
  while (UOpAttachment* attachment = at->attachment()) {
    auto* realized = dynamic_cast<Realized*>(attachment);
    if (!realized || (filter && !(*filter)(*at, realized->storage))) break;
    at = &realized->storage;
  }
  return *at;
}

void set_realized(const UOp& u, const UOp& storage) {
  if (u == storage || u.is(ops::Storage)) return;
  TOLK_CHECK(u.dtype() == storage.dtype() && shape_of(u) == shape_of(storage),
             "the storage of a computed value must have its shape and dtype");
  u.set_attachment(std::make_unique<Realized>(storage));
}

} // namespace tolk::schedule
