// Versions of storage. Nodes are immutable and hash-consed, so two writes of one value to one storage would
// be the same node, and a value computed from storage before a write could not be told from the one computed
// after it. An AFTER with a unique number tells them apart. Schedules drop the numbers.
//
// Every write takes its number from one counter, and a BUFFER records the number of the last write that was
// executed: its version, 0 before the first. Version n of a view is AFTER({view}, n); a pending write is
// AFTER({view, effect}, n). Only numbers are attached to the BUFFER, so there are no reference cycles.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/uop/uop.h"

namespace tolk {

// Attached to a BUFFER of a tensor graph. Thread-safe; whoever writes the storage itself orders the writes.
class TOLK_API StorageVersion : public UOpAttachment {
public:
  ~StorageVersion() override;
  // The number of the last write that was executed, and of the last one, pending ones included.
  uint64_t written() const { return written_.load(std::memory_order_acquire); }
  uint64_t newest() const { return newest_.load(std::memory_order_acquire); }
  void note_pending(uint64_t number) { newest_.store(number, std::memory_order_release); }
  void note_written(uint64_t number);

  // Retains a version that values of a captured function name: replays overwrite the storage, and these
  // values read what the last replay left there instead of being refused as outdated.
  void keep(uint64_t number);
  bool keeps(uint64_t number) const;

  // The device buffer, set by the engine; null before its first use.
  UOpAttachment* buffer() const { return buffer_.load(std::memory_order_acquire); }
  // False when one is set already.
  bool set_buffer(std::unique_ptr<UOpAttachment> buffer);

private:
  std::atomic<uint64_t> written_{0}, newest_{0};
  std::atomic<UOpAttachment*> buffer_{nullptr};
  mutable std::mutex mutex_; // of kept_
  std::vector<uint64_t> kept_;
};

// The record of a BUFFER: created when missing, or null when missing.
TOLK_API StorageVersion& version_of(const UOp& buffer);
TOLK_API StorageVersion* known_version(const UOp& buffer);
// The number of the last executed write; 0 when there was none.
TOLK_API uint64_t written_version(const UOp& buffer);
TOLK_API uint64_t fresh_version();
// Whether any number was taken yet. Until then every handle is up to date.
TOLK_API bool anything_written();

// The target after the store, as a node that is equal to no other.
TOLK_API UOp after_write(const UOp& target, const UOp& store);
inline bool is_state(const UOp& u) { return u.is(Op::AFTER) && u.nsrc() == 1; }
inline bool is_write(const UOp& u) { return u.is(Op::AFTER) && u.nsrc() > 1; }
// Of an AFTER; 0 for one that was made without a number.
inline uint64_t version_named(const UOp& after) { return after.arg().word; }

// The BUFFER that a chain of views, PADs, SLICEs and AFTERs reads; null when the value is computed.
TOLK_API UOp buffer_below(const UOp& u);
// A view of storage, in which no write is pending, as of the version; 0 is the storage without a state. PADs
// are kept as views are.
TOLK_API UOp view_at(const UOp& view, uint64_t version);
TOLK_API UOp without_states(const UOp& view);

} // namespace tolk
