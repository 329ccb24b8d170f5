// A tensor in host memory: what file readers and writers, comparisons and tolk-run exchange. A plain value type;
// its elements are immutable and shared, and may live in a mapped file.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/dtype/dtype.h"

namespace tolk::io {

static_assert(std::endian::native == std::endian::little, "file formats are read in place as little endian");

// Readers reject tensors of higher rank.
inline constexpr size_t kMaxRank = 64;

using Shape = std::vector<int64_t>;

// Number of elements (1 for a scalar, 0 if a dimension is 0). Empty if the rank exceeds kMaxRank, a dimension
// is negative, or the product of the nonzero dimensions exceeds 2^60 bytes at 64 bits per element.
TOLK_API std::optional<uint64_t> element_count(std::span<const int64_t> shape);

// "[2,3]"; "[]" for a scalar.
TOLK_API std::string shape_text(std::span<const int64_t> shape);

struct HostTensor {
  DType dtype = DType::F32;          // DType::Void marks a tensor of strings
  Shape shape;                       // empty: a scalar
  std::span<const std::byte> bytes;  // storage_bytes(dtype, count()) bytes, C order, aligned to the element;
                                     // narrower than 8 bits: packed, lowest bits first; bool: 0 or 1 a byte
  std::shared_ptr<const void> owner; // keeps `bytes` alive: a heap block or a mapped file
  std::vector<std::string> strings;  // the elements of a tensor of strings, C order

  bool is_string() const { return dtype == DType::Void; }
  uint64_t count() const { return element_count(shape).value_or(0); }
  // The elements as T; T must have the width of the dtype.
  template <typename T> std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

struct NamedTensor {
  std::string name;
  HostTensor tensor;
};

// Short name of the element type, "string" for a tensor of strings.
TOLK_API const char* type_name(const HostTensor& tensor);
// "f32[2,3]"
TOLK_API std::string type_text(const HostTensor& tensor);

// An uninitialised tensor, aligned to 64 bytes; the caller writes its elements through `data` before sharing
// it. Throws InvalidArgument for a shape that element_count() rejects, OutOfMemory if allocation fails.
TOLK_API HostTensor allocate_tensor(DType dtype, Shape shape, std::byte** data);
// Copies `bytes`, whose length must be storage_bytes(dtype, count); else InvalidArgument.
TOLK_API HostTensor copy_tensor(DType dtype, Shape shape, std::span<const std::byte> bytes);
// A tensor of strings; the number of strings must match the shape, else InvalidArgument.
TOLK_API HostTensor string_tensor(Shape shape, std::vector<std::string> strings);
template <typename T> HostTensor tensor_of(DType dtype, Shape shape, const std::vector<T>& values) {
  return copy_tensor(dtype, std::move(shape), std::as_bytes(std::span<const T>(values)));
}

// Element `index` (C order, below count()): its bits in memory, its value as a double (exact up to 2^53), its
// value as an integer (integers and bool only), and printed. Strings support element_text only.
TOLK_API uint64_t element_bits(const HostTensor& tensor, uint64_t index);
TOLK_API double element_double(const HostTensor& tensor, uint64_t index);
TOLK_API __int128 element_int(const HostTensor& tensor, uint64_t index);
TOLK_API std::string element_text(const HostTensor& tensor, uint64_t index);

// The same values in another element type; empty if one of them is not representable there. NaN converts to
// NaN. Strings convert only to strings.
TOLK_API std::optional<HostTensor> convert_exact(const HostTensor& tensor, DType dtype);

// The multi-dimensional index of a flat C-order index.
TOLK_API std::vector<int64_t> multi_index(std::span<const int64_t> shape, uint64_t flat);

} // namespace tolk::io
