// An input or output of a model: a tensor, a sequence of values, an optional, which may be empty, or a map.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tolk/io/host_tensor.h"

namespace tolk::io {

enum class ValueKind : uint8_t { Tensor, Sequence, Optional, Map };

struct Value {
  ValueKind kind = ValueKind::Tensor;
  HostTensor tensor; // kind Tensor
  // Sequence: the elements; Optional: the one value, or none; Map: keys and values, two tensors of one length.
  std::vector<Value> items;

  Value() = default;
  Value(HostTensor t) : tensor(std::move(t)) {} // NOLINT: a tensor is a value
  static Value sequence(std::vector<Value> elements) {
    return Value(ValueKind::Sequence, std::move(elements));
  }
  static Value map(Value keys, Value values) {
    return Value(ValueKind::Map, std::vector<Value>{std::move(keys), std::move(values)});
  }
  static Value nothing() { return Value(ValueKind::Optional, {}); }
  static Value some(Value value) { return Value(ValueKind::Optional, std::vector<Value>{std::move(value)}); }

private:
  Value(ValueKind k, std::vector<Value> list) : kind(k), items(std::move(list)) {}
};

struct NamedValue {
  std::string name;
  Value value;
};

// "f32[2,3]", "sequence of 3", "nothing", "optional f32[2]", "map of 3".
TOLK_API std::string type_text(const Value& value);

} // namespace tolk::io
