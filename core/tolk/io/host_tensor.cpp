#include "tolk/io/host_tensor.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <new>

#include "tolk/base/error.h"
#include "tolk/dtype/scalar.h"

namespace tolk::io {

std::optional<uint64_t> element_count(std::span<const int64_t> shape) {
  if (shape.size() > kMaxRank) return std::nullopt;
  // The dimensions beside a zero are bounded too, so that strides computed from them cannot overflow.
  constexpr uint64_t limit = uint64_t{1} << 57;
  uint64_t product = 1;
  bool empty = false;
  for (int64_t dim : shape) {
    if (dim < 0) return std::nullopt;
    if (dim == 0) {
      empty = true;
      continue;
    }
    if (static_cast<uint64_t>(dim) > limit / product) return std::nullopt;
    product *= static_cast<uint64_t>(dim);
  }
  return empty ? 0 : product;
}

std::string shape_text(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

const char* type_name(const HostTensor& tensor) { return tensor.is_string() ? "string" : name(tensor.dtype); }

std::string type_text(const HostTensor& tensor) { return type_name(tensor) + shape_text(tensor.shape); }

HostTensor allocate_tensor(DType dtype, Shape shape, std::byte** data) {
  std::optional<uint64_t> count = element_count(shape);
  if (!count) throw InvalidArgument(fmt::format("no tensor can have the shape {}", shape_text(shape)));
  uint64_t size = storage_bytes(dtype, *count);
  constexpr std::align_val_t alignment{64};
  auto* block = static_cast<std::byte*>(::operator new(size ? size : 1, alignment, std::nothrow));
  if (!block)
    throw OutOfMemory(fmt::format("no memory for {} bytes of {}{}", size, name(dtype), shape_text(shape)));
  HostTensor tensor;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.owner = std::shared_ptr<std::byte>(block, [](std::byte* p) { ::operator delete(p, alignment); });
  tensor.bytes = {block, size};
  *data = block;
  return tensor;
}

HostTensor copy_tensor(DType dtype, Shape shape, std::span<const std::byte> bytes) {
  std::byte* data = nullptr;
  HostTensor tensor = allocate_tensor(dtype, std::move(shape), &data);
  if (tensor.bytes.size() != bytes.size())
    throw InvalidArgument(fmt::format("{} needs {} bytes of elements, {} were given", type_text(tensor),
                                      tensor.bytes.size(), bytes.size()));
  if (!bytes.empty()) std::memcpy(data, bytes.data(), bytes.size());
  return tensor;
}

HostTensor string_tensor(Shape shape, std::vector<std::string> strings) {
  if (element_count(shape) != strings.size())
    throw InvalidArgument(
        fmt::format("a tensor of strings {} cannot hold {} strings", shape_text(shape), strings.size()));
  HostTensor tensor;
  tensor.dtype = DType::Void;
  tensor.shape = std::move(shape);
  tensor.strings = std::move(strings);
  return tensor;
}

uint64_t element_bits(const HostTensor& tensor, uint64_t index) {
  const int width = bits(tensor.dtype);
  const std::byte* data = tensor.bytes.data();
  if (width < 8) {
    uint64_t bit = index * static_cast<uint64_t>(width);
    return (std::to_integer<uint64_t>(data[bit / 8]) >> (bit % 8)) & ((uint64_t{1} << width) - 1);
  }
  uint64_t word = 0;
  std::memcpy(&word, data + index * static_cast<uint64_t>(width / 8), static_cast<size_t>(width / 8));
  return word;
}

__int128 element_int(const HostTensor& tensor, uint64_t index) {
  uint64_t word = element_bits(tensor, index);
  if (is_bool(tensor.dtype)) return word != 0;
  return wrap_to(tensor.dtype, static_cast<__int128>(word));
}

double element_double(const HostTensor& tensor, uint64_t index) {
  // The two common types skip the table.
  if (tensor.dtype == DType::F32) return tensor.as<float>()[index];
  if (tensor.dtype == DType::F64) return tensor.as<double>()[index];
  if (is_float(tensor.dtype)) return float_from_bits(tensor.dtype, element_bits(tensor, index));
  return static_cast<double>(element_int(tensor, index));
}

std::string element_text(const HostTensor& tensor, uint64_t index) {
  if (tensor.is_string()) return fmt::format("\"{}\"", tensor.strings[index]);
  if (is_bool(tensor.dtype)) return element_int(tensor, index) != 0 ? "true" : "false";
  if (!is_float(tensor.dtype)) {
    __int128 value = element_int(tensor, index);
    return value < 0 ? fmt::format("{}", static_cast<int64_t>(value))
                     : fmt::format("{}", static_cast<uint64_t>(value));
  }
  double value = element_double(tensor, index);
  return tensor.dtype == DType::F64 ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
}

namespace {

// Bits of the value in `to`, or nothing when `to` has no such value.
std::optional<uint64_t> exact_bits(const HostTensor& tensor, uint64_t index, DType to) {
  if (is_float(tensor.dtype)) {
    double value = element_double(tensor, index);
    if (is_float(to)) {
      uint64_t word = float_to_bits(to, value);
      double back = float_from_bits(to, word);
      bool same = std::isnan(value) ? std::isnan(back) : back == value;
      return same ? std::optional(word) : std::nullopt;
    }
    if (!std::isfinite(value) || value != std::trunc(value) || std::fabs(value) >= 0x1p64)
      return std::nullopt;
    auto integer = static_cast<__int128>(value);
    if (integer < int_min(to) || integer > int_max(to)) return std::nullopt;
    return static_cast<uint64_t>(integer);
  }
  __int128 value = element_int(tensor, index);
  if (!is_float(to)) {
    if (value < int_min(to) || value > int_max(to)) return std::nullopt;
    return static_cast<uint64_t>(value);
  }
  auto rounded = static_cast<double>(value);
  if (static_cast<__int128>(rounded) != value) return std::nullopt;
  uint64_t word = float_to_bits(to, rounded);
  return float_from_bits(to, word) == rounded ? std::optional(word) : std::nullopt;
}

} // namespace

std::optional<HostTensor> convert_exact(const HostTensor& tensor, DType dtype) {
  if (tensor.dtype == dtype) return tensor;
  if (tensor.is_string() || dtype == DType::Void || dtype == DType::Index) return std::nullopt;
  std::byte* data = nullptr;
  HostTensor result = allocate_tensor(dtype, tensor.shape, &data);
  const auto width = static_cast<uint64_t>(bits(dtype));
  if (!result.bytes.empty()) std::memset(data, 0, result.bytes.size());
  for (uint64_t i = 0, n = tensor.count(); i < n; ++i) {
    std::optional<uint64_t> word = exact_bits(tensor, i, dtype);
    if (!word) return std::nullopt;
    if (width < 8) {
      uint64_t bit = i * width;
      data[bit / 8] |= static_cast<std::byte>((*word & ((uint64_t{1} << width) - 1)) << (bit % 8));
    } else {
      std::memcpy(data + i * (width / 8), &*word, width / 8);
    }
  }
  return result;
}

std::vector<int64_t> multi_index(std::span<const int64_t> shape, uint64_t flat) {
  std::vector<int64_t> index(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    auto extent = static_cast<uint64_t>(shape[i] > 0 ? shape[i] : 1);
    index[i] = static_cast<int64_t>(flat % extent);
    flat /= extent;
  }
  return index;
}

} // namespace tolk::io
