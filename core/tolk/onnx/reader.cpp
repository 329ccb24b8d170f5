#include "tolk/onnx/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "tolk/base/error.h"
#include "tolk/io/mapped_file.h"
#include "tolk/io/proto_reader.h"
#include "tolk/onnx/external_data.h"
#include "tolk/onnx/model_proto.h"
#include "tolk/onnx/names.h"
#include "tolk/onnx/sparse_tensor.h"
#include "tolk/onnx/type_reader.h"

namespace tolk::onnx {
namespace {

using io::Place;
using io::ProtoReader;

// Graphs inside nodes inside graphs; four deep occurs in real models.
constexpr int kMaxGraphDepth = 32;

// What all messages of one file share.
struct Context {
  io::TensorSource source;
  uint64_t sparse_budget = kSparseBudget;
};

// "ai.onnx" and "" are the same domain.
std::string canonical_domain(std::string domain) {
  return domain == "ai.onnx" ? std::string() : std::move(domain);
}

int64_t count_of(const auto& list) { return static_cast<int64_t>(list.size()); }

Graph parse_graph(std::string_view message, const Place& place, Context& context, int depth);

// AttributeProto.AttributeType
enum AttributeType : int64_t {
  kUndefined = 0,
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kTensors = 9,
  kGraphs = 10,
  kSparseTensor = 11,
  kSparseTensors = 12,
  kTypeProto = 13,
  kTypeProtos = 14
};

// Everything an AttributeProto can hold, before its type says which part counts.
struct AttributeFields {
  int64_t type = kUndefined;
  float f = 0;
  int64_t i = 0;
  std::string s;
  std::optional<io::HostTensor> t, sparse;
  std::shared_ptr<const Graph> g;
  std::optional<Type> tp;
  Attribute::Floats floats;
  Attribute::Ints ints;
  Attribute::Strings strings;
  Attribute::Tensors tensors, sparse_tensors;
  Attribute::Graphs graphs;
  Attribute::Types types;
  bool has_f = false, has_i = false, has_s = false;
};

// Files of the first IR versions have no type: the part that is there decides.
int64_t guess_type(const AttributeFields& a) {
  if (a.has_f) return kFloat;
  if (a.has_i) return kInt;
  if (a.has_s) return kString;
  if (a.t) return kTensor;
  if (a.g) return kGraph;
  if (!a.floats.empty()) return kFloats;
  if (!a.ints.empty()) return kInts;
  if (!a.strings.empty()) return kStrings;
  if (!a.tensors.empty()) return kTensors;
  if (!a.graphs.empty()) return kGraphs;
  if (a.sparse) return kSparseTensor;
  if (a.tp) return kTypeProto;
  return kUndefined;
}

Attribute::Data select(AttributeFields& a, const std::string& name, const Place& place) {
  auto missing = [&](const char* part) {
    io::fail_at(place, fmt::format("\"{}\" says it is {}, but holds none", name, part));
  };
  switch (a.type) {
  case kFloat:
    return a.f;
  case kInt:
    return a.i;
  case kString:
    return std::move(a.s);
  case kTensor:
    if (!a.t) missing("a tensor");
    return std::move(*a.t);
  case kGraph:
    if (!a.g) missing("a graph");
    return std::move(a.g);
  case kFloats:
    return std::move(a.floats);
  case kInts:
    return std::move(a.ints);
  case kStrings:
    return std::move(a.strings);
  case kTensors:
    return std::move(a.tensors);
  case kGraphs:
    return std::move(a.graphs);
  case kSparseTensor:
    if (!a.sparse) missing("a sparse tensor");
    return std::move(*a.sparse);
  case kSparseTensors:
    return std::move(a.sparse_tensors);
  case kTypeProto:
    if (!a.tp) missing("a type");
    return std::move(*a.tp);
  case kTypeProtos:
    return std::move(a.types);
  default:
    io::fail_at(place, fmt::format("\"{}\" has the unknown type {}", name, a.type));
  }
}

Attribute parse_attribute(std::string_view message, const Place& place, Context& context, int depth) {
  namespace f = proto::attribute;
  Attribute result;
  AttributeFields a;
  auto graph = [&](std::string_view part) {
    return std::make_shared<const Graph>(
        parse_graph(part, place.at("graph", count_of(a.graphs)), context, depth + 1));
  };
  auto tensor = [&](std::string_view part, const Place& at) {
    return io::parse_tensor(part, at, context.source).tensor;
  };
  auto sparse = [&](std::string_view part, const Place& at) {
    return parse_sparse_tensor(part, at, context.source, context.sparse_budget).tensor;
  };
  for (ProtoReader r(message, place); r.next();) {
    switch (r.field()) {
    case f::name:
      result.name = r.text("name");
      break;
    case f::ref_attr_name:
      result.ref_attr_name = r.text("ref_attr_name");
      break;
    case f::type:
      a.type = r.integer("type");
      break;
    case f::f:
      a.f = r.float32("f");
      a.has_f = true;
      break;
    case f::i:
      a.i = r.integer("i");
      a.has_i = true;
      break;
    case f::s:
      a.s = r.text("s");
      a.has_s = true;
      break;
    case f::t:
      a.t = tensor(r.view("t"), place.at("t"));
      break;
    case f::g:
      a.g = graph(r.view("g"));
      break;
    case f::tp:
      a.tp = parse_type(r.view("tp"), place.at("tp"));
      break;
    case f::sparse_tensor:
      a.sparse = sparse(r.view("sparse_tensor"), place.at("sparse_tensor"));
      break;
    case f::floats:
      r.append(a.floats, "floats");
      break;
    case f::ints:
      r.append(a.ints, "ints");
      break;
    case f::strings:
      a.strings.push_back(r.text("strings"));
      break;
    case f::tensors:
      a.tensors.push_back(tensor(r.view("tensors"), place.at("tensors", count_of(a.tensors))));
      break;
    case f::graphs:
      a.graphs.push_back(graph(r.view("graphs")));
      break;
    case f::type_protos:
      a.types.push_back(parse_type(r.view("type_protos"), place.at("type_protos", count_of(a.types))));
      break;
    case f::sparse_tensors:
      a.sparse_tensors.push_back(
          sparse(r.view("sparse_tensors"), place.at("sparse_tensors", count_of(a.sparse_tensors))));
      break;
    default:
      r.skip();
    }
  }
  if (result.name.empty()) io::fail_at(place, "an attribute has no name");
  if (!result.ref_attr_name.empty()) return result;
  if (a.type == kUndefined) a.type = guess_type(a);
  result.data = select(a, result.name, place);
  return result;
}

Node parse_node(std::string_view message, const Place& place, Context& context, int depth) {
  namespace f = proto::node;
  Node node;
  node.place = io::inner_text(place);
  for (ProtoReader r(message, place); r.next();) {
    switch (r.field()) {
    case f::input:
      node.inputs.push_back(r.text("input"));
      break;
    case f::output:
      node.outputs.push_back(r.text("output"));
      break;
    case f::name:
      node.name = r.text("name");
      break;
    case f::op_type:
      node.op_type = r.text("op_type");
      break;
    case f::domain:
      node.domain = canonical_domain(r.text("domain"));
      break;
    case f::overload:
      node.overload = r.text("overload");
      break;
    case f::attribute: {
      Place at = place.at("attribute", count_of(node.attributes));
      node.attributes.push_back(parse_attribute(r.view("attribute"), at, context, depth));
      break;
    }
    default:
      r.skip();
    }
  }
  if (node.op_type.empty()) io::fail_at(place, "the node names no operator");
  return node;
}

ValueInfo parse_value_info(std::string_view message, const Place& place) {
  namespace f = proto::value_info;
  ValueInfo info;
  for (ProtoReader r(message, place); r.next();) {
    switch (r.field()) {
    case f::name:
      info.name = r.text("name");
      break;
    case f::type:
      info.type = parse_type(r.view("type"), place.at("type"));
      break;
    default:
      r.skip();
    }
  }
  if (info.name.empty()) io::fail_at(place, "the value has no name");
  return info;
}

void add_initializer(Graph& graph, io::NamedTensor tensor, const Place& at) {
  if (tensor.name.empty()) io::fail_at(at, "the initializer has no name");
  auto [it, fresh] = graph.initializers.emplace(std::move(tensor.name), std::move(tensor.tensor));
  if (!fresh) io::fail_at(at, fmt::format("there is already an initializer \"{}\"", it->first));
}

Graph parse_graph(std::string_view message, const Place& place, Context& context, int depth) {
  namespace f = proto::graph;
  if (depth > kMaxGraphDepth)
    io::fail_at(place, fmt::format("graphs are nested more than {} deep", kMaxGraphDepth));
  Graph graph;
  int64_t dense = 0, sparse = 0, infos = 0;
  for (ProtoReader r(message, place); r.next();) {
    switch (r.field()) {
    case f::name:
      graph.name = r.text("name");
      break;
    case f::node:
      graph.nodes.push_back(
          parse_node(r.view("node"), place.at("node", count_of(graph.nodes)), context, depth));
      break;
    case f::initializer: {
      Place at = place.at("initializer", dense++);
      add_initializer(graph, io::parse_tensor(r.view("initializer"), at, context.source), at);
      break;
    }
    case f::sparse_initializer: {
      Place at = place.at("sparse_initializer", sparse++);
      add_initializer(
          graph, parse_sparse_tensor(r.view("sparse_initializer"), at, context.source, context.sparse_budget),
          at);
      break;
    }
    case f::input:
      graph.inputs.push_back(parse_value_info(r.view("input"), place.at("input", count_of(graph.inputs))));
      break;
    case f::output:
      graph.outputs.push_back(
          parse_value_info(r.view("output"), place.at("output", count_of(graph.outputs))));
      break;
    case f::value_info: {
      ValueInfo info = parse_value_info(r.view("value_info"), place.at("value_info", infos++));
      graph.value_info.insert_or_assign(std::move(info.name), std::move(info.type));
      break;
    }
    default:
      r.skip();
    }
  }
  return graph;
}

void parse_opset(Opsets& opsets, std::string_view message, const Place& place) {
  namespace f = proto::opset;
  std::string domain;
  int64_t version = 0;
  for (ProtoReader r(message, place); r.next();) {
    switch (r.field()) {
    case f::domain:
      domain = canonical_domain(r.text("domain"));
      break;
    case f::version:
      version = r.integer("version");
      break;
    default:
      r.skip();
    }
  }
  if (version < 1)
    io::fail_at(place, fmt::format("the operator set \"{}\" has the version {}", domain, version));
  opsets.insert_or_assign(std::move(domain), version);
}

Function parse_function(std::string_view message, const Place& place, Context& context) {
  namespace f = proto::function;
  Function function;
  int64_t opsets = 0;
  for (ProtoReader r(message, place); r.next();) {
    switch (r.field()) {
    case f::name:
      function.name = r.text("name");
      break;
    case f::domain:
      function.domain = canonical_domain(r.text("domain"));
      break;
    case f::overload:
      function.overload = r.text("overload");
      break;
    case f::input:
      function.inputs.push_back(r.text("input"));
      break;
    case f::output:
      function.outputs.push_back(r.text("output"));
      break;
    case f::attribute:
      function.attributes.push_back(r.text("attribute"));
      break;
    case f::attribute_proto: {
      Place at = place.at("attribute_proto", count_of(function.attribute_defaults));
      function.attribute_defaults.push_back(parse_attribute(r.view("attribute_proto"), at, context, 0));
      break;
    }
    case f::node:
      function.nodes.push_back(
          parse_node(r.view("node"), place.at("node", count_of(function.nodes)), context, 0));
      break;
    case f::opset_import:
      parse_opset(function.opsets, r.view("opset_import"), place.at("opset_import", opsets++));
      break;
    default:
      r.skip();
    }
  }
  if (function.name.empty()) io::fail_at(place, "the function has no name");
  return function;
}

void parse_metadata(ModelFile& model, std::string_view message, const Place& place) {
  std::string key, value;
  for (ProtoReader r(message, place); r.next();) {
    switch (r.field()) {
    case proto::entry::key:
      key = r.text("key");
      break;
    case proto::entry::value:
      value = r.text("value");
      break;
    default:
      r.skip();
    }
  }
  model.metadata.insert_or_assign(std::move(key), std::move(value));
}

// Files that are often met under the name of a model.
void refuse_lookalikes(std::string_view text, const Place& root) {
  if (text.empty()) io::fail_at(root, "the file is empty, an ONNX model was expected");
  if (text.starts_with("version https://git-lfs"))
    io::fail_at(root, "this is a Git LFS pointer, not the model itself; fetch it with \"git lfs pull\"");
  if (text.starts_with("PK\x03\x04"))
    io::fail_at(root,
                "this is a zip archive, not an ONNX model; unpack it (a PyTorch .pt file must be exported)");
  if (text.starts_with("<!DOCTYPE") || text.starts_with("<html"))
    io::fail_at(root, "this is a web page, not an ONNX model; the download went wrong");
}

// The parts of the model; whether a graph is among them.
bool parse_parts(ModelFile& model, std::string_view text, const Place& root, Context& context) {
  namespace f = proto::model;
  std::string producer_version;
  bool has_graph = false;
  int64_t opsets = 0, entries = 0;
  for (ProtoReader r(text, root); r.next();) {
    switch (r.field()) {
    case f::ir_version:
      model.ir_version = r.integer("ir_version");
      break;
    case f::producer_name:
      model.producer = r.text("producer_name");
      break;
    case f::producer_version:
      producer_version = r.text("producer_version");
      break;
    case f::opset_import:
      parse_opset(model.opsets, r.view("opset_import"), root.at("opset_import", opsets++));
      break;
    case f::metadata_props:
      parse_metadata(model, r.view("metadata_props"), root.at("metadata_props", entries++));
      break;
    case f::graph:
      if (has_graph) io::fail_at(root, "the model holds two graphs");
      has_graph = true;
      model.graph = parse_graph(r.view("graph"), root.at("graph"), context, 0);
      break;
    case f::functions:
      model.functions.push_back(
          parse_function(r.view("functions"), root.at("functions", count_of(model.functions)), context));
      break;
    default:
      r.skip();
    }
  }
  if (!producer_version.empty()) model.producer += " " + producer_version;
  return has_graph;
}

// Whether the file starts as text does.
bool printable(std::string_view text) {
  auto plain = [](char c) { return (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t'; };
  return std::ranges::all_of(text.substr(0, 64), plain);
}

} // namespace

ModelFile parse_model(std::span<const std::byte> bytes, const std::string& path,
                      std::shared_ptr<const void> owner) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Place root{nullptr, path};
  refuse_lookalikes(text, root);

  ExternalData external(path);
  Context context;
  context.source.owner = std::move(owner);
  context.source.external = [&external](const io::ExternalReference& reference, uint64_t size,
                                        const Place& place) {
    return external.lookup(reference, size, place);
  };
  ModelFile model;
  model.path = path;
  bool has_graph = false;
  try {
    has_graph = parse_parts(model, text, root, context);
  } catch (const FormatError&) {
    if (printable(text)) io::fail_at(root, "this is a text file, not an ONNX model");
    throw;
  }
  if (!has_graph) io::fail_at(root, "the file holds no graph; is it an ONNX model?");
  if (model.opsets.empty()) model.opsets.emplace("", 1);
  settle_names(model);
  return model;
}

ModelFile read_model(const std::string& path) {
  std::shared_ptr<const io::MappedFile> file = io::MappedFile::open(path);
  return parse_model(file->bytes(), path, file);
}

} // namespace tolk::onnx
