#include "tolk/onnx/importer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <set>
#include <utility>

#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/base/rethrow.h"
#include "tolk/io/tensor_proto.h"
#include "tolk/onnx/ops_text.h"

namespace tolk::onnx {
namespace {

constexpr int kMostNesting = 64;
constexpr int64_t kNewestOpset = 28;
constexpr int64_t kNewestIrVersion = 13;
// More elements than any address space holds.
constexpr double kMostElements = double(int64_t(1) << 60);

std::string domain_text(std::string_view domain) { return domain.empty() ? "ai.onnx" : std::string(domain); }

void collect_unsupported(const ModelFile& model, const std::vector<Node>& nodes, const Opsets& opsets,
                         std::vector<std::string>& lines) {
  for (const Node& node : nodes) {
    for (const Attribute& a : node.attributes) {
      if (auto* body = std::get_if<std::shared_ptr<const Graph>>(&a.data))
        collect_unsupported(model, (*body)->nodes, opsets, lines);
      if (auto* bodies = std::get_if<Attribute::Graphs>(&a.data))
        for (const auto& body : *bodies) collect_unsupported(model, body->nodes, opsets, lines);
    }
    if (model.function(node.domain, node.op_type, node.overload)) continue;
    auto it = opsets.find(node.domain);
    int64_t version = it == opsets.end() ? 0 : it->second;
    std::string line = "  " + node.op_type + "  domain " + domain_text(node.domain) + "  version " +
                       std::to_string(version) + "  " + node.describe();
    if (it == opsets.end())
      lines.push_back(line + ": the model does not import this domain");
    else if (const char* why = refused_op(node.domain, node.op_type))
      lines.push_back(line + ": refused, " + why);
    else if (!find_op(node.domain, node.op_type, version))
      lines.push_back(line);
  }
}

void warn_unknown_attributes(const ModelFile& model, const std::vector<Node>& nodes,
                             std::set<std::string>& seen) {
  for (const Node& node : nodes) {
    for (const Attribute& a : node.attributes) {
      if (auto* body = std::get_if<std::shared_ptr<const Graph>>(&a.data))
        warn_unknown_attributes(model, (*body)->nodes, seen);
      if (auto* bodies = std::get_if<Attribute::Graphs>(&a.data))
        for (const auto& body : *bodies) warn_unknown_attributes(model, body->nodes, seen);
    }
    if (model.function(node.domain, node.op_type, node.overload)) continue;
    // One line an operator and attribute: exporters repeat what they do wrong.
    for (const std::string& text : unknown_attributes(node))
      if (seen.insert(node.domain + "." + node.op_type + " " + text).second)
        log::warning(model.path + ": " + node.describe() + ": " + text + "; it is ignored");
  }
}

// Restores what a nested import changes, also when it fails.
template <typename T> class Restored {
public:
  Restored(T& place, T value) : place_(place), before_(std::exchange(place, value)) {}
  ~Restored() { place_ = before_; }
  Restored(const Restored&) = delete;
  Restored& operator=(const Restored&) = delete;

private:
  T& place_;
  T before_;
};

int64_t to_integer(double value) {
  if (!(value > -0x1p63)) return std::numeric_limits<int64_t>::min(); // NaN too
  return value < 0x1p63 ? int64_t(value) : std::numeric_limits<int64_t>::max();
}

// Operators that move elements leave them of their narrow type; those that compute a type say so themselves.
void keep_narrow(OpCall& op, std::vector<GraphValue>& results) {
  if (!op.has(0) || op.value(0).narrow == DType::Void) return;
  for (const char* computes : {"Cast", "CastLike", "BitCast", "QuantizeLinear", "DequantizeLinear"})
    if (op.node.op_type == computes) return;
  DType narrow = op.value(0).narrow;
  for (GraphValue& r : results)
    if (r.tensor.defined() && r.tensor.dtype() == carrier_of(narrow)) r.narrow = narrow;
}

} // namespace

GraphValue::GraphValue(io::HostTensor t) : host(std::make_shared<const io::HostTensor>(std::move(t))) {
  if (!host->is_string() && bits(host->dtype) < 8) narrow = host->dtype;
}

GraphValue GraphValue::sequence(std::vector<GraphValue> elements) {
  GraphValue v;
  v.kind = io::ValueKind::Sequence, v.items = std::move(elements);
  return v;
}
GraphValue GraphValue::optional(std::vector<GraphValue> none_or_one) {
  GraphValue v;
  v.kind = io::ValueKind::Optional, v.items = std::move(none_or_one);
  return v;
}

Tensor tensor_from(const io::HostTensor& given, const std::string& device) {
  io::HostTensor data = carried(given);
  Shape shape(data.shape.begin(), data.shape.end());
  if (data.count() == 0) return Tensor::zeros(shape, data.dtype);
  return Tensor::from_borrowed(data.bytes.data(), data.bytes.size(), data.dtype, shape, data.owner, device);
}

void OpCall::fail(const std::string& what) const {
  throw ImportError(importer.model().path + ": " + node.describe() + ": " + what);
}

const GraphValue& OpCall::value(size_t i) const {
  if (!has(i)) fail("input " + std::to_string(i) + " is missing");
  return *inputs_[i];
}

const Tensor& OpCall::in(size_t i) const {
  const GraphValue& v = value(i);
  if (v.kind == io::ValueKind::Optional && v.items.size() == 1 && v.items[0].tensor.defined())
    return v.items[0].tensor;
  if (v.kind != io::ValueKind::Tensor || v.is_string() || !v.tensor.defined())
    fail("input " + std::to_string(i) + " must be a tensor of numbers, not a " +
         (v.is_string()                       ? "tensor of strings"
          : v.kind == io::ValueKind::Sequence ? "sequence"
          : v.kind == io::ValueKind::Tensor   ? "value that its node does not compute"
                                              : "empty optional"));
  return v.tensor;
}

std::vector<Tensor> OpCall::all() const {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < count(); ++i)
    if (has(i)) tensors.push_back(in(i));
  return tensors;
}

std::vector<int64_t> OpCall::ints(size_t i) const { return importer.ints(value(i)); }
std::vector<double> OpCall::floats(size_t i) const { return importer.floats(value(i)); }

int64_t OpCall::int_at(size_t i) const {
  std::vector<int64_t> v = ints(i);
  if (v.size() != 1)
    fail("input " + std::to_string(i) + " must have one element, it has " + std::to_string(v.size()));
  return v[0];
}
double OpCall::float_at(size_t i) const {
  std::vector<double> v = floats(i);
  if (v.size() != 1)
    fail("input " + std::to_string(i) + " must have one element, it has " + std::to_string(v.size()));
  return v[0];
}

std::optional<std::vector<int64_t>> OpCall::ints_either(std::string_view attribute, size_t i) const {
  if (node.find(attribute)) return node.integers(attribute);
  if (has(i)) return ints(i);
  return std::nullopt;
}

int64_t OpCall::axis(std::string_view attribute, int64_t missing, int64_t rank) const {
  int64_t a = node.integer(attribute, missing);
  if (a < -rank || a >= rank)
    fail(std::string(attribute) + " is " + std::to_string(a) + ", the input has " + std::to_string(rank) +
         " axes");
  return a < 0 ? a + rank : a;
}

std::vector<int64_t> OpCall::axes(std::vector<int64_t> given, int64_t rank, const char* what) const {
  std::vector<bool> taken(size_t(rank), false);
  for (int64_t& a : given) {
    int64_t written = a;
    if (a < -rank || a >= rank)
      fail(std::string(what) + " has " + std::to_string(a) + ", there are " + std::to_string(rank) + " axes");
    if (a < 0) a += rank;
    if (taken[size_t(a)])
      fail(std::string(what) + " has " + std::to_string(written) + ", an axis that it names before already");
    taken[size_t(a)] = true;
  }
  return given;
}

Shape OpCall::shape(const std::vector<int64_t>& sizes, const char* what) const {
  double elements = 1;
  for (int64_t n : sizes) {
    if (n < 0) fail(std::string(what) + " has the negative size " + std::to_string(n));
    if (n > 0) elements *= double(n);
  }
  if (elements > kMostElements)
    fail(std::string(what) + " " + io::shape_text(sizes) + " has more elements than can be addressed");
  return Shape(sizes.begin(), sizes.end());
}

double OpCall::real(std::string_view attribute, double missing) const {
  const Attribute* a = node.find(attribute);
  if (!a) return missing;
  return std::holds_alternative<int64_t>(a->data) ? double(node.integer(attribute, 0))
                                                  : double(node.number(attribute, 0));
}

void OpCall::check_positions(size_t i, const SInt& size) const {
  if (!value(i).host || !size.is_const()) return;
  const io::HostTensor& positions = *value(i).host;
  if (positions.is_string() || is_float(positions.dtype)) return;
  int64_t n = size.value();
  for (uint64_t k = 0; k < positions.count(); ++k)
    if (__int128 p = io::element_int(positions, k); p < -n || p >= n)
      fail("input " + std::to_string(i) + " has the index " + io::element_text(positions, k) +
           ", the axis has " + std::to_string(n) + (n == 1 ? " element" : " elements"));
}

void OpCall::check_table(double entries, const char* what) const {
  constexpr double kMost = 1 << 28;
  if (!(entries <= kMost)) fail(std::string(what) + " of this size is not supported");
}

const std::vector<std::string>& OpCall::strings(size_t i) const {
  if (!value(i).is_string()) fail("input " + std::to_string(i) + " must be a tensor of strings");
  return value(i).host->strings;
}

DType dtype_from_code(const OpCall& op, int64_t code, bool narrow_too) {
  auto dtype = io::dtype_from_onnx(code);
  if (!dtype || (bits(*dtype) < 8 && !narrow_too))
    op.fail("element type " + io::onnx_type_name(code) + " is not supported here");
  return *dtype;
}

void check_supported(const ModelFile& model) {
  std::vector<std::string> lines;
  collect_unsupported(model, model.graph.nodes, model.opsets, lines);
  for (const Function& f : model.functions) collect_unsupported(model, f.nodes, f.opsets, lines);
  if (!lines.empty()) {
    std::string text =
        model.path + ": " + std::to_string(lines.size()) + " nodes use operators that tolk does not support:";
    for (const std::string& line : lines) text += "\n" + line;
    throw ImportError(text);
  }
  if (model.opset() > kNewestOpset)
    log::warning_once(model.path + ": opset " + std::to_string(model.opset()) + " is newer than " +
                      std::to_string(kNewestOpset) +
                      ", the newest known; its operators are read in their newest known form");
  if (model.ir_version > kNewestIrVersion)
    log::warning_once(model.path + ": IR version " + std::to_string(model.ir_version) + " is newer than " +
                      std::to_string(kNewestIrVersion) + ", the newest known; what it adds is not read");
  std::set<std::string> seen;
  warn_unknown_attributes(model, model.graph.nodes, seen);
  for (const Function& f : model.functions) warn_unknown_attributes(model, f.nodes, seen);
}

// Names in force: a body sees its own first, then those around it.
struct Importer::Scope {
  const Scope* outer = nullptr;
  Bindings names;
  const Node* call = nullptr; // of a function body: where its attribute references are looked up
  const Function* function = nullptr;

  const GraphValue* find(std::string_view name) const {
    for (const Scope* s = this; s; s = s->outer)
      if (auto it = s->names.find(name); it != s->names.end()) return &it->second;
    return nullptr;
  }
};

Importer::Importer(const ModelFile& model, const std::string& device, const Bindings& weights,
                   PreparedWeights& prepared)
    : model_(model), device_(device), weights_(weights), prepared_(prepared) {}

Tensor Importer::prepared(const Tensor& weight, const Axes& order) {
  Tensor& stored = prepared_[{weight.node().id(), order}];
  if (!stored.defined()) stored = weight.permute(order).contiguous().realize();
  return stored;
}

std::vector<int64_t> Importer::ints(const GraphValue& value) {
  std::vector<int64_t> out;
  if (value.is_string() || (!value.host && !value.tensor.defined()))
    throw InvalidArgument("a tensor of integers is needed");
  if (value.host) {
    if (is_float(value.host->dtype)) {
      for (double d : floats(value)) out.push_back(to_integer(d));
      return out;
    }
    for (uint64_t i = 0; i < value.host->count(); ++i)
      out.push_back(int64_t(io::element_int(*value.host, i)));
    return out;
  }
  if (auto known = evaluate_on_host(value.tensor, changing_)) {
    for (const Scalar& s : *known)
      out.push_back(is_float(value.tensor.dtype()) ? to_integer(s.f) : int64_t(s.i));
    return out;
  }
  data_dependent_ = true;
  return value.tensor.values<int64_t>();
}

std::vector<double> Importer::floats(const GraphValue& value) {
  std::vector<double> out;
  if (value.is_string() || (!value.host && !value.tensor.defined()))
    throw InvalidArgument("a tensor of numbers is needed");
  if (value.host) {
    for (uint64_t i = 0; i < value.host->count(); ++i) out.push_back(io::element_double(*value.host, i));
    return out;
  }
  if (auto known = evaluate_on_host(value.tensor, changing_)) {
    for (const Scalar& s : *known) out.push_back(is_float(value.tensor.dtype()) ? s.f : double(s.i));
    return out;
  }
  data_dependent_ = true;
  return value.tensor.values<double>();
}

bool Importer::truth(const GraphValue& condition) {
  std::vector<int64_t> v = ints(condition);
  if (v.size() != 1)
    throw InvalidArgument("a condition must have one element, it has " + std::to_string(v.size()));
  return v[0] != 0;
}

std::vector<GraphValue> Importer::run(const Bindings& inputs) {
  Scope scope;
  scope.names = weights_;
  for (const auto& [name, value] : inputs) scope.names.insert_or_assign(name, value);
  return run_graph(model_.graph, scope);
}

std::vector<GraphValue> Importer::run_body(const Graph& body, std::span<const GraphValue> inputs) {
  if (inputs.size() > body.inputs.size())
    throw InvalidArgument("body " + body.name + " takes " + std::to_string(body.inputs.size()) + " inputs, " +
                          std::to_string(inputs.size()) + " are given");
  Scope scope;
  scope.outer = scope_;
  if (scope_) scope.call = scope_->call, scope.function = scope_->function;
  for (const auto& [name, data] : body.initializers) {
    GraphValue v{io::HostTensor(data)};
    if (!data.is_string()) v.tensor = tensor_from(data, device_);
    scope.names.emplace(name, std::move(v));
  }
  for (size_t i = 0; i < inputs.size(); ++i) scope.names.insert_or_assign(body.inputs[i].name, inputs[i]);
  return run_graph(body, scope);
}

std::vector<GraphValue> Importer::run_graph(const Graph& graph, Scope& scope) {
  if (depth_ >= kMostNesting)
    throw ImportError(model_.path + ": graphs are nested more than " + std::to_string(kMostNesting) +
                      " deep");
  Restored depth(depth_, depth_ + 1);
  Restored inner(scope_, &scope);
  const Opsets& opsets = scope.function ? scope.function->opsets : model_.opsets;
  run_nodes(graph.nodes, opsets, scope);
  std::vector<GraphValue> outputs;
  for (const ValueInfo& o : graph.outputs) {
    const GraphValue* v = scope.find(o.name);
    if (!v) throw ImportError(model_.path + ": output \"" + o.name + "\" is not produced by any node");
    outputs.push_back(*v);
  }
  return outputs;
}

void Importer::run_nodes(const std::vector<Node>& nodes, const Opsets& opsets, Scope& scope) {
  for (const Node& node : nodes) {
    std::vector<GraphValue> results = run_node(node, opsets, scope);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].empty()) continue;
      if (i >= results.size())
        throw ImportError(model_.path + ": " + node.describe() + ": output " + std::to_string(i) +
                          " is not supported");
      scope.names.insert_or_assign(node.outputs[i], std::move(results[i]));
    }
  }
}

std::vector<GraphValue> Importer::run_node(const Node& given, const Opsets& opsets, Scope& scope) {
  // Inside a function, attributes may stand for those of the call.
  Node bound;
  const Node* node = &given;
  bool refers = false;
  for (const Attribute& a : given.attributes) refers |= !a.ref_attr_name.empty();
  if (refers && scope.function) {
    bound = given;
    bound.attributes.clear();
    for (const Attribute& a : given.attributes) {
      if (a.ref_attr_name.empty()) {
        bound.attributes.push_back(a);
        continue;
      }
      const Attribute* from = scope.call->find(a.ref_attr_name);
      for (const Attribute& d : scope.function->attribute_defaults)
        if (!from && d.name == a.ref_attr_name) from = &d;
      if (!from) continue; // left out by the call as well
      bound.attributes.push_back(*from);
      bound.attributes.back().name = a.name;
    }
    node = &bound;
  }
  std::vector<const GraphValue*> inputs;
  for (const std::string& name : node->inputs) {
    const GraphValue* v = name.empty() ? nullptr : scope.find(name);
    if (!v && !name.empty())
      throw ImportError(model_.path + ": " + node->describe() + ": input \"" + name + "\" is not defined");
    inputs.push_back(v && v->omitted ? nullptr : v);
  }
  const std::string here = model_.path + ": " + node->describe();
  // What comes from a body names file and node already.
  auto named = [&](const std::exception& e) {
    return std::string_view(e.what()).find(model_.path) != std::string_view::npos;
  };
  try {
    if (const Function* f = model_.function(node->domain, node->op_type, node->overload))
      return run_function(*f, *node, inputs);
    auto it = opsets.find(node->domain);
    int64_t version = it == opsets.end() ? 1 : it->second;
    const OpRow* row = find_op(node->domain, node->op_type, version);
    if (!row) throw ImportError(here + ": the operator is not supported");
    OpCall op(*this, *node, version, std::move(inputs));
    check_node(op);
    std::vector<GraphValue> results = moves_text(op) ? moved_text(op, row->function) : row->function(op);
    keep_narrow(op, results);
    for (const GraphValue& r : results) {
      double elements = 1;
      if (r.tensor.defined())
        for (const SInt& n : r.tensor.shape()) elements *= double(n.max());
      if (elements > kMostElements)
        op.fail("a result of shape " + to_string(r.tensor.shape()) +
                " has more elements than can be addressed");
    }
    return results;
  } catch (const InvalidArgument& e) {
    throw ImportError(named(e) ? e.what() : here + ": " + e.what());
  } catch (const ImportError& e) {
    // What a node's own accessors throw names the node, not the file.
    throw ImportError(named(e) ? e.what() : model_.path + ": " + e.what());
  } catch (const Error& e) {
    rethrow_with(named(e) ? std::string() : here + ": ");
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(here + ": there is not enough memory for this node");
  } catch (const std::exception&) {
    // A container that was asked for the impossible: its own text would say nothing about the model.
    throw ImportError(here + ": sizes, axes or attributes of this node contradict each other");
  }
}

std::vector<GraphValue> Importer::run_function(const Function& f, const Node& call,
                                               std::span<const GraphValue* const> inputs) {
  if (depth_ >= kMostNesting)
    throw ImportError(model_.path + ": functions call each other more than " + std::to_string(kMostNesting) +
                      " deep");
  if (inputs.size() > f.inputs.size())
    throw ImportError(call.describe() + ": the function takes " + std::to_string(f.inputs.size()) +
                      " inputs, " + std::to_string(inputs.size()) + " are given");
  Scope scope; // a function sees nothing but its inputs
  scope.call = &call, scope.function = &f;
  for (size_t i = 0; i < f.inputs.size(); ++i) {
    GraphValue& v = scope.names[f.inputs[i]];
    if (i < inputs.size() && inputs[i])
      v = *inputs[i];
    else
      v.omitted = true;
  }
  Restored depth(depth_, depth_ + 1);
  Restored inner(scope_, &scope);
  run_nodes(f.nodes, f.opsets, scope);
  std::vector<GraphValue> outputs;
  for (const std::string& name : f.outputs) {
    const GraphValue* v = scope.find(name);
    outputs.push_back(v ? *v : GraphValue());
  }
  return outputs;
}

} // namespace tolk::onnx
