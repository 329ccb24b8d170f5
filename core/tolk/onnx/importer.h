// Turns the nodes of a model into Tensors. Operators are rows of the tables in ops_*.cpp (importer_registry.cpp
// joins them); most are one expression over Tensor.
//
//   auto tanh = [](OpCall& op) -> std::vector<GraphValue> { return {op.in(0).tanh()}; };
//   OpRow row{"", "Tanh", 6, tanh};
//
// An import belongs to one combination of input shapes. Values that the graph's structure depends on (shapes,
// axes, loop counts, conditions) are computed while importing: on the host when they are constant, else by
// running what they depend on, which ties the import to the input data (data_dependent).
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tolk/io/value.h"
#include "tolk/onnx/graph.h"
#include "tolk/tensor/host_eval.h"
#include "tolk/tensor/tensor.h"

namespace tolk::onnx {

// What a name stands for while importing.
struct GraphValue {
  io::ValueKind kind = io::ValueKind::Tensor;
  Tensor tensor; // numbers
  std::shared_ptr<const io::HostTensor>
      host;                      // known elements: initializers, constants; the only form of strings
  std::vector<GraphValue> items; // sequence: the elements; optional: none or one
  // An element type below 8 bits that the tensor's elements stand for, each in carrier_of(narrow); Void:
  // none.
  DType narrow = DType::Void;
  bool omitted = false; // an optional input of a function that the call leaves out

  GraphValue() = default;
  GraphValue(Tensor t) : tensor(std::move(t)) {} // NOLINT(google-explicit-constructor)
  explicit GraphValue(io::HostTensor t);         // the elements alone; a tensor of numbers is set beside them
  static GraphValue sequence(std::vector<GraphValue> elements);
  static GraphValue optional(std::vector<GraphValue> none_or_one);
  bool is_string() const { return host && host->is_string(); }
};

class Importer;

// One node at work: its inputs, attributes and the opset in force.
class OpCall {
public:
  OpCall(Importer& importer, const Node& node, int64_t opset, std::vector<const GraphValue*> inputs)
      : importer(importer), node(node), opset(opset), inputs_(std::move(inputs)) {}

  Importer& importer;
  const Node& node;
  const int64_t opset; // of the node's domain

  size_t count() const { return inputs_.size(); } // inputs listed, missing ones included
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i]; }
  const GraphValue& value(size_t i) const; // throws ImportError when missing
  const Tensor& in(size_t i) const;        // a tensor of numbers; throws ImportError otherwise
  Tensor in_or(size_t i, const Tensor& missing) const { return has(i) ? in(i) : missing; }
  DType type(size_t i) const { // of a tensor of numbers, as the model sees it
    return in(i).defined() && value(i).narrow != DType::Void ? value(i).narrow : in(i).dtype();
  }
  std::vector<Tensor> all() const; // every input that is there
  // The input's elements now; see the header's comment for what that may cost. Throws ImportError when
  // missing.
  std::vector<int64_t> ints(size_t i) const;
  std::vector<double> floats(size_t i) const;
  int64_t int_at(size_t i) const; // of a one-element input
  double float_at(size_t i) const;
  // An integer list that older opsets have as attribute and newer ones as input number i; nothing when
  // absent.
  std::optional<std::vector<int64_t>> ints_either(std::string_view attribute, size_t i) const;
  const std::vector<std::string>& strings(size_t i) const;
  bool wants(size_t output) const { return node.has_output(output); }
  // An attribute that names an axis, counted from the start; throws ImportError when there is no such axis.
  int64_t axis(std::string_view attribute, int64_t missing, int64_t rank) const;
  // `given` counted from the start. Throws ImportError that names `what` when an axis does not exist or
  // occurs twice.
  std::vector<int64_t> axes(std::vector<int64_t> given, int64_t rank, const char* what) const;
  // A shape from sizes that the model computes. Throws ImportError that names `what` for a negative size and
  // for more elements than can be addressed.
  Shape shape(const std::vector<int64_t>& sizes, const char* what) const;
  // An attribute that is an integer in some versions and a float in others.
  double real(std::string_view attribute, double missing) const;
  // Fails unless every element of input i is a position in -size .. size-1. Only elements that are known
  // before anything runs are looked at.
  void check_positions(size_t i, const SInt& size) const;
  // Fails when a table of that many entries would be made for `what`: more than any real model asks for.
  void check_table(double entries, const char* what) const;
  // ImportError that names file, node and `what`.
  [[noreturn]] void fail(const std::string& what) const;

private:
  std::vector<const GraphValue*> inputs_; // null: left out
};

using OpFunction = std::vector<GraphValue> (*)(OpCall&);
struct OpRow {
  const char* domain; // "" for ai.onnx
  const char* name;
  int64_t since; // first opset version that the function serves; it may look at OpCall::opset
  OpFunction function;
};
// The row with the largest `since` not above the version; null when there is none.
const OpRow* find_op(std::string_view domain, std::string_view name, int64_t version);
// Why a known operator is refused on purpose ("image decoding"), or null.
const char* refused_op(std::string_view domain, std::string_view name);

// One part of the table per file of operators.
std::span<const OpRow> math_ops();
std::span<const OpRow> shape_ops();
std::span<const OpRow> index_ops();
std::span<const OpRow> reduce_ops();
std::span<const OpRow> nn_ops();
std::span<const OpRow> norm_ops();
std::span<const OpRow> attention_ops();
std::span<const OpRow> recurrent_ops();
std::span<const OpRow> quant_ops();
std::span<const OpRow> control_ops();
std::span<const OpRow> sequence_ops();
std::span<const OpRow> signal_ops();
std::span<const OpRow> loss_ops();
std::span<const OpRow> image_ops();
std::span<const OpRow> ml_ops();
std::span<const OpRow> linear_attention_ops();
std::span<const OpRow> resize_ops();
std::span<const OpRow> select_ops();
std::span<const OpRow> random_ops();
std::span<const OpRow> training_ops();
std::span<const OpRow> text_ops();
std::span<const OpRow> quant_fused_ops();
std::span<const OpRow> ml_linear_ops();
std::span<const OpRow> ml_tree_ops();

// Throws one ImportError that lists every node whose operator is not supported: name, domain, version, node.
// Warns of what is read in spite of being unknown: newer versions, attributes that an operator does not have.
void check_supported(const ModelFile& model);

// ---- what operators.def says of an operator (importer_check.cpp)
// Checks the number of inputs, the types that must agree, and the attributes: kind, range, length. Throws
// ImportError that names the node and what was expected. An operator without a row passes.
void check_node(const OpCall& op);
// Attributes of the node that its operator does not have in any version, each with what may have been meant.
std::vector<std::string> unknown_attributes(const Node& node);

using Bindings = std::map<std::string, GraphValue, std::less<>>;
// Reordered weights by (node id of the weight, order); see Importer::prepared.
using PreparedWeights = std::map<std::pair<uint64_t, Axes>, Tensor>;

class Importer {
public:
  // `weights`: the model's initializers as tensors, shared by all imports.
  Importer(const ModelFile& model, const std::string& device, const Bindings& weights,
           PreparedWeights& prepared);

  // Storage whose contents change from run to run: the model's inputs.
  void add_changing(const UOp& storage) { changing_.insert(storage); }
  // Imports the model's graph with these inputs; gives its outputs in order.
  std::vector<GraphValue> run(const Bindings& inputs);
  // Imports a body: `inputs` are bound to its input names in order; names of enclosing graphs are visible.
  std::vector<GraphValue> run_body(const Graph& body, std::span<const GraphValue> inputs);
  // The elements of a value now.
  std::vector<int64_t> ints(const GraphValue& value);
  std::vector<double> floats(const GraphValue& value);
  bool truth(const GraphValue& condition);
  // The weight with its axes reordered, stored once for all imports of the model.
  Tensor prepared(const Tensor& weight, const Axes& order);

  // True once structure was decided by input data: the result serves this call only.
  bool data_dependent() const { return data_dependent_; }
  const ModelFile& model() const { return model_; }
  const std::string& device() const { return device_; }

private:
  struct Scope;
  std::vector<GraphValue> run_graph(const Graph& graph, Scope& scope);
  void run_nodes(const std::vector<Node>& nodes, const Opsets& opsets, Scope& scope);
  std::vector<GraphValue> run_node(const Node& node, const Opsets& opsets, Scope& scope);
  std::vector<GraphValue> run_function(const Function& function, const Node& call,
                                       std::span<const GraphValue* const> inputs);
  const ModelFile& model_;
  std::string device_;
  const Bindings& weights_;
  PreparedWeights& prepared_;
  StorageSet changing_;
  Scope* scope_ = nullptr; // innermost, for bodies
  int depth_ = 0;
  bool data_dependent_ = false;
};

// Helpers that several operator files use.
Tensor tensor_from(const io::HostTensor& data, const std::string& device);
// A number read as this dtype; for attribute defaults.
inline Tensor like(const Tensor& t, double value) { return Tensor::constant(t.dtype(), value); }
// dtype of an ONNX type code; throws ImportError through `op` for types that tensors cannot have, and for
// those below 8 bits unless they are allowed.
DType dtype_from_code(const OpCall& op, int64_t code, bool narrow_too = false);

// ---- element types below 8 bits (importer_narrow.cpp)
// The type in which their elements are computed, one an element; any other type is its own.
DType carrier_of(DType dtype);
// The same elements in the carrier's type.
io::HostTensor carried(const io::HostTensor& data);
// Elements in the carrier's type as a value of that type.
GraphValue narrow_value(const Tensor& values, DType narrow);
// Any numbers cast to a type below 8 bits, in its carrier: integers keep their low bits, floats round and
// saturate.
Tensor narrowed(const Tensor& x, DType narrow);
// Powers of two (f8e8m0): the magnitude rounded "up", "down" or to "nearest"; what is too large becomes the
// largest, or NaN without `saturate`.
Tensor to_power_of_two(const Tensor& x, const std::string& round_mode, bool saturate);

} // namespace tolk::onnx
