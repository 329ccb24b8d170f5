// An ONNX model as plain structs: what the reader gives and the importer takes. Nothing here knows an
// operator.
//
//   onnx::ModelFile model = onnx::read_model("net.onnx");
//   for (const onnx::Node& node : model.graph.nodes)
//     if (node.is("Conv")) group = node.integer("group", 1);
//
// Everything is immutable after reading and may be shared between threads. Tensors may point into the mapped
// file, which they keep alive.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/io/host_tensor.h"
#include "tolk/io/value.h"

namespace tolk::onnx {

struct Graph;

// One dimension of a declared shape: a number, a name that stands for one number during a call, or unknown.
struct Dim {
  std::optional<int64_t> value;
  std::string symbol; // empty: none

  bool known() const { return value.has_value(); }
  bool symbolic() const { return !symbol.empty(); }
};

// A declared type. The kind of a value with no declared type is Unknown.
struct Type {
  enum class Kind : uint8_t { Unknown, Tensor, SparseTensor, Sequence, Optional, Map };
  Kind kind = Kind::Unknown;
  std::optional<DType> dtype; // tensors: nothing when undeclared or not supported (onnx_type says which)
  int32_t onnx_type = 0;      // tensors: TensorProto.DataType; io::kOnnxString for strings
  std::optional<std::vector<Dim>> dims; // tensors: nothing when even the rank is open
  std::shared_ptr<const Type> element;  // sequences and optionals

  TOLK_API bool is_string() const;
};

// "f32[N,3,?]", "sequence(i64[])", "string[..]" for an open rank, "unknown".
TOLK_API std::string type_text(const Type& type);

struct ValueInfo {
  std::string name;
  Type type;
};

// An attribute. The alternative follows the declared type; sparse tensors are read as dense ones. A list
// alternative may be empty. monostate: a reference to an attribute of the enclosing function, named by
// ref_attr_name.
struct Attribute {
  using Floats = std::vector<float>;
  using Ints = std::vector<int64_t>;
  using Strings = std::vector<std::string>;
  using Tensors = std::vector<io::HostTensor>;
  using Graphs = std::vector<std::shared_ptr<const Graph>>;
  using Types = std::vector<Type>;
  using Data =
      std::variant<std::monostate, float, int64_t, std::string, io::HostTensor, std::shared_ptr<const Graph>,
                   Type, Floats, Ints, Strings, Tensors, Graphs, Types>;
  std::string name;
  std::string ref_attr_name;
  Data data;

  // "a float", "a list of ints", ... for messages.
  const char* kind() const;
};

struct Node {
  std::string op_type;
  std::string domain;               // empty for ai.onnx, which is read as empty too
  std::string name;                 // often empty
  std::string overload;             // of a model-local function; usually empty
  std::vector<std::string> inputs;  // an empty name: an optional input that is left out
  std::vector<std::string> outputs; // an empty name: an output that is not wanted
  std::vector<Attribute> attributes;
  std::string place; // where in the file: "graph.node[12]"

  bool is(std::string_view op, std::string_view in_domain = "") const {
    return op_type == op && domain == in_domain;
  }
  bool has_input(size_t i) const { return i < inputs.size() && !inputs[i].empty(); }
  bool has_output(size_t i) const { return i < outputs.size() && !outputs[i].empty(); }
  // The attribute of that name, or null.
  TOLK_API const Attribute* find(std::string_view attribute) const;

  // Attributes with defaults; the first four forms give the default when the attribute is missing,
  // `require_*` throw. All throw ImportError that names the node when the attribute has another type.
  TOLK_API int64_t integer(std::string_view attribute, int64_t missing) const;
  TOLK_API float number(std::string_view attribute, float missing) const;
  TOLK_API std::string text(std::string_view attribute, std::string_view missing) const;
  TOLK_API std::vector<int64_t> integers(std::string_view attribute, std::vector<int64_t> missing = {}) const;
  TOLK_API std::vector<float> numbers(std::string_view attribute, std::vector<float> missing = {}) const;
  TOLK_API std::vector<std::string> texts(std::string_view attribute,
                                          std::vector<std::string> missing = {}) const;
  TOLK_API const io::HostTensor* tensor(std::string_view attribute) const; // null when missing
  TOLK_API const Graph* graph(std::string_view attribute) const;           // null when missing
  TOLK_API int64_t require_integer(std::string_view attribute) const;
  TOLK_API std::vector<int64_t> require_integers(std::string_view attribute) const;
  TOLK_API const io::HostTensor& require_tensor(std::string_view attribute) const;
  TOLK_API const Graph& require_graph(std::string_view attribute) const;

  // "graph.node[12] \"conv1\" (Conv)"; with the domain when it is not ai.onnx. For messages.
  TOLK_API std::string describe() const;
};

// A graph: the model's own, or the body of an If, Loop, Scan or SequenceMap, which sees the names of the
// graphs around it.
struct Graph {
  std::string name;
  std::vector<Node> nodes; // in topological order: the reader checks it
  std::map<std::string, io::HostTensor, std::less<>> initializers;
  std::vector<ValueInfo> inputs; // may list initializers too: those are not asked for
  std::vector<ValueInfo> outputs;
  std::map<std::string, Type, std::less<>> value_info; // declared types of intermediate values

  const io::HostTensor* initializer(std::string_view n) const {
    auto it = initializers.find(n);
    return it == initializers.end() ? nullptr : &it->second;
  }
  // The inputs that a caller must give: those without an initializer.
  TOLK_API std::vector<ValueInfo> free_inputs() const;
};

// domain ("" for ai.onnx) -> version.
using Opsets = std::map<std::string, int64_t, std::less<>>;

// A model-local function: a graph with parameters.
struct Function {
  std::string name, domain, overload;
  std::vector<std::string> inputs, outputs;
  std::vector<std::string> attributes; // names without a default
  std::vector<Attribute> attribute_defaults;
  std::vector<Node> nodes;
  Opsets opsets;
};

struct ModelFile {
  std::string path; // as given to the reader; for messages
  int64_t ir_version = 0;
  std::string producer; // name and version
  Opsets opsets;
  Graph graph;
  std::vector<Function> functions;
  std::map<std::string, std::string> metadata;

  // The version in force for a domain, 0 when the model does not import it. Old files without opset_import
  // mean 1.
  int64_t opset(std::string_view domain = "") const {
    auto it = opsets.find(domain);
    return it == opsets.end() ? 0 : it->second;
  }
  TOLK_API const Function* function(std::string_view domain, std::string_view op_type,
                                    std::string_view overload = "") const;
};

} // namespace tolk::onnx
