// Two-level segregated fit: an allocator of offsets, in constant time per request and with little waste.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tolk/base/api.h"

namespace tolk::schedule {

// Free blocks are kept in buckets by size: the first level is the number of bits of the size, the second
// divides that octave into `divisions` equal parts. A request is rounded up to the next bucket boundary, so
// that every block of the bucket fits, and takes the oldest block of the first bucket that has one. The
// remainder becomes a free block, and a freed block merges with its free neighbours.
class TOLK_API Tlsf {
public:
  // Places 0 .. bytes-1. Requests below `block` take `block`. `divisions` is a power of two up to 32.
  explicit Tlsf(int64_t bytes, int64_t block = 16, int divisions = 16);

  // The offset of a region, a multiple of `alignment` (a power of two). Throws OutOfMemory when no bucket has
  // a block for it, and InvalidArgument for a negative size or an alignment that is no power of two.
  int64_t allocate(int64_t bytes, int64_t alignment = 1);
  // Gives back what `allocate` gave at `begin`; throws InvalidArgument when nothing is in use there.
  void release(int64_t begin);
  // The first byte after everything that was ever in use.
  int64_t peak() const { return peak_; }

private:
  struct Block {
    int64_t begin = 0, bytes = 0;
    int left = -1, right = -1;  // neighbours in the arena
    int older = -1, newer = -1; // in its bucket while it is free
    bool free = false;
  };
  struct Bucket {
    int oldest = -1, newest = -1;
  };
  struct Place {
    int level, division;
  };
  Place place_of(int64_t bytes) const;
  Bucket& bucket(Place p) { return buckets_[size_t(p.level) * size_t(divisions_) + size_t(p.division)]; }
  int64_t rounded_up(int64_t bytes) const;
  int find(int64_t bytes) const;
  int make(Block block);
  void forget(int number) { spare_.push_back(number); }
  void put(int number);  // into its bucket
  void take(int number); // out of it
  void split(int number, int64_t bytes);

  int64_t bytes_, block_, peak_ = 0;
  int divisions_, division_bits_;
  std::vector<Block> blocks_;
  std::vector<int> spare_; // numbers of blocks that were merged into others
  std::vector<Bucket> buckets_;
  uint64_t levels_ = 0;                   // which have free blocks
  std::vector<uint32_t> filled_;          // by level: which divisions have
  std::unordered_map<int64_t, int> used_; // by begin
};

} // namespace tolk::schedule
