// The monotonic clock.
#pragma once

#include <chrono>
#include <cstdint>

namespace tolk {

// Nanoseconds since an arbitrary point of the past.
inline uint64_t now_ns() {
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  return uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}
// Milliseconds since a time of now_ns().
inline double ms_since(uint64_t begin_ns) { return double(now_ns() - begin_ns) * 1e-6; }

} // namespace tolk
