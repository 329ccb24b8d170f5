// Content keys: XXH3-128 over bytes that describe an object completely (a graph, a kernel, source code). Equal
// keys are assumed to mean equal content, in memory and on disk. XXH3 is not collision-resistant: keys do not
// protect against an attacker.
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

  // 32 lower-case hex digits; kernel names end in the first 8.
  TOLK_API std::string hex() const;
  auto operator<=>(const ContentKey&) const = default;
};

// Key of a byte string; equal to that of a Hasher that got it through `bytes`.
TOLK_API ContentKey content_key(std::string_view bytes);
TOLK_API uint64_t hash64(std::string_view bytes);

// Mixes every input bit into all output bits, for hash tables keyed by ids and pointers, whose low bits repeat.
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

// Builds a key incrementally. Every piece is delimited (strings carry their length, numbers take 8 bytes), so
// different sequences of calls hash different input. Not thread-safe.
class TOLK_API Hasher {
public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  // Raw bytes without a delimiter: chunks of one stream.
  Hasher& bytes(const void* data, size_t size);
  Hasher& text(std::string_view text);
  // Any integer, bool or enum, widened to 64 bits; a negative number sign-extends.
  template <class T>
    requires(std::integral<T> || std::is_enum_v<T>)
  Hasher& number(T value) {
    return word(static_cast<uint64_t>(value));
  }
  // Hashes the bits: 0.0 and -0.0 differ.
  Hasher& real(double value);
  Hasher& key(const ContentKey& key);

  // May be called at any time; more pieces may be added afterwards.
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
