#include "tolk/onnx/type_reader.h"

#include <fmt/format.h>

#include "tolk/io/proto_reader.h"
#include "tolk/io/tensor_proto.h"
#include "tolk/onnx/model_proto.h"

namespace tolk::onnx {
namespace {

using io::Place;
using io::ProtoReader;

constexpr int kMaxTypeDepth = 16;

Dim parse_dim(std::string_view message, const Place& place) {
  namespace f = proto::dimension;
  Dim dim;
  for (ProtoReader r(message, place); r.next();) {
    switch (r.field()) {
    case f::dim_value:
      dim.value = r.integer("dim_value");
      break;
    case f::dim_param:
      dim.symbol = r.text("dim_param");
      break;
    default:
      r.skip();
    }
  }
  // Exporters write -1, and some 0 with a name, for a size that is open.
  if (dim.value && (*dim.value < 0 || !dim.symbol.empty())) dim.value.reset();
  return dim;
}

std::vector<Dim> parse_shape(std::string_view message, const Place& place) {
  std::vector<Dim> dims;
  for (ProtoReader r(message, place); r.next();) {
    if (r.field() != proto::shape::dim) {
      r.skip();
      continue;
    }
    if (dims.size() == io::kMaxRank) io::fail_at(place, fmt::format("more than {} dimensions", io::kMaxRank));
    dims.push_back(parse_dim(r.view("dim"), place.at("dim", static_cast<int64_t>(dims.size()))));
  }
  return dims;
}

Type parse_tensor_type(std::string_view message, const Place& place, Type::Kind kind) {
  namespace f = proto::tensor_type;
  Type type;
  type.kind = kind;
  for (ProtoReader r(message, place); r.next();) {
    switch (r.field()) {
    case f::elem_type:
      type.onnx_type = static_cast<int32_t>(r.integer("elem_type"));
      break;
    case f::shape:
      type.dims = parse_shape(r.view("shape"), place.at("shape"));
      break;
    default:
      r.skip();
    }
  }
  type.dtype = io::dtype_from_onnx(type.onnx_type);
  return type;
}

Type parse_nested(std::string_view message, const Place& place, int depth);

Type parse_container(std::string_view message, const Place& place, Type::Kind kind, int depth) {
  Type type;
  type.kind = kind;
  for (ProtoReader r(message, place); r.next();) {
    if (r.field() == proto::container_type::elem_type)
      type.element =
          std::make_shared<const Type>(parse_nested(r.view("elem_type"), place.at("elem_type"), depth + 1));
    else
      r.skip();
  }
  return type;
}

Type parse_nested(std::string_view message, const Place& place, int depth) {
  namespace f = proto::type;
  if (depth > kMaxTypeDepth)
    io::fail_at(place, fmt::format("types are nested more than {} deep", kMaxTypeDepth));
  Type type;
  for (ProtoReader r(message, place); r.next();) {
    switch (r.field()) {
    case f::tensor_type:
      type = parse_tensor_type(r.view("tensor_type"), place, Type::Kind::Tensor);
      break;
    case f::sparse_tensor_type:
      type = parse_tensor_type(r.view("sparse_tensor_type"), place, Type::Kind::SparseTensor);
      break;
    case f::sequence_type:
      type = parse_container(r.view("sequence_type"), place.at("sequence"), Type::Kind::Sequence, depth);
      break;
    case f::optional_type:
      type = parse_container(r.view("optional_type"), place.at("optional"), Type::Kind::Optional, depth);
      break;
    case f::map_type:
      type.kind = Type::Kind::Map;
      r.skip();
      break;
    default:
      r.skip();
    }
  }
  return type;
}

} // namespace

Type parse_type(std::string_view message, const io::Place& place) { return parse_nested(message, place, 0); }

} // namespace tolk::onnx
