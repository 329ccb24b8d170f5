#include "tolk/onnx/model.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <set>

#include "tolk/base/check.h"
#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/base/rethrow.h"
#include "tolk/base/text.h"
#include "tolk/device/registry.h"
#include "tolk/engine/capture/record.h"
#include "tolk/engine/capture/saved_capture.h"
#include "tolk/engine/compile/lower_linear.h"
#include "tolk/engine/run/node_storage.h"
#include "tolk/engine/run/realize.h"
#include "tolk/io/mapped_file.h"
#include "tolk/onnx/importer.h"
#include "tolk/onnx/model_saved.h"
#include "tolk/onnx/reader.h"
#include "tolk/uop/build.h"
#include "tolk/uop/traverse.h"

namespace tolk::onnx {
namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// An output of a compiled shape: a node to read after the run, or a value that was known while importing.
struct Output {
  io::ValueKind kind = io::ValueKind::Tensor;
  std::optional<size_t> root; // index among the plan's results
  DType dtype = DType::F32;
  io::Shape shape;
  io::HostTensor known; // strings and constants
  std::vector<Output> items;
};

// The model at one combination of input shapes.
struct Compiled {
  engine::Prepared prepared;
  std::map<std::string, UOp, std::less<>> inputs; // storage to fill before a run
  std::vector<Output> outputs;
  std::vector<Tensor> kept; // what the graph was built from: intermediate results that the plan reads
};

io::Shape numbers(const Shape& shape) {
  io::Shape out;
  for (const SInt& d : shape) out.push_back(d.value("a model's output"));
  return out;
}

// The shapes and types of the inputs, as a key; `reusable` is cleared for inputs that decide structure themselves.
std::string key_of(const std::map<std::string, io::Value>& given, bool& reusable) {
  std::string key;
  for (const auto& [name, value] : given) {
    reusable &= value.kind == io::ValueKind::Tensor && !value.tensor.is_string();
    key += name + "=" + io::type_text(value) + ";";
  }
  return key;
}

std::string in_quotes(const std::string& name) { return "\"" + printable(name) + "\""; }
std::string expected_text(const ValueInfo& info) { return in_quotes(info.name) + " " + type_text(info.type); }

// The name in quotes, with the one of `known` that may have been meant.
std::string unknown_name(const std::string& name, const std::vector<std::string>& known) {
  std::string near = nearest_word(name, known);
  return in_quotes(name) + (near.empty() ? "" : ", did you mean " + in_quotes(near) + "?");
}

// What a graph puts out must have the element type that it declares: whoever reads the file relies on it.
void check_declared(const std::string& path, const ValueInfo& declared, const GraphValue& value) {
  if (declared.type.kind != Type::Kind::Tensor || declared.type.onnx_type == 0 ||
      value.kind != io::ValueKind::Tensor)
    return;
  DType dtype = value.is_string()             ? DType::Void
                : !value.tensor.defined()     ? DType::Void
                : value.narrow != DType::Void ? value.narrow
                                              : value.tensor.dtype();
  if (!value.is_string() && !value.tensor.defined()) return; // reported by what reads it
  bool same = value.is_string() ? declared.type.is_string() : declared.type.dtype == dtype;
  if (!same)
    throw ImportError(path + ": output " + expected_text(declared) + " is computed as " +
                      (value.is_string() ? "string" : name(dtype)));
}

} // namespace

struct Model::State {
  ModelFile file;
  LoadOptions options;
  std::string device;
  std::vector<ValueInfo> inputs, optional_inputs;
  Bindings weights;
  PreparedWeights prepared;
  std::map<std::string, std::shared_ptr<Compiled>> compiled; // by the shapes of the inputs
  std::set<std::string> met;                                 // combinations of shapes that a call had
  Timings timings;
  std::mutex mutex;

  void check(const std::map<std::string, io::Value>& given) const;
  // The model for these shapes. `spent` gets the times of a new one.
  std::shared_ptr<Compiled> compiled_for(const std::map<std::string, io::Value>& given, bool& fresh,
                                         bool& reusable, Timings& spent);
  std::shared_ptr<Compiled> import(const std::map<std::string, io::Value>& given, bool& reusable,
                                   Timings& spent);
  GraphValue bind(const std::string& name, const io::Value& value, Compiled& into, Importer& importer) const;
  Output collect(const GraphValue& value, std::vector<UOp>& roots) const;
  io::Value read(const Output& output, const Compiled& from) const;
};

Model::Model(std::shared_ptr<State> state) : state_(std::move(state)) {}

Model Model::load(const std::string& path, LoadOptions options) {
  auto begin = Clock::now();
  auto state = std::make_shared<State>();
  if (SavedModel::is_one(path))
    throw FormatError(path +
                      ": this is no ONNX model: it begins as a saved capture does, which holds machine "
                      "code. One that you saved yourself is loaded under a name that ends in .tolk");
  state->file = read_model(path);
  check_supported(state->file);
  state->options = std::move(options);
  if (state->options.device.empty()) {
    state->device = default_device();
  } else {
    std::vector<std::string> named = parse_device_list(state->options.device);
    if (named.size() > 1)
      throw InvalidArgument("a model runs on one device; \"" + state->options.device + "\" names " +
                            std::to_string(named.size()));
    state->device = tolk::device(named[0]).name();
  }
  tolk::device(state->device);
  std::vector<std::string> dims, names;
  state->inputs = state->file.graph.free_inputs();
  for (const ValueInfo& i : state->file.graph.inputs)
    if (state->file.graph.initializer(i.name)) state->optional_inputs.push_back(i);
  for (const ValueInfo& i : state->inputs) {
    names.push_back(i.name);
    if (i.type.dims)
      for (const Dim& d : *i.type.dims)
        if (d.symbolic()) dims.push_back(d.symbol);
  }
  for (const auto& [name, bound] : state->options.dims)
    if (std::find(dims.begin(), dims.end(), name) == dims.end())
      throw InvalidArgument(path + ": no input has a dimension named " + unknown_name(name, dims));
  for (const auto& [name, shape] : state->options.shapes)
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw InvalidArgument(path + ": no input is named " + unknown_name(name, names));
  // Weights live on the device from now on; where it can use host memory they stay in the mapped file.
  std::vector<Tensor> tensors;
  std::vector<std::string> stored;
  for (const auto& [name, data] : state->file.graph.initializers) {
    GraphValue v{io::HostTensor(data)};
    if (!data.is_string()) {
      try {
        v.tensor = tensor_from(data, state->device);
      } catch (const ImportError& e) {
        throw ImportError(path + ": initializer " + in_quotes(name) + ": " + e.what());
      }
      if (data.count() > 0) tensors.push_back(v.tensor), stored.push_back(name);
    }
    state->weights.emplace(name, std::move(v));
  }
  if (!tensors.empty()) Tensor::realize(tensors);
  for (size_t i = 0; i < stored.size(); ++i) state->weights[stored[i]].tensor = tensors[i];
  state->timings.import = ms_since(begin);
  return Model(std::move(state));
}

const std::vector<ValueInfo>& Model::inputs() const { return state_->inputs; }
const std::vector<ValueInfo>& Model::optional_inputs() const { return state_->optional_inputs; }
const std::vector<ValueInfo>& Model::outputs() const { return state_->file.graph.outputs; }
Timings Model::timings() const {
  std::lock_guard lock(state_->mutex);
  return state_->timings;
}
std::string Model::device() const { return state_->device; }

void Model::State::check(const std::map<std::string, io::Value>& given) const {
  for (const auto& [name, value] : given) {
    bool known = false;
    std::vector<std::string> names;
    for (const auto* list : {&inputs, &optional_inputs})
      for (const ValueInfo& i : *list) {
        known |= i.name == name;
        names.push_back(i.name);
      }
    if (known) continue;
    std::string text = file.path + " has no input " + unknown_name(name, names) + "; its inputs are";
    for (const ValueInfo& i : inputs) text += " " + expected_text(i);
    throw InvalidArgument(text);
  }
  std::map<std::string, int64_t> symbols;
  std::vector<ValueInfo> all = inputs;
  for (const ValueInfo& i : optional_inputs)
    if (given.contains(i.name)) all.push_back(i);
  for (const ValueInfo& i : all) {
    auto it = given.find(i.name);
    if (it == given.end()) throw InvalidArgument(file.path + ": input " + expected_text(i) + " is missing");
    const io::Value& v = it->second;
    if (i.type.kind != Type::Kind::Tensor || v.kind != io::ValueKind::Tensor) continue;
    auto refuse = [&](const std::string& why) {
      throw InvalidArgument(file.path + ": input " + expected_text(i) + " got " + io::type_text(v.tensor) +
                            ": " + why);
    };
    if (i.type.is_string() != v.tensor.is_string() ||
        (i.type.dtype && !v.tensor.is_string() && *i.type.dtype != v.tensor.dtype))
      refuse("the element type differs");
    if (!i.type.dims) continue;
    // A scalar may come as a list of one: exporters declare it either way.
    if (i.type.dims->empty() && v.tensor.count() == 1) continue;
    if (i.type.dims->size() != v.tensor.shape.size()) refuse("the number of axes differs");
    for (size_t d = 0; d < i.type.dims->size(); ++d) {
      const Dim& dim = (*i.type.dims)[d];
      int64_t n = v.tensor.shape[d];
      if (dim.known() && *dim.value != n)
        refuse("axis " + std::to_string(d) + " must be " + std::to_string(*dim.value));
      if (!dim.symbolic()) continue;
      auto [at, fresh] = symbols.emplace(dim.symbol, n);
      if (!fresh && at->second != n)
        refuse("dimension " + printable(dim.symbol) + " is " + std::to_string(n) + " here and " +
               std::to_string(at->second) + " in another input");
    }
  }
}

GraphValue Model::State::bind(const std::string& name, const io::Value& value, Compiled& into,
                              Importer& importer) const {
  if (value.kind != io::ValueKind::Tensor) {
    std::vector<GraphValue> items;
    for (size_t i = 0; i < value.items.size(); ++i)
      items.push_back(bind(name + "/" + std::to_string(i), value.items[i], into, importer));
    return value.kind == io::ValueKind::Sequence ? GraphValue::sequence(std::move(items))
                                                 : GraphValue::optional(std::move(items));
  }
  if (value.tensor.is_string()) return GraphValue(io::HostTensor(value.tensor));
  io::HostTensor data = carried(value.tensor);
  Shape shape(data.shape.begin(), data.shape.end());
  int64_t count = int64_t(data.count());
  if (count == 0) return narrow_value(Tensor::zeros(shape, data.dtype), value.tensor.dtype);
  UOp storage = buffer_node(fresh_user_slot(), data.dtype, count, device);
  BufferRef buffer = engine::buffer_of(storage);
  buffer->allocate();
  buffer->copy_in(data.bytes);
  importer.add_changing(storage);
  into.inputs[name] = storage;
  return narrow_value(Tensor(reshape(storage, shape)), value.tensor.dtype);
}

Output Model::State::collect(const GraphValue& value, std::vector<UOp>& roots) const {
  Output out;
  out.kind = value.kind;
  if (value.kind != io::ValueKind::Tensor) {
    for (const GraphValue& item : value.items) out.items.push_back(collect(item, roots));
    return out;
  }
  if (!value.tensor.defined()) {
    if (!value.host) throw ImportError(file.path + ": an output has no value");
    out.known = *value.host;
    return out;
  }
  out.dtype = value.narrow == DType::Void ? value.tensor.dtype() : value.narrow;
  out.shape = numbers(value.tensor.shape());
  if (value.tensor.numel() == 0) {
    std::byte* unused = nullptr;
    out.known = io::allocate_tensor(out.dtype, out.shape, &unused);
    return out;
  }
  out.root = roots.size();
  roots.push_back(value.tensor.contiguous().node());
  return out;
}

std::shared_ptr<Compiled> Model::State::import(const std::map<std::string, io::Value>& given, bool& reusable,
                                               Timings& spent) {
  auto begin = Clock::now();
  auto result = std::make_shared<Compiled>();
  Importer importer(file, device, weights, prepared);
  Bindings bound;
  // An input with an initializer keeps that value unless the call gives another.
  for (const auto& [name, value] : given) bound.emplace(name, bind(name, value, *result, importer));
  std::vector<GraphValue> outputs = importer.run(bound);
  for (size_t i = 0; i < outputs.size(); ++i) check_declared(file.path, file.graph.outputs[i], outputs[i]);
  std::vector<UOp> roots;
  for (const GraphValue& v : outputs) result->outputs.push_back(collect(v, roots));
  spent.import = ms_since(begin);
  engine::Progress progress;
  if (options.progress)
    progress = [this](size_t done, size_t total) { options.progress("compile", done, total); };
  result->prepared = engine::prepare(roots, device, progress);
  spent.schedule = result->prepared.schedule_ms;
  spent.compile = result->prepared.compile_ms;
  for (const GraphValue& v : outputs)
    if (v.tensor.defined()) result->kept.push_back(v.tensor);
  reusable = !importer.data_dependent();
  return result;
}

io::Value Model::State::read(const Output& output, const Compiled& from) const {
  if (output.kind == io::ValueKind::Tensor) {
    if (!output.root) return output.known;
    std::vector<std::byte> bytes = engine::read_bytes(from.prepared.results[*output.root]);
    io::HostTensor tensor = io::copy_tensor(carrier_of(output.dtype), output.shape, bytes);
    if (tensor.dtype == output.dtype) return tensor;
    auto packed = io::convert_exact(tensor, output.dtype);
    TOLK_CHECK(packed, "an output's elements are not of its type");
    return *packed;
  }
  std::vector<io::Value> items;
  for (const Output& item : output.items) items.push_back(read(item, from));
  if (output.kind == io::ValueKind::Map)
    return io::Value::map(std::move(items.at(0)), std::move(items.at(1)));
  if (output.kind == io::ValueKind::Sequence) return io::Value::sequence(std::move(items));
  return items.empty() ? io::Value::nothing() : io::Value::some(std::move(items[0]));
}

std::shared_ptr<Compiled> Model::State::compiled_for(const std::map<std::string, io::Value>& given,
                                                     bool& fresh, bool& reusable, Timings& spent) {
  check(given);
  bool keyed = true;
  std::string key = key_of(given, keyed);
  auto known = compiled.find(key);
  fresh = known == compiled.end();
  reusable = true;
  if (!fresh) return known->second;
  std::shared_ptr<Compiled> made = import(given, reusable, spent);
  reusable &= keyed;
  if (reusable) compiled.emplace(key, made);
  return made;
}

std::vector<io::Value> Model::run(const std::map<std::string, io::Value>& given) {
  State& s = *state_;
  std::lock_guard lock(s.mutex);
  auto whole = Clock::now();
  bool fresh = false, reusable = false, keyed = true;
  Timings spent;
  std::shared_ptr<Compiled> compiled = s.compiled_for(given, fresh, reusable, spent);
  auto begin = Clock::now();
  if (!fresh)
    for (const auto& [name, storage] : compiled->inputs)
      engine::buffer_of(storage)->copy_in(carried(given.at(name).tensor).bytes);
  std::vector<io::Value> outputs;
  try {
    compiled->prepared.run();
    for (const Output& o : compiled->outputs) outputs.push_back(s.read(o, *compiled));
  } catch (const Error&) { // memory that is short, a device that is lost
    rethrow_with(s.file.path + ": ");
  }
  io::require_whole_files(); // weights are read where the file is mapped
  bool first = fresh && s.met.insert(key_of(given, keyed)).second;
  s.timings.rebuilds |= !reusable;
  if (first) {
    s.timings.import += spent.import, s.timings.schedule += spent.schedule,
        s.timings.compile += spent.compile;
    s.timings.first_run += ms_since(begin);
  } else {
    s.timings.runs.push_back(ms_since(whole));
  }
  return outputs;
}

std::string Model::save(const std::map<std::string, io::Value>& given) {
  State& s = *state_;
  std::lock_guard lock(s.mutex);
  bool fresh = false, reusable = false;
  Timings spent;
  std::shared_ptr<Compiled> compiled = s.compiled_for(given, fresh, reusable, spent);
  s.timings.import += spent.import, s.timings.schedule += spent.schedule, s.timings.compile += spent.compile;
  if (!reusable)
    throw InvalidArgument(s.file.path + ": what this model computes depends on the values of its inputs, or "
                                        "these are texts or sequences; a saved form would serve this one "
                                        "call only");
  engine::CaptureParts parts;
  parts.device = s.device;
  parts.settings = Config::current().codegen_text();
  std::vector<SavedInput> inputs;
  std::vector<UOp> storage;
  engine::JitInputs arguments; // in the order of the file
  std::vector<ValueInfo> given_inputs = s.inputs;
  for (const ValueInfo& info : s.optional_inputs)
    if (given.contains(info.name)) given_inputs.push_back(info);
  for (const ValueInfo& info : given_inputs) {
    const io::HostTensor& value = given.at(info.name).tensor;
    auto it = compiled->inputs.find(info.name);
    bool stored = it != compiled->inputs.end();
    inputs.push_back({info.name, value.dtype, value.shape, stored});
    storage.push_back(stored ? it->second : UOp());
    if (!stored) continue;
    arguments.inputs.push_back({it->second, {}, {}});
    arguments.names.emplace_back(info.name);
  }
  engine::LowerOptions lower;
  lower.parametrize = [&](const UOp& linear) { return engine::with_params(linear, arguments, parts); };
  lower.batch = true;
  engine::Lowered lowered = engine::lower_linear(tolk::device(s.device), compiled->prepared.linear, lower);
  parts.planned = std::move(lowered.planned), parts.linear = std::move(lowered.linear);
  std::set<int64_t> bound;
  for (const UOp& call : parts.planned.src())
    for (const UOp& u : toposort(call.src().subspan(1)))
      if (u.is(Op::BUFFER) && slot_of(u) >= 0 && bound.insert(slot_of(u)).second)
        parts.bound.emplace_back(u, engine::any_buffer_of(u));

  engine::SaveOptions options;
  options.weights = true;
  std::vector<SavedOutput> outputs;
  for (size_t i = 0; i < compiled->outputs.size(); ++i) {
    const Output& o = compiled->outputs[i];
    SavedOutput saved;
    saved.name = s.file.graph.outputs[i].name;
    if (o.kind != io::ValueKind::Tensor)
      throw InvalidArgument(s.file.path + ": output " + in_quotes(saved.name) +
                            " is no tensor; only tensors can be saved");
    if (!o.root) {
      saved.from = SavedOutput::From::Known;
      saved.tensor = o.known;
      outputs.push_back(std::move(saved));
      continue;
    }
    saved.tensor.dtype = o.dtype, saved.tensor.shape = o.shape;
    const UOp& result = compiled->prepared.results[*o.root];
    UOp place = engine::contiguous_storage(result);
    UOp base = place && place.is(Op::SLICE) ? UOp(place.src(0)) : place;
    auto input = std::find(storage.begin(), storage.end(), base);
    if (base && input != storage.end()) {
      saved.from = SavedOutput::From::Input;
      saved.index = size_t(input - storage.begin());
      saved.offset = place.is(Op::SLICE) ? uint64_t(place.arg().i(0)) : 0;
    } else {
      saved.index = options.results.size();
      options.results.push_back(result);
    }
    outputs.push_back(std::move(saved));
  }
  options.note = saved_note(inputs, outputs);
  engine::Replay replay(std::make_shared<const engine::Capture>(std::move(parts)));
  return engine::save_capture(replay, options);
}

} // namespace tolk::onnx
