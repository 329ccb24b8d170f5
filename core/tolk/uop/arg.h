// The payload of a node: one word inline, and rarely a list of integers and texts. The list form is interned
// for the life of the process, so equality is two compares, and one printer, one parser and one serialiser
// serve every op.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tolk/base/api.h"

namespace tolk {

struct ArgData {
  std::vector<int64_t> ints;
  std::vector<std::string> texts;
  uint64_t hash = 0;
};

struct Arg {
  uint64_t word = 0;
  const ArgData* data = nullptr;

  Arg() = default;
  explicit Arg(uint64_t word) : word(word) {}
  TOLK_API Arg(std::vector<int64_t> ints, std::vector<std::string> texts = {});

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
};

} // namespace tolk
