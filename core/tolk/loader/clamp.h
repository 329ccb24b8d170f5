// Reads a struct of the interface that another version may have written: the smaller of both sizes is copied
// into a zeroed local.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace tolk {

template <typename T> T clamp_copy(const T* from) {
  static_assert(std::is_trivially_copyable_v<T>);
  T out{};
  uint32_t size = 0;
  std::memcpy(&size, from, sizeof size);
  std::memcpy(static_cast<void*>(&out), from, std::min<size_t>(size, sizeof out));
  out.struct_size = sizeof out;
  return out;
}

// Element `index` of an array whose elements are as long as the first one says.
template <typename T> const T* strided(const T* first, uint32_t index) {
  uint32_t size = 0;
  std::memcpy(&size, first, sizeof size);
  return reinterpret_cast<const T*>(reinterpret_cast<const char*>(first) + static_cast<size_t>(size) * index);
}

} // namespace tolk
