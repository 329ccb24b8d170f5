// Content keys: 128 bits of XXH3 over bytes that describe a thing completely (a graph, a kernel, a source
// text). Equal keys are taken for equal content, on disk as in memory. Not a defence against somebody who
// builds collisions.
#pragma once

#include <compare>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "tolk/base/api.h"

namespace tolk {

struct ContentKey {
  uint64_t high = 0, low = 0;

  // 32 lower-case hex digits; the first 8 are the tail of kernel names.
  TOLK_API std::string hex() const;
  auto operator<=>(const ContentKey&) const = default;
};

// Key of one run of bytes; the same as a Hasher fed with `bytes` of it.
TOLK_API ContentKey content_key(std::string_view bytes);
TOLK_API uint64_t hash64(std::string_view bytes);

// Spreads every input bit over all output bits. For hash tables over ids and pointers, whose low bits repeat.
constexpr uint64_t mix64(uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ULL;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ULL;
  return x ^ x >> 32;
}
constexpr uint64_t combine64(uint64_t seed, uint64_t x) {
  return mix64(seed * 0x9e3779b97f4a7c15ULL + x + 1);
}

// Builds a key piece by piece. Every piece is delimited (texts carry their length, numbers have 8 bytes), so
// two different sequences of calls give different input. Not for several threads at once.
class TOLK_API Hasher {
public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  // Raw bytes, not delimited: chunks of one long stream.
  Hasher& bytes(const void* data, size_t size);
  Hasher& text(std::string_view text);
  // Any integer, bool or enum, widened to 64 bits; a negative number sign-extends.
  template <class T>
    requires(std::integral<T> || std::is_enum_v<T>)
  Hasher& number(T value) {
    return word(static_cast<uint64_t>(value));
  }
  // By its bits: 0.0 and -0.0 differ.
  Hasher& real(double value);
  Hasher& key(const ContentKey& key);

  // May be called at any time; more pieces may follow.
  ContentKey finish() const;

private:
  Hasher& word(uint64_t value);
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace tolk

template <> struct std::hash<tolk::ContentKey> {
  size_t operator()(const tolk::ContentKey& key) const noexcept { return key.low; }
};
