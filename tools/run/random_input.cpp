#include "random_input.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "tolk/base/error.h"
#include "tolk/dtype/scalar.h"

namespace tolk::run {
namespace {

// The finaliser of splitmix64: every input bit reaches every output bit.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t stream_of(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325; // FNV-1a
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return mix(seed ^ mix(hash));
}

void store(std::byte* data, uint64_t index, DType dtype, uint64_t word) {
  const auto width = static_cast<uint64_t>(bits(dtype));
  if (width < 8)
    data[index * width / 8] |=
        static_cast<std::byte>((word & ((uint64_t{1} << width) - 1)) << (index * width % 8));
  else
    std::memcpy(data + index * (width / 8), &word, width / 8);
}

double unit(uint64_t word) { return static_cast<double>(word >> 11) * 0x1p-53; }

uint64_t float_bits(DType dtype, double value, const Range& range) {
  double rounded = round_to(dtype, value);
  // Rounding may reach the upper end, which is excluded; the lower end is always a value then.
  if (rounded >= range.high && range.low < range.high) rounded = round_to(dtype, range.low);
  return float_to_bits(dtype, rounded);
}

} // namespace

io::HostTensor random_tensor(DType dtype, io::Shape shape, uint64_t seed, std::string_view name,
                             const std::optional<Range>& given) {
  std::byte* data = nullptr;
  io::HostTensor tensor = io::allocate_tensor(dtype, std::move(shape), &data);
  if (!tensor.bytes.empty()) std::memset(data, 0, tensor.bytes.size());
  const uint64_t stream = stream_of(seed, name), count = tensor.count();
  if (dtype == DType::F8E8M0 && !given) {
    // Powers of two without a sign: 1/2, 1 or 2.
    for (uint64_t i = 0; i < count; ++i) store(data, i, dtype, 126 + mix(stream + i) % 3);
    return tensor;
  }
  if (is_float(dtype)) {
    Range range = given.value_or(Range{-1, 1});
    for (uint64_t i = 0; i < count; ++i)
      store(data, i, dtype,
            float_bits(dtype, range.low + (range.high - range.low) * unit(mix(stream + i)), range));
    return tensor;
  }
  Range range = given.value_or(Range{0, 1});
  double low = std::ceil(range.low), high = std::floor(range.high);
  if (low > high || low < static_cast<double>(int_min(dtype)) || high > static_cast<double>(int_max(dtype)))
    throw InvalidArgument(fmt::format("--fill {}={}..{}: {} has no such values", name, range.low, range.high,
                                      tolk::name(dtype)));
  auto from = static_cast<__int128>(low), to = static_cast<__int128>(high);
  // A double cannot state the largest 64-bit integers; it rounds up.
  auto span = (to < int_max(dtype) ? to : int_max(dtype)) - from + 1;
  for (uint64_t i = 0; i < count; ++i) {
    // The high half of the product: unbiased enough for any span that a double can state.
    auto pick = static_cast<__int128>(
        (static_cast<unsigned __int128>(mix(stream + i)) * static_cast<unsigned __int128>(span)) >> 64);
    store(data, i, dtype, static_cast<uint64_t>(from + pick));
  }
  return tensor;
}

} // namespace tolk::run
