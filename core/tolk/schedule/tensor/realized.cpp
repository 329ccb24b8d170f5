#include "tolk/schedule/tensor/realized.h"

#include "tolk/base/check.h"
#include "tolk/uop/build.h"
#include "tolk/uop/shape.h"
#include "tolk/uop/storage_ref.h"

namespace tolk::schedule {
namespace {
thread_local const RealizedFilter::Follow* filter = nullptr;
} // namespace

RealizedFilter::RealizedFilter(Follow follow) : follow_(std::move(follow)) { filter = &follow_; }
RealizedFilter::~RealizedFilter() { filter = nullptr; }

Realized::Realized(UOp stored)
    : storage(std::move(stored)), buffer(buffer_below(storage)), version(storage_ref(storage).version) {}
Realized::~Realized() = default;
bool Realized::outdated() const { return buffer && written_version(buffer) != version; }

const Realized* realized_link(const UOp& u) {
  UOpAttachment* attachment = u.attachment();
  return attachment && !u.is(ops::Storage) ? dynamic_cast<const Realized*>(attachment) : nullptr;
}

namespace {
// Values that must not be computed again: writes, and host data, whose memory a device may have taken over.
bool only_once(const UOp& u) { return is_write(u) || (u.is(Op::COPY) && device_of(u.src(0)) == "HOST"); }
} // namespace

UOp realized_form(const UOp& u) {
  const UOp* at = &u;
  // A chain arises when a value is realised again in another form; it is short.
  while (const Realized* link = realized_link(*at)) {
    if (link->outdated() && !only_once(*at) && !version_of(link->buffer).keeps(link->version)) break;
    if (filter && !(*filter)(*at, link->storage)) break;
    at = &link->storage;
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
