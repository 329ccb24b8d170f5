// The link from a computed value to its storage. Scheduling follows it, so a value that was computed once is
// read, not computed again, by every graph that is built on it later.
#pragma once

#include <functional>

#include "tolk/base/api.h"
#include "tolk/uop/uop.h"

namespace tolk::schedule {

// On a global node: a movement chain over storage that holds the node's value, of the same shape and dtype.
// Once that storage is written again the node no longer stands for the value: making an equal node gives a
// new one (UOpAttachment::outdated).
struct TOLK_API Realized : UOpAttachment {
  explicit Realized(UOp storage);
  ~Realized() override;
  bool outdated() const override;
  UOp storage;
  UOp buffer;       // below it; null when there is none
  uint64_t version; // of the buffer that holds the value, as `storage` names it
};
// The link of a node; null when it has none.
TOLK_API const Realized* realized_link(const UOp& u);

// The node that stands for the value of `u`: what was stored for it, else `u`. A link to storage that was
// written since is followed from a write and from a copy of host data, which are not done again, and where a
// captured function left the value behind (StorageVersion::keep); other values are computed again.
TOLK_API UOp realized_form(const UOp& u);

// While it lives, this thread follows only the links that `follow` agrees to: a capture must compute what
// depends on its inputs, also when an equal graph on the same inputs was computed before. Scopes do not nest.
class TOLK_API RealizedFilter {
public:
  using Follow = std::function<bool(const UOp& value, const UOp& storage)>;
  explicit RealizedFilter(Follow follow);
  ~RealizedFilter();
  RealizedFilter(const RealizedFilter&) = delete;
  RealizedFilter& operator=(const RealizedFilter&) = delete;

private:
  Follow follow_;
};

// Records that `storage` holds the value of `u`, after the run that computed it. A second record, and a
// record on a node that is storage itself, is ignored. Throws InternalError when shape or dtype differ or `u`
// lives in an arena.
TOLK_API void set_realized(const UOp& u, const UOp& storage);

} // namespace tolk::schedule
