#include "tolk/uop/state.h"

#include <algorithm>

#include "tolk/base/check.h"
#include "tolk/uop/storage_ref.h"

namespace tolk {
namespace {

std::atomic<uint64_t> next_version{1};

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

UOp buffer_below(const UOp& u) {
  const UOp& at = below(u, ops::View | OpSet(Op::PAD, Op::AFTER, Op::SLICE));
  return at.is(Op::BUFFER) ? at : UOp();
}

UOp view_at(const UOp& view, uint64_t version) {
  StorageRef ref = storage_ref(view, Through::States | Through::Pads);
  if (version != 0) ref.below = make(Op::AFTER, ref.below.dtype(), {ref.below}, Arg(version));
  return with_views(ref.views, std::move(ref.below));
}

UOp without_states(const UOp& view) { return view_at(view, 0); }

} // namespace tolk
