// A set of loops of a nest, by number: outermost loops have the lowest numbers. A set of one stands for the loop.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace tolk::codegen {

class LoopSet {
public:
  static constexpr size_t kMaxLoops = 63;

  constexpr LoopSet() = default;
  static constexpr LoopSet one(size_t number) { return LoopSet(uint64_t{1} << number); }
  // The loops 0 .. count-1.
  static constexpr LoopSet below(size_t count) { return LoopSet((uint64_t{1} << count) - 1); }

  constexpr explicit operator bool() const { return bits_ != 0; }
  constexpr int size() const { return std::popcount(bits_); }
  // Number of the first loop; the set is not empty.
  constexpr size_t number() const { return size_t(std::countr_zero(bits_)); }
  constexpr LoopSet first() const { return LoopSet(bits_ & -bits_); }
  constexpr LoopSet last() const { return LoopSet(std::bit_floor(bits_)); }
  // The loops of this set inside of the first of `loop`.
  constexpr LoopSet after(LoopSet loop) const { return LoopSet(bits_ & ~((loop.first().bits_ << 1) - 1)); }

  constexpr LoopSet operator|(LoopSet o) const { return LoopSet(bits_ | o.bits_); }
  constexpr LoopSet operator&(LoopSet o) const { return LoopSet(bits_ & o.bits_); }
  constexpr LoopSet operator-(LoopSet o) const { return LoopSet(bits_ & ~o.bits_); }
  constexpr LoopSet& operator|=(LoopSet o) { return *this = *this | o; }
  constexpr LoopSet& operator-=(LoopSet o) { return *this = *this - o; }
  constexpr bool operator==(const LoopSet&) const = default;

  // The loops from the outermost in, each as a set of one.
  struct Iterator {
    uint64_t left;
    constexpr LoopSet operator*() const { return LoopSet(left & -left); }
    constexpr Iterator& operator++() {
      left &= left - 1;
      return *this;
    }
    constexpr bool operator!=(const Iterator& o) const { return left != o.left; }
  };
  constexpr Iterator begin() const { return {bits_}; }
  constexpr Iterator end() const { return {0}; }

private:
  constexpr explicit LoopSet(uint64_t bits) : bits_(bits) {}
  uint64_t bits_ = 0;
};

} // namespace tolk::codegen
