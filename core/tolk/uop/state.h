// Names for storage as it is at one time. Equal nodes are one node, so two writes of the same value to the
// same storage would be one, and a value computed from storage before a write would be taken for the one that
// comes after it. An AFTER with a number of its own tells them apart; schedules do not see the number.
//
// Every write gets a number from one count, and the BUFFER remembers the number of the write that it holds:
// its version, 0 before the first one. Version n of a view is AFTER({view}, n); a write that was not carried
// out yet is AFTER(view, effect) with its number. Only numbers hang on the BUFFER, so nothing refers back.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/uop/uop.h"

namespace tolk {

// What a BUFFER of a tensor graph carries. Any thread may read and note; who writes the storage itself sees
// to the order.
class TOLK_API StorageVersion : public UOpAttachment {
public:
  ~StorageVersion() override;
  // The number of the last write that was carried out, and of the last one at all.
  uint64_t written() const { return written_.load(std::memory_order_acquire); }
  uint64_t newest() const { return newest_.load(std::memory_order_acquire); }
  void note_pending(uint64_t number) { newest_.store(number, std::memory_order_release); }
  void note_written(uint64_t number);

  // Values that a captured function left behind, on the storage as it was at the capture, read what replays
  // put there: for these versions later ones stand in.
  void keep(uint64_t number);
  bool keeps(uint64_t number) const;

  // The device's buffer, which the engine puts here; null before its first use.
  UOpAttachment* buffer() const { return buffer_.load(std::memory_order_acquire); }
  // False when there is one already.
  bool set_buffer(std::unique_ptr<UOpAttachment> buffer);

private:
  std::atomic<uint64_t> written_{0}, newest_{0};
  std::atomic<UOpAttachment*> buffer_{nullptr};
  mutable std::mutex mutex_; // of kept_
  std::vector<uint64_t> kept_;
};

// The record of a BUFFER, made when there is none; and the same where none is only wanted if it is there.
TOLK_API StorageVersion& version_of(const UOp& buffer);
TOLK_API StorageVersion* known_version(const UOp& buffer);
// The number of the last write that was carried out; 0 when there was none.
TOLK_API uint64_t written_version(const UOp& buffer);
TOLK_API uint64_t fresh_version();
// Whether a number was ever taken. While none was, every handle is up to date.
TOLK_API bool anything_written();

// The target after the store, as a node that equals no other.
TOLK_API UOp after_write(const UOp& target, const UOp& store);
inline bool is_state(const UOp& u) { return u.is(Op::AFTER) && u.nsrc() == 1; }
inline bool is_write(const UOp& u) { return u.is(Op::AFTER) && u.nsrc() > 1; }
// Of an AFTER; 0 for one that was made without a number.
inline uint64_t version_named(const UOp& after) { return after.arg().word; }

// The BUFFER of a chain of views, states and writes; null when the value is computed.
TOLK_API UOp buffer_below(const UOp& view);
// The version that such a chain names: that of its outermost AFTER, 0 when it has none.
TOLK_API uint64_t version_below(const UOp& view);
// A view of storage without the states in it.
TOLK_API UOp without_states(const UOp& view);
// A view of storage, which names no write, as of the version; 0 is the storage without a state.
TOLK_API UOp view_at(const UOp& view, uint64_t version);
// The view with what is below its movements, BITCASTs, DETACHs and MULTIs, or states of that, replaced.
TOLK_API UOp view_over(const UOp& view, const UOp& base);

} // namespace tolk
