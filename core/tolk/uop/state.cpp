#include "tolk/uop/state.h"

#include <algorithm>

#include "tolk/base/check.h"
#include "tolk/uop/build.h"

namespace tolk {
namespace {

constexpr OpSet kViews = ops::Movement | OpSet(Op::BITCAST, Op::DETACH, Op::CONTIGUOUS_BACKWARD, Op::MULTI);

std::atomic<uint64_t> next_version{1};

// The views around `base`, from the outermost.
UOp put_over(const std::vector<UOp>& views, UOp base) {
  std::vector<UOp> src;
  for (size_t i = views.size(); i-- > 0;) {
    const UOp& u = views[i];
    src.assign(u.src().begin(), u.src().end());
    src[0] = base;
    // Reshapes of reshapes merge, so that chains do not grow with every write.
    base = u.is(Op::RESHAPE) ? reshape(base, shape_of(u)) : with_sources(u, src);
  }
  return base;
}

// Takes a chain of views apart; gives what is below them.
UOp below_views(const UOp& view, std::vector<UOp>& views) {
  UOp at = view;
  for (; is_state(at) || at.is(kViews); at = UOp(at.src(0)))
    if (!is_state(at)) views.push_back(at);
  return at;
}

} // namespace

StorageVersion::~StorageVersion() { delete buffer_.load(std::memory_order_acquire); }

void StorageVersion::note_written(uint64_t number) {
  written_.store(number, std::memory_order_release);
  uint64_t newest = newest_.load(std::memory_order_relaxed);
  while (newest < number && !newest_.compare_exchange_weak(newest, number, std::memory_order_acq_rel)) {
  }
}

void StorageVersion::keep(uint64_t number) {
  std::lock_guard lock(mutex_);
  if (std::find(kept_.begin(), kept_.end(), number) == kept_.end()) kept_.push_back(number);
}

bool StorageVersion::keeps(uint64_t number) const {
  std::lock_guard lock(mutex_);
  return std::find(kept_.begin(), kept_.end(), number) != kept_.end();
}

bool StorageVersion::set_buffer(std::unique_ptr<UOpAttachment> buffer) {
  UOpAttachment* expected = nullptr;
  if (!buffer_.compare_exchange_strong(expected, buffer.get(), std::memory_order_acq_rel)) return false;
  (void)buffer.release();
  return true;
}

StorageVersion* known_version(const UOp& buffer) {
  TOLK_CHECK(buffer.is(Op::BUFFER), "only a BUFFER has versions");
  return static_cast<StorageVersion*>(buffer.attachment());
}

StorageVersion& version_of(const UOp& buffer) {
  if (!known_version(buffer)) buffer.set_attachment(std::make_unique<StorageVersion>());
  return *known_version(buffer);
}

uint64_t written_version(const UOp& buffer) {
  StorageVersion* known = known_version(buffer);
  return known ? known->written() : 0;
}

uint64_t fresh_version() { return next_version.fetch_add(1, std::memory_order_relaxed); }
bool anything_written() { return next_version.load(std::memory_order_relaxed) != 1; }

UOp after_write(const UOp& target, const UOp& store) {
  return make(Op::AFTER, target.dtype(), {target, store}, Arg(fresh_version()));
}

UOp buffer_below(const UOp& view) {
  const UOp* at = &view;
  while (at->is(kViews | OpSet(Op::AFTER, Op::SLICE))) at = &at->src(0);
  return at->is(Op::BUFFER) ? *at : UOp();
}

uint64_t version_below(const UOp& view) {
  const UOp* at = &view;
  while (at->is(kViews | OpSet(Op::SLICE))) at = &at->src(0);
  return at->is(Op::AFTER) ? version_named(*at) : 0;
}

UOp without_states(const UOp& view) {
  std::vector<UOp> views;
  UOp base = below_views(view, views);
  return put_over(views, base);
}

UOp view_at(const UOp& view, uint64_t version) {
  std::vector<UOp> views;
  UOp base = below_views(view, views);
  if (version != 0) base = make(Op::AFTER, base.dtype(), {base}, Arg(version));
  return put_over(views, base);
}

UOp view_over(const UOp& view, const UOp& base) {
  std::vector<UOp> views;
  below_views(view, views);
  return put_over(views, base);
}

} // namespace tolk
