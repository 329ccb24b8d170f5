// The link from a computed value to its storage. Scheduling follows it, so a value that was computed once is
// read, not computed again, by every graph that is built on it later.
#pragma once

#include <functional>

#include "tolk/base/api.h"
#include "tolk/uop/uop.h"

namespace tolk::schedule {

// On a global node: a movement chain over storage that holds the node's value, of the same shape and dtype.
struct TOLK_API Realized : UOpAttachment {
  explicit Realized(UOp storage) : storage(std::move(storage)) {}
  ~Realized() override;
  UOp storage;
};

// The node that stands for the value of `u`: what was stored for it, else `u`.
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
