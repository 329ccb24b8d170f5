// ONNX data messages: TensorProto (initializers, .pb test data), SequenceProto and OptionalProto. Field numbers
// are in tensor_proto.cpp. Shapes and lengths are checked against the message before anything is allocated.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tolk/base/api.h"
#include "tolk/io/host_tensor.h"
#include "tolk/io/place.h"
#include "tolk/io/value.h"

namespace tolk::io {

// TensorProto.DataType. kOnnxString is a type of tensors that DType does not have.
inline constexpr int32_t kOnnxString = 8;
// Nothing for 0 (undefined), strings, complex types and unknown codes.
TOLK_API std::optional<DType> dtype_from_onnx(int64_t code);
// DType::Void (strings) gives kOnnxString; Index gives 0.
TOLK_API int32_t onnx_code(DType dtype);
// "FLOAT16"; "type 99" for an unknown code.
TOLK_API std::string onnx_type_name(int64_t code);

// Bytes that a TensorProto keeps in another file, as its external_data entries name them.
struct ExternalReference {
  std::string location;           // relative to the model's folder
  std::optional<uint64_t> offset; // absent: 0
  std::optional<uint64_t> length; // absent: what the shape needs
};
struct ExternalBytes {
  std::span<const std::byte> bytes; // exactly the referenced range
  std::shared_ptr<const void> owner;
};
// Returns the bytes of a reference; `size` is what the shape needs. Throws FormatError or ImportError with the
// location.
using ExternalLookup =
    std::function<ExternalBytes(const ExternalReference&, uint64_t size, const Place& place)>;

struct TensorSource {
  std::shared_ptr<const void> owner; // keeps the message alive: aligned raw data are then shared, not copied.
                                     // Null: everything is copied.
  ExternalLookup external;           // empty: external data are refused
};

// Reads one TensorProto. Throws FormatError (damaged) or ImportError (complex, segmented or external data).
TOLK_API NamedTensor parse_tensor(std::string_view message, const Place& place, const TensorSource& source);

// Reads a .pb file that holds one TensorProto, or a value of the given kind (the file does not record it).
// Throws FormatError, ImportError, or InvalidArgument if the file cannot be opened.
TOLK_API NamedTensor read_tensor_pb(const std::string& path);
TOLK_API NamedValue read_value_pb(const std::string& path, ValueKind kind);

// The TensorProto of a tensor, elements as raw_data, strings as string_data.
TOLK_API std::string encode_tensor(const HostTensor& tensor, std::string_view name);
TOLK_API void write_tensor_pb(const std::string& path, const HostTensor& tensor, std::string_view name);

} // namespace tolk::io
