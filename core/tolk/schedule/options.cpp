#include "tolk/schedule/options.h"

#include <concepts>

#include "tolk/base/hash.h"

namespace tolk::schedule {
namespace {

uint64_t bits_of(const std::string& text) { return hash64(text); }
template <std::integral T> uint64_t bits_of(T number) { return uint64_t(number); }
uint64_t bits_of(const ViewLimits& limits) {
  return combine64(uint64_t(limits.alignment), uint64_t(limits.largest_offset));
}
template <typename T> uint64_t bits_of(const std::map<std::string, T>& by_device) {
  uint64_t d = by_device.size();
  for (const auto& [device, limit] : by_device) d = combine64(combine64(d, hash64(device)), bits_of(limit));
  return d;
}

} // namespace

uint64_t Options::digest() const {
  uint64_t d = 0x5EED;
#define TOLK_OPTION(type, name, value) d = combine64(d, bits_of(name));
#include "tolk/schedule/options.def"
  return d;
}

} // namespace tolk::schedule
