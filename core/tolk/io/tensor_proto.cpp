#include "tolk/io/tensor_proto.h"

#include <fmt/format.h>

#include <protozero/pbf_writer.hpp>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "tolk/base/error.h"
#include "tolk/io/mapped_file.h"
#include "tolk/io/proto_reader.h"

namespace tolk::io {
namespace {

// Which typed list of TensorProto holds the elements of a type, when raw_data does not.
enum class List : uint8_t { None, Float, Int32, Int64, Double, Uint64 };

struct TypeRow {
  int32_t code;
  const char* onnx_name;
  std::optional<DType> dtype;
  List list;
};

constexpr TypeRow kTypes[] = {
    {0, "UNDEFINED", {}, List::None},
    {1, "FLOAT", DType::F32, List::Float},
    {2, "UINT8", DType::U8, List::Int32},
    {3, "INT8", DType::I8, List::Int32},
    {4, "UINT16", DType::U16, List::Int32},
    {5, "INT16", DType::I16, List::Int32},
    {6, "INT32", DType::I32, List::Int32},
    {7, "INT64", DType::I64, List::Int64},
    {8, "STRING", {}, List::None},
    {9, "BOOL", DType::BOOL, List::Int32},
    {10, "FLOAT16", DType::F16, List::Int32},
    {11, "DOUBLE", DType::F64, List::Double},
    {12, "UINT32", DType::U32, List::Uint64},
    {13, "UINT64", DType::U64, List::Uint64},
    {14, "COMPLEX64", {}, List::None},
    {15, "COMPLEX128", {}, List::None},
    {16, "BFLOAT16", DType::BF16, List::Int32},
    {17, "FLOAT8E4M3FN", DType::F8E4M3, List::Int32},
    {18, "FLOAT8E4M3FNUZ", DType::F8E4M3FNUZ, List::Int32},
    {19, "FLOAT8E5M2", DType::F8E5M2, List::Int32},
    {20, "FLOAT8E5M2FNUZ", DType::F8E5M2FNUZ, List::Int32},
    {21, "UINT4", DType::U4, List::Int32},
    {22, "INT4", DType::I4, List::Int32},
    {23, "FLOAT4E2M1", DType::F4E2M1, List::Int32},
    {24, "FLOAT8E8M0", DType::F8E8M0, List::Int32},
    {25, "UINT2", DType::U2, List::Int32},
    {26, "INT2", DType::I2, List::Int32},
};

const TypeRow* row_of(int64_t code) {
  return code >= 0 && code < static_cast<int64_t>(std::size(kTypes)) ? &kTypes[code] : nullptr;
}

// The message as it stands, before its parts are held against each other.
struct Fields {
  std::string_view name, raw;
  int64_t data_type = 0;
  Shape dims;
  bool has_raw = false, segmented = false, external = false;
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<int64_t> ints32, ints64, uints64;
  std::vector<std::string> strings;
  std::vector<std::pair<std::string, std::string>> external_data;
};

std::pair<std::string, std::string> parse_entry(std::string_view message, const Place& place) {
  std::pair<std::string, std::string> entry;
  for (ProtoReader r(message, place); r.next();) {
    switch (r.field()) {
    case 1:
      entry.first = r.text("key");
      break;
    case 2:
      entry.second = r.text("value");
      break;
    default:
      r.skip();
    }
  }
  return entry;
}

Fields parse_fields(std::string_view message, const Place& place) {
  Fields f;
  for (ProtoReader r(message, place); r.next();) {
    switch (r.field()) {
    case 1:
      r.append(f.dims, "dims");
      break;
    case 2:
      f.data_type = r.integer("data_type");
      break;
    case 3:
      f.segmented = true;
      r.skip();
      break;
    case 4:
      r.append(f.floats, "float_data");
      break;
    case 5:
      r.append(f.ints32, "int32_data");
      break;
    case 6:
      f.strings.push_back(r.text("string_data"));
      break;
    case 7:
      r.append(f.ints64, "int64_data");
      break;
    case 8:
      f.name = r.view("name");
      break;
    case 9:
      f.raw = r.view("raw_data");
      f.has_raw = true;
      break;
    case 10:
      r.append(f.doubles, "double_data");
      break;
    case 11:
      r.append(f.uints64, "uint64_data");
      break;
    case 13: {
      Place at = place.at("external_data", static_cast<int64_t>(f.external_data.size()));
      f.external_data.push_back(parse_entry(r.view("external_data"), at));
      break;
    }
    case 14:
      f.external = r.integer("data_location") == 1;
      break;
    default:
      r.skip();
    }
    if (f.dims.size() > kMaxRank)
      fail_at(place, fmt::format("the tensor has more than {} dimensions", kMaxRank));
  }
  return f;
}

uint64_t parse_number(const std::string& key, const std::string& text, const Place& place) {
  uint64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size())
    fail_at(place, fmt::format("external_data has the {} \"{}\", a number of bytes was expected", key, text));
  return number;
}

ExternalReference parse_reference(const Fields& f, const Place& place) {
  ExternalReference reference;
  for (const auto& [key, value] : f.external_data) {
    if (key == "location") reference.location = value;
    if (key == "offset") reference.offset = parse_number(key, value, place);
    if (key == "length") reference.length = parse_number(key, value, place);
  }
  if (reference.location.empty())
    fail_at(place, "the data are external, but external_data names no location");
  return reference;
}

bool aligned(std::span<const std::byte> bytes, DType dtype) {
  auto unit = static_cast<uintptr_t>(std::max(1, bits(dtype) / 8));
  return reinterpret_cast<uintptr_t>(bytes.data()) % unit == 0;
}

// Elements that lie ready in a file: shared when the owner can keep them and the alignment allows, else
// copied. A bool that is neither 0 nor 1 is made 1, since kernels rely on it.
HostTensor from_bytes(DType dtype, Shape shape, std::span<const std::byte> bytes,
                      std::shared_ptr<const void> owner) {
  auto strange = [](std::byte b) { return b > std::byte{1}; };
  bool repair = dtype == DType::BOOL && std::ranges::any_of(bytes, strange);
  if (owner && !repair && aligned(bytes, dtype)) {
    HostTensor tensor;
    tensor.dtype = dtype;
    tensor.shape = std::move(shape);
    tensor.bytes = bytes;
    tensor.owner = std::move(owner);
    return tensor;
  }
  std::byte* data = nullptr;
  HostTensor tensor = allocate_tensor(dtype, std::move(shape), &data);
  if (!bytes.empty()) std::memcpy(data, bytes.data(), bytes.size());
  if (repair)
    for (size_t i = 0; i < bytes.size(); ++i) data[i] = std::byte{bytes[i] != std::byte{0}};
  return tensor;
}

template <typename T> HostTensor narrow(DType dtype, Shape shape, const std::vector<int64_t>& values) {
  std::byte* data = nullptr;
  HostTensor tensor = allocate_tensor(dtype, std::move(shape), &data);
  auto* to = reinterpret_cast<T*>(data);
  for (size_t i = 0; i < values.size(); ++i)
    to[i] = dtype == DType::BOOL ? static_cast<T>(values[i] != 0) : static_cast<T>(values[i]);
  return tensor;
}

// Elements from a list of integers: one each, or for types under 8 bits one packed byte each.
HostTensor from_ints(DType dtype, Shape shape, const std::vector<int64_t>& values) {
  switch (bits(dtype)) {
  case 16:
    return narrow<uint16_t>(dtype, std::move(shape), values);
  case 32:
    return narrow<uint32_t>(dtype, std::move(shape), values);
  case 64:
    return narrow<uint64_t>(dtype, std::move(shape), values);
  default:
    return narrow<uint8_t>(dtype, std::move(shape), values);
  }
}

HostTensor from_typed(const Fields& f, const TypeRow& row, uint64_t count, const Place& place) {
  const DType dtype = *row.dtype;
  uint64_t wanted = bits(dtype) < 8 ? storage_bytes(dtype, count) : count;
  struct {
    const char* name;
    uint64_t size;
  } found{"", 0};
  switch (row.list) {
  case List::Float:
    found = {"float_data", f.floats.size()};
    break;
  case List::Double:
    found = {"double_data", f.doubles.size()};
    break;
  case List::Int32:
    found = {"int32_data", f.ints32.size()};
    break;
  case List::Int64:
    found = {"int64_data", f.ints64.size()};
    break;
  case List::Uint64:
    found = {"uint64_data", f.uints64.size()};
    break;
  case List::None:
    break;
  }
  if (found.size != wanted)
    fail_at(place, fmt::format("{}{} needs {} values in {}, found {}", row.onnx_name, shape_text(f.dims),
                               wanted, found.name, found.size));
  switch (row.list) {
  case List::Float:
    return tensor_of(dtype, f.dims, f.floats);
  case List::Double:
    return tensor_of(dtype, f.dims, f.doubles);
  case List::Int64:
    return from_ints(dtype, f.dims, f.ints64);
  case List::Uint64:
    return from_ints(dtype, f.dims, f.uints64);
  default:
    return from_ints(dtype, f.dims, f.ints32);
  }
}

HostTensor from_strings(Fields& f, uint64_t count, const Place& place) {
  if (f.has_raw || f.external) fail_at(place, "a tensor of strings must hold its elements in string_data");
  if (f.strings.size() != count)
    fail_at(place, fmt::format("STRING{} needs {} values in string_data, found {}", shape_text(f.dims), count,
                               f.strings.size()));
  return string_tensor(f.dims, std::move(f.strings));
}

HostTensor build(Fields& f, const Place& place, const TensorSource& source) {
  const TypeRow* row = row_of(f.data_type);
  if (!row || row->code == 0)
    fail_at(place, fmt::format("the tensor has no known element type (data_type {})", f.data_type));
  if (f.segmented) throw ImportError(place_text(place) + ": tensors in segments are not supported");
  std::optional<uint64_t> count = element_count(f.dims);
  if (!count) fail_at(place, fmt::format("no tensor can have the shape {}", shape_text(f.dims)));
  if (row->code == kOnnxString) return from_strings(f, *count, place);
  if (!row->dtype)
    throw ImportError(
        fmt::format("{}: elements of type {} are not supported", place_text(place), row->onnx_name));

  uint64_t size = storage_bytes(*row->dtype, *count);
  if (f.external) {
    if (!source.external)
      throw ImportError(place_text(place) +
                        ": the data are in another file, which is only possible in a model");
    ExternalBytes found = source.external(parse_reference(f, place), size, place);
    return from_bytes(*row->dtype, f.dims, found.bytes, found.owner);
  }
  if (f.has_raw) {
    if (f.raw.size() != size)
      fail_at(place, fmt::format("{}{} needs {} bytes of raw_data, found {}", row->onnx_name,
                                 shape_text(f.dims), size, f.raw.size()));
    return from_bytes(*row->dtype, f.dims, std::as_bytes(std::span<const char>(f.raw)), source.owner);
  }
  return from_typed(f, *row, *count, place);
}

} // namespace

std::optional<DType> dtype_from_onnx(int64_t code) {
  const TypeRow* row = row_of(code);
  return row ? row->dtype : std::nullopt;
}

int32_t onnx_code(DType dtype) {
  if (dtype == DType::Void) return kOnnxString;
  for (const TypeRow& row : kTypes)
    if (row.dtype == dtype) return row.code;
  return 0;
}

std::string onnx_type_name(int64_t code) {
  const TypeRow* row = row_of(code);
  return row ? row->onnx_name : fmt::format("type {}", code);
}

NamedTensor parse_tensor(std::string_view message, const Place& place, const TensorSource& source) {
  Fields f = parse_fields(message, place);
  // The name of an initializer helps more than its number.
  std::string label = f.name.empty() ? std::string() : fmt::format("\"{}\"", f.name);
  Place named = label.empty() ? place : place.at(label);
  HostTensor tensor = build(f, named, source);
  return {std::string(f.name), std::move(tensor)};
}

NamedTensor read_tensor_pb(const std::string& path) {
  std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  Place root{nullptr, path};
  if (file->bytes().empty()) fail_at(root, "the file is empty, an ONNX TensorProto was expected");
  return parse_tensor(file->text(), root, {file, nullptr});
}

std::string encode_tensor(const HostTensor& tensor, std::string_view name) {
  std::string message;
  protozero::pbf_writer w(message);
  w.add_packed_int64(1, tensor.shape.begin(), tensor.shape.end());
  w.add_int32(2, onnx_code(tensor.dtype));
  if (!name.empty()) w.add_string(8, name.data(), name.size());
  if (tensor.is_string()) {
    for (const std::string& s : tensor.strings) w.add_bytes(6, s);
  } else {
    w.add_bytes(9, reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  }
  return message;
}

void write_tensor_pb(const std::string& path, const HostTensor& tensor, std::string_view name) {
  write_file(path, std::as_bytes(std::span<const char>(encode_tensor(tensor, name))));
}

} // namespace tolk::io
