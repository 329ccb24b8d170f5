// The payload of a node: one inline word, and rarely a list of integers and strings. Lists are interned, so
// equality is two compares, and one printer, parser and serialiser serve every op. A list lives as long as its
// last user: a node in the global table or an arena, or an Arg.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tolk/base/api.h"

namespace tolk {

struct ArgData {
  std::vector<int64_t> ints;
  std::vector<std::string> texts;
  uint64_t hash = 0;
  mutable std::atomic<uint64_t> users{1};
};

struct Arg {
  uint64_t word = 0;
  const ArgData* data = nullptr; // counted

  Arg() = default;
  explicit Arg(uint64_t word) : word(word) {}
  TOLK_API Arg(std::vector<int64_t> ints, std::vector<std::string> texts = {});
  Arg(const Arg& other) : word(other.word), data(other.data) {
    if (data) data->users.fetch_add(1, std::memory_order_relaxed);
  }
  Arg(Arg&& other) noexcept : word(other.word), data(std::exchange(other.data, nullptr)) {}
  Arg& operator=(Arg other) noexcept {
    std::swap(word, other.word), std::swap(data, other.data);
    return *this;
  }
  ~Arg() {
    if (data) release(data);
  }

  bool operator==(const Arg&) const = default;
  uint64_t hash() const { return word * 0x9E3779B97F4A7C15ull ^ (data ? data->hash : 0); }
  // Element of the list form; the list must be long enough.
  int64_t i(size_t index) const { return data->ints[index]; }
  const std::string& text(size_t index = 0) const { return data->texts[index]; }
  std::span<const int64_t> ints() const {
    return data ? std::span<const int64_t>(data->ints) : std::span<const int64_t>();
  }
  std::span<const std::string> texts() const {
    return data ? std::span<const std::string>(data->texts) : std::span<const std::string>();
  }

private:
  TOLK_API static void release(const ArgData* data);
};

// Number of list forms in use; for leak tests.
TOLK_API size_t interned_arg_count();

} // namespace tolk
