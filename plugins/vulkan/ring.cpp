// A ring of memory from which pieces are taken in order.
#include <algorithm>

#include "state.h"

namespace tolk_vulkan {

namespace {
constexpr uint64_t kPieceAlign = 64;
}

Ring::~Ring() {
  if (storage_) free_buffer(*storage_);
}

Ring::Piece Ring::take(uint64_t bytes) {
  bytes = std::max<uint64_t>(kPieceAlign, (bytes + kPieceAlign - 1) / kPieceAlign * kPieceAlign);
  if (bytes > size_) throw Failure{TOLK_E_LIMIT, "a piece of staging memory is larger than all of it"};
  if (!storage_) storage_ = make_buffer(*stream_.device, size_, TOLK_BUFFER_STAGING);
  // A piece does not wrap: what is left before the end is skipped.
  uint64_t begin = head_;
  if (begin % size_ + bytes > size_) begin += size_ - begin % size_;
  while (begin + bytes - tail_ > size_) {
    if (used_.empty()) {
      tail_ = begin;
      break;
    }
    const Used oldest = used_.front();
    if (oldest.position > stream_.last_submitted()) stream_.flush();
    stream_.timeline->wait(oldest.position, TOLK_FOREVER);
    tail_ = oldest.end;
    used_.pop_front();
  }
  head_ = begin + bytes;
  if (!used_.empty() && used_.back().position == stream_.position())
    used_.back().end = head_;
  else
    used_.push_back({head_, stream_.position()});
  const uint64_t offset = storage_->offset + begin % size_;
  return {offset, storage_->block->mapped + offset, storage_->block->address + offset};
}

} // namespace tolk_vulkan
