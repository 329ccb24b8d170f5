#include "tolk/schedule/order/snapshot_reads.h"

#include <vector>

#include "tolk/schedule/tensor/views.h"
#include "tolk/uop/build.h"
#include "tolk/uop/traverse.h"

namespace tolk::schedule {
namespace {

// A view of storage is a place to be written, or the value that is read from it. Every node has an image for
// each.
class Pass {
public:
  explicit Pass(std::span<const UOp> views) : copied_(views.begin(), views.end()) {}

  void run(Canonical& canonical) {
    for (const UOp& u : toposort(canonical.roots)) {
      UOp place = image(u, viewed_storage(u) ? places_ : values_);
      places_.set(u, place);
      // What is read after a store is the store's target.
      if (copied_.contains(u))
        values_.set(u, contiguous(place));
      else
        values_.set(u, u.is(Op::AFTER) ? place : image(u, values_));
    }
    for (UOp& root : canonical.roots) root = *(viewed_storage(root) ? places_ : values_).find(root);
    UOpSet stored;
    for (const UOp& u : canonical.stored)
      if (const UOp* value = values_.find(u)) stored.insert(*value);
    canonical.stored = std::move(stored);
  }

private:
  // The node over images of its sources; of what a view views in `viewed`.
  UOp image(const UOp& u, const Memo<UOp>& viewed) {
    src_.clear();
    bool changed = false;
    for (const UOp& s : u.src()) {
      bool target = src_.empty() && u.is(Op::STORE);
      const Memo<UOp>& images = target || u.is(Op::AFTER) ? places_ : src_.empty() ? viewed : values_;
      src_.push_back(*images.find(s));
      changed |= src_.back() != s;
    }
    return changed ? with_sources(u, src_) : u;
  }

  UOpSet copied_;
  Memo<UOp> places_, values_;
  std::vector<UOp> src_;
};

} // namespace

void read_snapshots(Canonical& canonical, std::span<const UOp> views) { Pass(views).run(canonical); }

} // namespace tolk::schedule
