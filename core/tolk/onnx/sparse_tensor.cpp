#include "tolk/onnx/sparse_tensor.h"

#include <fmt/format.h>

#include <cstring>

#include "tolk/base/error.h"
#include "tolk/io/proto_reader.h"
#include "tolk/onnx/model_proto.h"

namespace tolk::onnx {
namespace {

using io::HostTensor;
using io::Place;

// The flat position of entry `i`.
uint64_t position(const HostTensor& indices, const io::Shape& dims, uint64_t count, uint64_t i,
                  const Place& place) {
  auto index = indices.as<int64_t>();
  bool coordinates = indices.shape.size() == 2;
  size_t rank = coordinates ? dims.size() : 1;
  uint64_t flat = 0;
  for (size_t axis = 0; axis < rank; ++axis) {
    int64_t at = index[i * rank + axis];
    uint64_t extent = coordinates ? static_cast<uint64_t>(dims[axis]) : count;
    if (at < 0 || static_cast<uint64_t>(at) >= extent)
      io::fail_at(
          place, fmt::format("index {} of entry {} is outside of the shape {}", at, i, io::shape_text(dims)));
    flat = flat * extent + static_cast<uint64_t>(at);
  }
  return flat;
}

} // namespace

io::NamedTensor parse_sparse_tensor(std::string_view message, const Place& place,
                                    const io::TensorSource& source, uint64_t& budget) {
  namespace f = proto::sparse_tensor;
  io::NamedTensor values, indices;
  bool has_values = false, has_indices = false;
  std::vector<int64_t> dims;
  for (io::ProtoReader r(message, place); r.next();) {
    switch (r.field()) {
    case f::values:
      values = io::parse_tensor(r.view("values"), place.at("values"), source);
      has_values = true;
      break;
    case f::indices:
      indices = io::parse_tensor(r.view("indices"), place.at("indices"), source);
      has_indices = true;
      break;
    case f::dims:
      r.append(dims, "dims");
      break;
    default:
      r.skip();
    }
  }
  if (!has_values || !has_indices) io::fail_at(place, "a sparse tensor needs values and indices");
  const HostTensor& v = values.tensor;
  const HostTensor& at = indices.tensor;
  std::optional<uint64_t> count = io::element_count(dims);
  if (!count) io::fail_at(place, fmt::format("no tensor can have the shape {}", io::shape_text(dims)));
  if (v.is_string() || bits(v.dtype) < 8)
    throw ImportError(
        fmt::format("{}: a sparse tensor of {} is not supported", io::place_text(place), io::type_name(v)));
  uint64_t entries = v.count();
  bool flat = at.shape.size() == 1;
  bool coordinates = at.shape.size() == 2 && at.shape[1] == static_cast<int64_t>(dims.size());
  if (v.shape.size() != 1 || at.dtype != DType::I64 || !(flat || coordinates) ||
      at.shape[0] != static_cast<int64_t>(entries))
    io::fail_at(place,
                fmt::format("values {} and indices {} do not fit together; [n] with i64[n] or i64[n,{}] do",
                            io::type_text(v), io::type_text(at), dims.size()));

  uint64_t size = storage_bytes(v.dtype, *count);
  if (size > budget)
    throw ImportError(fmt::format(
        "{}: the sparse tensor {}{} would fill {} bytes as a dense one; all of a model may fill {}",
        io::place_text(place), name(v.dtype), io::shape_text(dims), size, kSparseBudget));
  budget -= size;
  std::byte* data = nullptr;
  HostTensor dense = io::allocate_tensor(v.dtype, std::move(dims), &data);
  if (size > 0) std::memset(data, 0, size);
  auto width = static_cast<uint64_t>(bits(v.dtype) / 8);
  for (uint64_t i = 0; i < entries; ++i)
    std::memcpy(data + position(at, dense.shape, *count, i, place) * width, v.bytes.data() + i * width,
                width);
  return {std::move(values.name), std::move(dense)};
}

} // namespace tolk::onnx
