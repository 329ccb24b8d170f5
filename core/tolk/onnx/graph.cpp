#include "tolk/onnx/graph.h"

#include <fmt/format.h>

#include "tolk/base/error.h"
#include "tolk/base/text.h"
#include "tolk/io/tensor_proto.h"

namespace tolk::onnx {
namespace {

constexpr const char* kKinds[] = {
    "a reference to a function's attribute",
    "a float",
    "an int",
    "a string",
    "a tensor",
    "a graph",
    "a type",
    "a list of floats",
    "a list of ints",
    "a list of strings",
    "a list of tensors",
    "a list of graphs",
    "a list of types",
};
static_assert(std::size(kKinds) == std::variant_size_v<Attribute::Data>);

// The attribute's value, null when it is missing; throws when it is there with another type.
template <typename T> const T* get(const Node& node, std::string_view name) {
  const Attribute* attribute = node.find(name);
  if (!attribute) return nullptr;
  if (const T* value = std::get_if<T>(&attribute->data)) return value;
  const size_t wanted = Attribute::Data(std::in_place_type<T>).index();
  throw ImportError(fmt::format("{}: the attribute {} must be {}, it is {}", node.describe(), name,
                                kKinds[wanted], attribute->kind()));
}

template <typename T> T get_or(const Node& node, std::string_view name, T missing) {
  const T* value = get<T>(node, name);
  return value ? *value : std::move(missing);
}

template <typename T> const T& require(const Node& node, std::string_view name) {
  if (const T* value = get<T>(node, name)) return *value;
  throw ImportError(fmt::format("{}: the attribute {} is missing", node.describe(), name));
}

std::string dim_text(const Dim& dim) {
  if (dim.known()) return fmt::format("{}", *dim.value);
  return dim.symbolic() ? printable(dim.symbol) : "?";
}

} // namespace

bool Type::is_string() const { return onnx_type == io::kOnnxString; }

std::string type_text(const Type& type) {
  switch (type.kind) {
  case Type::Kind::Tensor:
  case Type::Kind::SparseTensor: {
    std::string text = type.kind == Type::Kind::SparseTensor ? "sparse " : "";
    text += type.dtype ? name(*type.dtype) : type.is_string() ? "string" : io::onnx_type_name(type.onnx_type);
    if (!type.dims) return text + "[..]";
    std::vector<std::string> dims;
    for (const Dim& dim : *type.dims) dims.push_back(dim_text(dim));
    return fmt::format("{}[{}]", text, fmt::join(dims, ","));
  }
  case Type::Kind::Sequence:
    return fmt::format("sequence({})", type.element ? type_text(*type.element) : "unknown");
  case Type::Kind::Optional:
    return fmt::format("optional({})", type.element ? type_text(*type.element) : "unknown");
  case Type::Kind::Map:
    return "map";
  case Type::Kind::Unknown:
    break;
  }
  return "unknown";
}

const char* Attribute::kind() const { return kKinds[data.index()]; }

const Attribute* Node::find(std::string_view attribute) const {
  for (const Attribute& a : attributes)
    if (a.name == attribute) return &a;
  return nullptr;
}

int64_t Node::integer(std::string_view a, int64_t missing) const {
  return get_or<int64_t>(*this, a, missing);
}
float Node::number(std::string_view a, float missing) const { return get_or<float>(*this, a, missing); }
std::string Node::text(std::string_view a, std::string_view missing) const {
  return get_or<std::string>(*this, a, std::string(missing));
}
std::vector<int64_t> Node::integers(std::string_view a, std::vector<int64_t> missing) const {
  return get_or<Attribute::Ints>(*this, a, std::move(missing));
}
std::vector<float> Node::numbers(std::string_view a, std::vector<float> missing) const {
  return get_or<Attribute::Floats>(*this, a, std::move(missing));
}
std::vector<std::string> Node::texts(std::string_view a, std::vector<std::string> missing) const {
  return get_or<Attribute::Strings>(*this, a, std::move(missing));
}
const io::HostTensor* Node::tensor(std::string_view a) const { return get<io::HostTensor>(*this, a); }
const Graph* Node::graph(std::string_view a) const {
  const auto* value = get<std::shared_ptr<const Graph>>(*this, a);
  return value ? value->get() : nullptr;
}
int64_t Node::require_integer(std::string_view a) const { return require<int64_t>(*this, a); }
std::vector<int64_t> Node::require_integers(std::string_view a) const {
  return require<Attribute::Ints>(*this, a);
}
const io::HostTensor& Node::require_tensor(std::string_view a) const {
  return require<io::HostTensor>(*this, a);
}
const Graph& Node::require_graph(std::string_view a) const {
  return *require<std::shared_ptr<const Graph>>(*this, a);
}

std::string Node::describe() const {
  std::string text = place;
  if (!name.empty()) text += fmt::format(" \"{}\"", printable(name));
  std::string op = printable(op_type);
  return text + (domain.empty() ? fmt::format(" ({})", op) : fmt::format(" ({}.{})", printable(domain), op));
}

std::vector<ValueInfo> Graph::free_inputs() const {
  std::vector<ValueInfo> result;
  for (const ValueInfo& input : inputs)
    if (!initializer(input.name)) result.push_back(input);
  return result;
}

const Function* ModelFile::function(std::string_view domain, std::string_view op_type,
                                    std::string_view overload) const {
  for (const Function& f : functions)
    if (f.domain == domain && f.name == op_type && f.overload == overload) return &f;
  return nullptr;
}

} // namespace tolk::onnx
