#include "tolk/onnx/model_saved.h"

#include <chrono>
#include <cstring>
#include <fstream>
#include <mutex>

#include "tolk/base/error.h"
#include "tolk/base/packed.h"
#include "tolk/base/rethrow.h"
#include "tolk/device/registry.h"
#include "tolk/engine/capture/saved_capture.h"
#include "tolk/engine/run/node_storage.h"
#include "tolk/engine/run/realize.h"
#include "tolk/io/mapped_file.h"
#include "tolk/io/tensor_proto.h"
#include "tolk/onnx/importer.h"
#include "tolk/uop/build.h"

namespace tolk::onnx {
namespace {

using Clock = std::chrono::steady_clock;
constexpr const char* kNoteKind = "onnx model 1";

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

void write_shape(PackWriter& out, const io::Shape& shape) {
  out.list(shape, [](PackWriter& w, int64_t d) { w.number(d); });
}

io::Shape read_shape(PackReader& in) {
  auto shape = in.list<int64_t>([](PackReader& r) { return r.number(0); });
  if (!io::element_count(shape)) in.damaged("no tensor can have the shape " + io::shape_text(shape));
  return shape;
}

DType read_dtype(PackReader& in) {
  std::string text = in.text();
  std::optional<DType> dtype = parse_dtype(text);
  if (!dtype || int(*dtype) >= kDTypeCount) in.damaged("there are no tensors of type \"" + text + "\"");
  return *dtype;
}

struct Note {
  std::vector<SavedInput> inputs;
  std::vector<SavedOutput> outputs;
};

SavedOutput read_output(PackReader& in, size_t inputs, size_t results) {
  SavedOutput out;
  out.name = in.text();
  out.from = SavedOutput::From(in.number(0, 2));
  size_t limit = out.from == SavedOutput::From::Result ? results : inputs;
  if (out.from == SavedOutput::From::Known) limit = 1;
  if (limit == 0) in.damaged("output \"" + out.name + "\" comes from nowhere");
  out.index = size_t(in.number(0, int64_t(limit) - 1));
  out.offset = uint64_t(in.number(0));
  bool strings = in.flag();
  io::Shape shape;
  if (!strings) {
    DType dtype = read_dtype(in);
    shape = read_shape(in);
    out.tensor.dtype = dtype, out.tensor.shape = shape;
    if (out.from != SavedOutput::From::Known) return out;
    std::string bytes = in.text();
    if (bytes.size() != storage_bytes(dtype, *io::element_count(shape)))
      in.damaged("the value of output \"" + out.name + "\" has another size");
    out.tensor = io::copy_tensor(dtype, shape, std::as_bytes(std::span(bytes)));
    return out;
  }
  shape = read_shape(in);
  auto texts = in.list<std::string>([](PackReader& r) { return r.text(); });
  if (texts.size() != *io::element_count(shape) || out.from != SavedOutput::From::Known)
    in.damaged("the texts of output \"" + out.name + "\" do not fit its shape");
  out.tensor = io::string_tensor(shape, std::move(texts));
  return out;
}

Note read_note(const std::string& text, size_t results) {
  PackReader in("section note", text);
  if (text.empty() || in.text() != kNoteKind)
    throw FormatError("it holds a captured function that is no ONNX model");
  Note note;
  note.inputs = in.list<SavedInput>([](PackReader& r) {
    SavedInput i;
    i.name = r.text();
    i.dtype = read_dtype(r);
    i.shape = read_shape(r);
    i.stored = r.flag();
    return i;
  });
  note.outputs =
      in.list<SavedOutput>([&](PackReader& r) { return read_output(r, note.inputs.size(), results); });
  in.end();
  return note;
}

ValueInfo value_info(const std::string& name, const io::HostTensor& tensor) {
  ValueInfo info{name, {}};
  info.type.kind = Type::Kind::Tensor;
  if (tensor.is_string())
    info.type.onnx_type = io::kOnnxString;
  else
    info.type.dtype = tensor.dtype;
  info.type.dims.emplace();
  for (int64_t d : tensor.shape) {
    Dim dim;
    dim.value = d;
    info.type.dims->push_back(dim);
  }
  return info;
}

} // namespace

std::string saved_note(const std::vector<SavedInput>& inputs, const std::vector<SavedOutput>& outputs) {
  PackWriter out;
  out.text(kNoteKind);
  out.list(inputs, [](PackWriter& w, const SavedInput& i) {
    w.text(i.name).text(name(i.dtype));
    write_shape(w, i.shape);
    w.number(i.stored);
  });
  out.list(outputs, [](PackWriter& w, const SavedOutput& o) {
    w.text(o.name).number(int64_t(o.from)).number(int64_t(o.index)).number(int64_t(o.offset));
    w.number(o.tensor.is_string());
    if (!o.tensor.is_string()) w.text(name(o.tensor.dtype));
    write_shape(w, o.tensor.shape);
    if (o.tensor.is_string())
      w.list(o.tensor.strings, [](PackWriter& v, const std::string& text) { v.text(text); });
    else if (o.from == SavedOutput::From::Known)
      w.text({reinterpret_cast<const char*>(o.tensor.bytes.data()), o.tensor.bytes.size()});
  });
  return out.bytes();
}

struct SavedModel::State {
  std::string path, device;
  Note note;
  std::vector<ValueInfo> inputs, outputs;
  std::vector<UOp> storage;               // of each input; null without elements
  engine::JitInputs arguments;            // for the replay
  std::unique_ptr<engine::Replay> replay; // null when every output is known or an input
  std::vector<UOp> results;
  size_t compiled = 0;
  Timings timings;
  std::mutex mutex;

  void take(engine::LoadedCapture loaded);
  void fill(const std::map<std::string, io::Value>& given);
  io::Value read(const SavedOutput& output) const;
};

SavedModel::SavedModel(std::shared_ptr<State> state) : state_(std::move(state)) {}

bool SavedModel::is_one(const std::string& path) {
  Magic magic{};
  std::ifstream file(path, std::ios::binary);
  return file.read(magic.data(), std::streamsize(magic.size())) && magic == engine::kCaptureMagic;
}

SavedModel SavedModel::load(const std::string& path, const std::string& device_name, SavedCode code) {
  auto begin = Clock::now();
  auto state = std::make_shared<State>();
  state->path = path;
  std::vector<std::string> named =
      device_name.empty() ? std::vector<std::string>{default_device()} : parse_device_list(device_name);
  if (named.size() > 1)
    throw InvalidArgument("a saved model runs on one device; \"" + device_name + "\" names " +
                          std::to_string(named.size()));
  state->device = tolk::device(named[0]).name();
  try {
    state->take(engine::load_capture(io::MappedFile::open(path)->text(),
                                     {.device = state->device, .trust_code = code == SavedCode::Trust}));
  } catch (const Error& e) {
    if (std::string_view(e.what()).starts_with(path)) throw;
    rethrow_with(path + ": ");
  }
  state->timings.import = ms_since(begin) - state->timings.compile;
  return SavedModel(std::move(state));
}

const std::vector<ValueInfo>& SavedModel::inputs() const { return state_->inputs; }
const std::vector<ValueInfo>& SavedModel::outputs() const { return state_->outputs; }
size_t SavedModel::compiled() const { return state_->compiled; }
std::string SavedModel::device() const { return state_->device; }
Timings SavedModel::timings() const {
  std::lock_guard lock(state_->mutex);
  return state_->timings;
}

void SavedModel::State::take(engine::LoadedCapture loaded) {
  note = read_note(loaded.note, loaded.results.size());
  auto damaged = [](const std::string& why) { throw FormatError("section note is damaged: " + why); };
  size_t stored = 0;
  for (const SavedInput& i : note.inputs) stored += i.stored;
  if (loaded.parts.expected.size() != stored)
    damaged("the kernels take " + std::to_string(loaded.parts.expected.size()) + " inputs, it describes " +
            std::to_string(stored));
  if (!loaded.parts.variables.empty()) damaged("the kernels use variables, and no model has any");
  results = std::move(loaded.results);
  compiled = loaded.compiled;
  timings.compile = loaded.compile_ms;
  for (const SavedInput& i : note.inputs) {
    io::HostTensor type;
    type.dtype = i.dtype, type.shape = i.shape;
    inputs.push_back(value_info(i.name, type));
    storage.emplace_back();
    if (!i.stored) continue;
    const engine::InputInfo& wanted = loaded.parts.expected[arguments.inputs.size()];
    UOp node =
        buffer_node(fresh_user_slot(), carrier_of(i.dtype), int64_t(*io::element_count(i.shape)), device);
    if (wanted.size != elements_of(node) || wanted.dtype != node.dtype() || wanted.device != device ||
        wanted.view || !wanted.vars.empty() || wanted.size == 0 ||
        loaded.parts.names[arguments.inputs.size()] != engine::JitName(i.name))
      damaged("input \"" + i.name + "\" is not what the kernels take");
    engine::buffer_of(node)->allocate();
    storage.back() = node;
    arguments.inputs.push_back({node, {}, {}});
    arguments.names.emplace_back(i.name);
  }
  for (const SavedOutput& o : note.outputs) {
    outputs.push_back(value_info(o.name, o.tensor));
    if (o.from == SavedOutput::From::Known) continue;
    // Where its bytes are after a run.
    DType carrier = carrier_of(o.tensor.dtype);
    auto count = int64_t(*io::element_count(o.tensor.shape));
    if (o.from == SavedOutput::From::Result) {
      UOp place = results[o.index] ? engine::contiguous_storage(results[o.index]) : UOp();
      if (!place || place.dtype() != carrier || elements_of(place) != count || device_of(place) != device)
        damaged("output \"" + o.name + "\" is not what the kernels write");
    } else {
      const UOp& input = storage[o.index];
      uint64_t bytes = input ? storage_bytes(input.dtype(), uint64_t(elements_of(input))) : 0,
               wanted = storage_bytes(carrier, uint64_t(count));
      if (!input || o.offset > bytes || wanted > bytes - o.offset)
        damaged("output \"" + o.name + "\" is no part of its input");
    }
  }
  if (loaded.parts.planned.nsrc() > 0)
    replay =
        std::make_unique<engine::Replay>(std::make_shared<const engine::Capture>(std::move(loaded.parts)));
}

void SavedModel::State::fill(const std::map<std::string, io::Value>& given) {
  for (const auto& [name, value] : given) {
    bool known = false;
    for (const SavedInput& i : note.inputs) known |= i.name == name;
    if (known) continue;
    std::string text = path + " has no input \"" + name + "\"; its inputs are";
    for (const ValueInfo& i : inputs) text += " \"" + i.name + "\" " + type_text(i.type);
    throw InvalidArgument(text);
  }
  for (size_t k = 0; k < note.inputs.size(); ++k) {
    const SavedInput& i = note.inputs[k];
    std::string what = path + ": input \"" + i.name + "\" " + type_text(inputs[k].type);
    auto it = given.find(i.name);
    if (it == given.end()) throw InvalidArgument(what + " is missing");
    const io::Value& v = it->second;
    // A scalar may come as a list of one, as for the model itself.
    bool fits = v.kind == io::ValueKind::Tensor && !v.tensor.is_string() && v.tensor.dtype == i.dtype &&
                (v.tensor.shape == i.shape || (i.shape.empty() && v.tensor.count() == 1));
    if (!fits)
      throw InvalidArgument(what + " got " + io::type_text(v) +
                            ": a saved model serves the types and shapes that it was saved with");
  }
  for (size_t k = 0; k < storage.size(); ++k)
    if (storage[k])
      engine::buffer_of(storage[k])->copy_in(carried(given.at(note.inputs[k].name).tensor).bytes);
}

io::Value SavedModel::State::read(const SavedOutput& output) const {
  if (output.from == SavedOutput::From::Known) return output.tensor;
  DType carrier = carrier_of(output.tensor.dtype);
  std::vector<std::byte> bytes;
  if (output.from == SavedOutput::From::Result) {
    bytes = engine::read_bytes(results[output.index]);
  } else {
    int64_t count = int64_t(*io::element_count(output.tensor.shape));
    bytes = engine::read_bytes(slice_node(storage[output.index], carrier, int64_t(output.offset), count));
  }
  io::HostTensor tensor = io::copy_tensor(carrier, output.tensor.shape, bytes);
  if (carrier == output.tensor.dtype) return tensor;
  std::optional<io::HostTensor> packed = io::convert_exact(tensor, output.tensor.dtype);
  if (!packed) throw InternalError("an output's elements are not of its type");
  return *packed;
}

std::vector<io::Value> SavedModel::run(const std::map<std::string, io::Value>& given) {
  State& s = *state_;
  std::lock_guard lock(s.mutex);
  auto begin = Clock::now();
  s.fill(given);
  std::vector<io::Value> outputs;
  try {
    if (s.replay) s.replay->run(s.arguments, engine::known_storage);
    for (const SavedOutput& o : s.note.outputs) outputs.push_back(s.read(o));
  } catch (const Error&) {
    rethrow_with(s.path + ": ");
  }
  if (s.timings.first_run == 0)
    s.timings.first_run = ms_since(begin);
  else
    s.timings.runs.push_back(ms_since(begin));
  return outputs;
}

} // namespace tolk::onnx
