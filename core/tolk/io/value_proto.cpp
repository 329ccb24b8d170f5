// SequenceProto and OptionalProto of onnx-data.proto: the test data of sequence and optional operators.
#include <fmt/format.h>

#include "tolk/base/error.h"
#include "tolk/io/mapped_file.h"
#include "tolk/io/proto_reader.h"
#include "tolk/io/tensor_proto.h"

namespace tolk::io {
namespace {

// SequenceProto.DataType and OptionalProto.DataType.
enum ElementKind : int64_t {
  kUndefined = 0,
  kTensor = 1,
  kSparse = 2,
  kSequence = 3,
  kMap = 4,
  kOptional = 5
};

constexpr int kMaxDepth = 16;

[[noreturn]] void refuse(const Place& place, const char* what) {
  throw ImportError(fmt::format("{}: {} are not supported as values", place_text(place), what));
}

NamedValue parse_value(std::string_view message, ValueKind kind, const Place& place,
                       const TensorSource& source, int depth) {
  if (depth > kMaxDepth) fail_at(place, fmt::format("values are nested more than {} deep", kMaxDepth));
  if (kind == ValueKind::Tensor) {
    NamedTensor t = parse_tensor(message, place, source);
    return {std::move(t.name), std::move(t.tensor)};
  }
  // Both messages have the same fields; an optional has at most one of them.
  std::string name;
  std::vector<Value> items;
  int64_t element = kUndefined;
  auto add = [&](std::string_view part, ValueKind part_kind) {
    Place at = place.at("value", static_cast<int64_t>(items.size()));
    items.push_back(parse_value(part, part_kind, at, source, depth + 1).value);
  };
  for (ProtoReader r(message, place); r.next();) {
    switch (r.field()) {
    case 1:
      name = r.text("name");
      break;
    case 2:
      element = r.integer("elem_type");
      break;
    case 3:
      add(r.view("tensor value"), ValueKind::Tensor);
      break;
    case 4:
      refuse(place, "sparse tensors");
    case 5:
      add(r.view("sequence value"), ValueKind::Sequence);
      break;
    case 6:
      refuse(place, "maps");
    case 7:
      add(r.view("optional value"), ValueKind::Optional);
      break;
    default:
      r.skip();
    }
  }
  if (element < kUndefined || element > kOptional)
    fail_at(place, fmt::format("unknown kind of element {} (elem_type)", element));
  if (kind == ValueKind::Sequence) return {std::move(name), Value::sequence(std::move(items))};
  if (items.size() > 1) fail_at(place, fmt::format("an optional holds {} values", items.size()));
  return {std::move(name), items.empty() ? Value::nothing() : Value::some(std::move(items.front()))};
}

} // namespace

NamedValue read_value_pb(const std::string& path, ValueKind kind) {
  std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  Place root{nullptr, path};
  // An empty file is a message without fields: no tensor, but an empty sequence or an optional without a
  // value.
  if (kind == ValueKind::Tensor)
    return [&]() -> NamedValue {
      NamedTensor t = read_tensor_pb(path);
      return {std::move(t.name), std::move(t.tensor)};
    }();
  return parse_value(file->text(), kind, root, {file, nullptr}, 0);
}

} // namespace tolk::io
