#include "tolk/schedule/memory/tlsf.h"

#include <algorithm>
#include <bit>
#include <string>

#include "tolk/base/error.h"

namespace tolk::schedule {
namespace {

constexpr int kLevels = 64; // numbers of bits of a size

int bit_length(int64_t n) { return int(std::bit_width(uint64_t(n))); }

} // namespace

Tlsf::Tlsf(int64_t bytes, int64_t block, int divisions)
    : bytes_(bytes), block_(block), divisions_(divisions), division_bits_(bit_length(divisions)),
      buckets_(size_t(kLevels) * size_t(std::clamp(divisions, 1, 32))), filled_(kLevels, 0) {
  if (bytes < 0 || block < 1 || divisions < 1 || divisions > 32 || !std::has_single_bit(unsigned(divisions)))
    throw InvalidArgument(
        "an allocator of " + std::to_string(bytes) + " bytes in blocks of " + std::to_string(block) +
        " and " + std::to_string(divisions) +
        " divisions is not possible: a power of two up to 32 divisions, blocks of a byte or more");
  if (bytes > 0) put(make({.begin = 0, .bytes = bytes}));
}

Tlsf::Place Tlsf::place_of(int64_t bytes) const {
  int level = bit_length(bytes);
  int64_t above = bytes - (int64_t(1) << (level - 1));
  return {level, int(above >> std::max(0, level - division_bits_))};
}

// The smallest size whose whole bucket is at least `bytes`.
int64_t Tlsf::rounded_up(int64_t bytes) const {
  int64_t step = int64_t(1) << std::max(0, bit_length(bytes) - division_bits_);
  int64_t up;
  if (__builtin_add_overflow(bytes, step - 1, &up)) return INT64_MAX;
  return up / step * step;
}

int Tlsf::find(int64_t bytes) const {
  if (bytes > bytes_) return -1;
  Place p = place_of(rounded_up(bytes));
  uint32_t divisions = filled_[size_t(p.level)] >> p.division << p.division;
  if (!divisions) {
    uint64_t above = p.level == kLevels - 1 ? 0 : levels_ >> (p.level + 1) << (p.level + 1);
    if (!above) return -1;
    p.level = std::countr_zero(above);
    divisions = filled_[size_t(p.level)];
  }
  size_t at = size_t(p.level) * size_t(divisions_) + size_t(std::countr_zero(divisions));
  return buckets_[at].oldest;
}

int Tlsf::make(Block block) {
  if (spare_.empty()) {
    blocks_.push_back(block);
    return int(blocks_.size()) - 1;
  }
  int number = spare_.back();
  spare_.pop_back();
  blocks_[size_t(number)] = block;
  return number;
}

void Tlsf::put(int number) {
  Block& b = blocks_[size_t(number)];
  Place p = place_of(b.bytes);
  Bucket& in = bucket(p);
  b.free = true, b.older = in.newest, b.newer = -1;
  (in.newest < 0 ? in.oldest : blocks_[size_t(in.newest)].newer) = number;
  in.newest = number;
  levels_ |= uint64_t(1) << p.level, filled_[size_t(p.level)] |= uint32_t(1) << p.division;
}

void Tlsf::take(int number) {
  Block& b = blocks_[size_t(number)];
  Place p = place_of(b.bytes);
  Bucket& in = bucket(p);
  (b.older < 0 ? in.oldest : blocks_[size_t(b.older)].newer) = b.newer;
  (b.newer < 0 ? in.newest : blocks_[size_t(b.newer)].older) = b.older;
  b.free = false;
  if (in.oldest >= 0) return;
  filled_[size_t(p.level)] &= ~(uint32_t(1) << p.division);
  if (!filled_[size_t(p.level)]) levels_ &= ~(uint64_t(1) << p.level);
}

// Leaves `bytes` to a block that is in no bucket; the rest of it becomes a free block on its right.
void Tlsf::split(int number, int64_t bytes) {
  Block b = blocks_[size_t(number)];
  if (b.bytes == bytes) return;
  int rest = make({.begin = b.begin + bytes, .bytes = b.bytes - bytes, .left = number, .right = b.right});
  if (b.right >= 0) blocks_[size_t(b.right)].left = rest;
  blocks_[size_t(number)].right = rest;
  blocks_[size_t(number)].bytes = bytes;
  put(rest);
}

int64_t Tlsf::allocate(int64_t bytes, int64_t alignment) {
  if (bytes < 0 || alignment < 1 || !std::has_single_bit(uint64_t(alignment)))
    throw InvalidArgument("a request of " + std::to_string(bytes) + " bytes at multiples of " +
                          std::to_string(alignment) +
                          " is not possible: sizes are not negative, alignments are powers of two");
  int64_t wanted = std::max(block_, bytes), searched = wanted;
  int number = -1;
  // With room to move forward to the alignment.
  if (!__builtin_add_overflow(wanted, alignment - 1, &searched)) number = find(searched);
  if (number < 0)
    throw OutOfMemory("no place for " + std::to_string(wanted) + " bytes in " + std::to_string(bytes_) +
                      " bytes, of which the first " + std::to_string(peak_) + " were in use");
  take(number);
  if (int64_t over = blocks_[size_t(number)].begin % alignment; over != 0) {
    int before = number;
    split(before, alignment - over);
    number = blocks_[size_t(before)].right;
    take(number);
    put(before);
  }
  split(number, wanted);
  const Block& b = blocks_[size_t(number)];
  used_.emplace(b.begin, number);
  peak_ = std::max(peak_, b.begin + b.bytes);
  return b.begin;
}

void Tlsf::release(int64_t begin) {
  auto it = used_.find(begin);
  if (it == used_.end())
    throw InvalidArgument("nothing is in use at " + std::to_string(begin) +
                          ", so nothing can be freed there");
  int number = it->second;
  used_.erase(it);
  auto join = [&](int left, int right) { // the right one's bytes go to the left one
    Block &l = blocks_[size_t(left)], &r = blocks_[size_t(right)];
    l.bytes += r.bytes, l.right = r.right;
    if (r.right >= 0) blocks_[size_t(r.right)].left = left;
    forget(right);
  };
  if (int right = blocks_[size_t(number)].right; right >= 0 && blocks_[size_t(right)].free) {
    take(right);
    join(number, right);
  }
  if (int left = blocks_[size_t(number)].left; left >= 0 && blocks_[size_t(left)].free) {
    take(left);
    join(left, number);
    number = left;
  }
  put(number);
}

} // namespace tolk::schedule
