#include "inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "random_input.h"
#include "tolk/base/error.h"
#include "tolk/base/text.h"
#include "tolk/io/npy.h"
#include "tolk/io/npz.h"
#include "tolk/io/tensor_proto.h"

namespace tolk::run {
namespace {

using onnx::Dim;
using onnx::Type;
using onnx::ValueInfo;

std::string expected(const ValueInfo& info) {
  return fmt::format("input \"{}\" {}", printable(info.name), onnx::type_text(info.type));
}

[[noreturn]] void refuse(const std::string& text) { throw InvalidArgument(text); }

std::string names_of(const std::vector<ValueInfo>& inputs) {
  if (inputs.empty()) return "the model has no inputs";
  std::string text = "the inputs are";
  for (const ValueInfo& info : inputs)
    text += fmt::format(" \"{}\" {},", printable(info.name), onnx::type_text(info.type));
  text.pop_back();
  return text;
}

size_t find_input(const std::vector<ValueInfo>& inputs, const std::string& name, const char* option) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].name == name) return i;
  std::vector<std::string> known;
  for (const ValueInfo& info : inputs) known.push_back(info.name);
  std::string near = nearest_word(name, known);
  refuse(fmt::format("--{}: there is no input \"{}\"{}; {}", option, name,
                     near.empty() ? "" : fmt::format(", did you mean \"{}\"?", printable(near)),
                     names_of(inputs)));
}

io::ValueKind kind_of(const Type& type) {
  switch (type.kind) {
  case Type::Kind::Sequence:
    return io::ValueKind::Sequence;
  case Type::Kind::Optional:
    return io::ValueKind::Optional;
  default:
    return io::ValueKind::Tensor;
  }
}

bool ends_with(std::string_view text, std::string_view end) { return text.ends_with(end); }

// The tensor as the type that the model wants, when the file could not say so; else unchanged.
io::HostTensor named_type(const ValueInfo& info, io::HostTensor tensor) {
  if (!info.type.dtype || tensor.is_string() || tensor.dtype == *info.type.dtype) return tensor;
  DType want = *info.type.dtype;
  if (want == DType::BF16 && tensor.dtype == DType::U16) {
    tensor.dtype = want; // the bits
    return tensor;
  }
  bool small_float = is_float(want) && (bits(want) <= 8 || want == DType::BF16) && tensor.dtype == DType::F32;
  bool small_int =
      !is_float(want) && bits(want) < 8 && (tensor.dtype == DType::I8 || tensor.dtype == DType::U8);
  if (!small_float && !small_int) return tensor;
  std::optional<io::HostTensor> converted = io::convert_exact(tensor, want);
  return converted ? *converted : tensor;
}

// Which value each symbolic dimension has so far, and who said so.
using Symbols = std::map<std::string, std::pair<int64_t, std::string>>;

void check_sizes(const ValueInfo& info, const io::HostTensor& tensor, const std::string& source,
                 Symbols& symbols) {
  if (!info.type.dims) return;
  for (size_t i = 0; i < info.type.dims->size(); ++i) {
    const Dim& dim = (*info.type.dims)[i];
    int64_t size = tensor.shape[i];
    if (dim.known() && *dim.value != size)
      refuse(fmt::format("{}: {} cannot have the shape {}: dimension {} is {}", source, expected(info),
                         io::shape_text(tensor.shape), i, *dim.value));
    if (!dim.symbolic()) continue;
    auto [at, fresh] = symbols.emplace(dim.symbol, std::pair(size, fmt::format("\"{}\"", info.name)));
    if (!fresh && at->second.first != size)
      refuse(fmt::format("{}: {} has {} for \"{}\", which is {} in {}", source, expected(info), size,
                         dim.symbol, at->second.first, at->second.second));
  }
}

// The shape for a random value: --shape, else the declared one with its open dimensions filled.
io::Shape choose_shape(const ValueInfo& info, const Options& options, Symbols& symbols,
                       std::vector<std::string>& notes) {
  auto given = options.shapes.find(info.name);
  const auto& dims = info.type.dims;
  if (given != options.shapes.end()) {
    if (dims && dims->size() != given->second.size())
      refuse(fmt::format("--shape {}={}: {} has {} dimensions", info.name, fmt::join(given->second, "x"),
                         expected(info), dims->size()));
    return given->second;
  }
  if (!dims)
    refuse(fmt::format("{} does not say its number of dimensions; give --shape {}=1x3x224x224 or a value",
                       expected(info), info.name));
  io::Shape shape;
  for (size_t i = 0; i < dims->size(); ++i) {
    const Dim& dim = (*dims)[i];
    auto bound = dim.symbolic() ? options.dims.find(dim.symbol) : options.dims.end();
    auto seen = dim.symbolic() ? symbols.find(dim.symbol) : symbols.end();
    if (dim.known()) {
      shape.push_back(*dim.value);
    } else if (seen != symbols.end()) {
      shape.push_back(seen->second.first);
    } else if (bound != options.dims.end()) {
      shape.push_back(bound->second);
    } else {
      shape.push_back(1);
      if (dim.symbolic())
        notes.push_back(
            fmt::format("dimension \"{0}\" of input \"{1}\" is open, 1 is used; --dim \"{0}=N\" sets it",
                        printable(dim.symbol), printable(info.name)));
      else
        notes.push_back(
            fmt::format("dimension {} of input \"{}\" is open, 1 is used; --shape \"{}=...\" sets it", i,
                        printable(info.name), printable(info.name)));
    }
    if (dim.symbolic()) symbols.emplace(dim.symbol, std::pair(shape.back(), "what was assumed"));
  }
  return shape;
}

io::Value make_random(const ValueInfo& info, const Options& options, Symbols& symbols,
                      std::vector<std::string>& notes) {
  auto fill = options.fills.find(info.name);
  std::optional<Range> range = fill == options.fills.end() ? std::nullopt : std::optional(fill->second);
  bool plain = info.type.kind == Type::Kind::Tensor || info.type.kind == Type::Kind::Unknown;
  if (!plain || !info.type.dtype)
    refuse(fmt::format("{} cannot be made of random values; give it with --input \"{}=FILE\"", expected(info),
                       info.name));
  io::Shape shape = choose_shape(info, options, symbols, notes);
  if (!io::element_count(shape) || *io::element_count(shape) > (uint64_t{1} << 32))
    refuse(fmt::format("{}: random values of the shape {} would fill the memory", expected(info),
                       io::shape_text(shape)));
  io::HostTensor tensor = random_tensor(*info.type.dtype, std::move(shape), options.seed, info.name, range);
  check_sizes(info, tensor, "--shape", symbols);
  return tensor;
}

// Assigns files to inputs: by name, the arrays of an archive by theirs, the rest in order to the first `needed`
// inputs that have none yet.
std::vector<std::optional<InputValue>> read_files(const std::vector<ValueInfo>& inputs, size_t needed,
                                                  const Options& options) {
  std::vector<std::optional<InputValue>> values(inputs.size());
  auto put = [&](size_t i, io::Value value, const std::string& file) {
    if (values[i])
      refuse(fmt::format("input \"{}\" is given twice: {} and {}", inputs[i].name, values[i]->source, file));
    values[i] = InputValue{inputs[i].name, std::move(value), file};
  };
  std::vector<std::string> unnamed;
  for (const NamedFile& f : options.inputs) {
    if (!f.name.empty()) {
      size_t i = find_input(inputs, f.name, "input");
      put(i, read_input(inputs[i], f.file), f.file);
    } else if (ends_with(f.file, ".npz")) {
      for (io::NamedTensor& t : io::read_npz(f.file)) {
        size_t i = find_input(inputs, t.name, "input");
        put(i, fit_input(inputs[i], std::move(t.tensor), f.file), f.file);
      }
    } else {
      unnamed.push_back(f.file);
    }
  }
  for (const std::string& file : unnamed) {
    auto end = values.begin() + static_cast<std::ptrdiff_t>(needed);
    auto free = std::find_if(values.begin(), end, [](const auto& v) { return !v.has_value(); });
    if (free == end)
      refuse(fmt::format("--input {}: every input has a value already; {}", file, names_of(inputs)));
    auto i = static_cast<size_t>(free - values.begin());
    put(i, read_input(inputs[i], file), file);
  }
  return values;
}

} // namespace

io::Value fit_input(const ValueInfo& info, io::Value value, const std::string& file, Rank rank) {
  if (kind_of(info.type) != value.kind)
    refuse(fmt::format("{}: {} was expected, found {}", file, expected(info), io::type_text(value)));
  if (value.kind != io::ValueKind::Tensor || info.type.kind == Type::Kind::Unknown) return value;
  value.tensor = named_type(info, std::move(value.tensor));
  const io::HostTensor& tensor = value.tensor;
  bool same =
      info.type.dtype ? tensor.dtype == *info.type.dtype : info.type.is_string() == tensor.is_string();
  if (!same)
    refuse(fmt::format("{}: {} was expected, found {}", file, expected(info), io::type_text(tensor)));
  // A scalar may come as a list of one: exporters declare it either way.
  bool scalar = info.type.dims && info.type.dims->empty() && tensor.count() == 1;
  if (rank == Rank::Declared && info.type.dims && !scalar && info.type.dims->size() != tensor.shape.size())
    refuse(fmt::format("{}: {} was expected, found {}: the number of dimensions differs", file,
                       expected(info), io::type_text(tensor)));
  return value;
}

io::Value read_input(const ValueInfo& info, const std::string& file, Rank rank) {
  io::NpyOptions raw{info.type.dtype};
  if (ends_with(file, ".pb"))
    return fit_input(info, io::read_value_pb(file, kind_of(info.type)).value, file, rank);
  if (ends_with(file, ".npy")) return fit_input(info, io::read_npy(file, raw), file, rank);
  if (!ends_with(file, ".npz"))
    refuse(fmt::format("{}: the ending says what a file is, and .npy, .npz and .pb are known", file));
  std::vector<io::NamedTensor> arrays = io::read_npz(file, raw);
  if (arrays.size() == 1) return fit_input(info, std::move(arrays[0].tensor), file, rank);
  std::vector<std::string> names;
  for (io::NamedTensor& t : arrays) {
    if (t.name == info.name) return fit_input(info, std::move(t.tensor), file, rank);
    names.push_back(t.name);
  }
  refuse(fmt::format("{}: holds no array \"{}\", only: {}", file, info.name, join(names, ", ")));
}

PreparedInputs prepare_inputs(const std::vector<ValueInfo>& needed, const Options& options,
                              const std::vector<ValueInfo>& optional) {
  for (const auto& [name, shape] : options.shapes) find_input(needed, name, "shape");
  for (const auto& [name, range] : options.fills) find_input(needed, name, "fill");
  std::vector<ValueInfo> inputs = needed;
  inputs.insert(inputs.end(), optional.begin(), optional.end());
  std::vector<std::optional<InputValue>> values = read_files(inputs, needed.size(), options);
  PreparedInputs prepared;
  // Sizes that files fix come first, so that random values fit to them wherever they stand.
  Symbols symbols;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!values[i] || values[i]->value.kind != io::ValueKind::Tensor) continue;
    if (options.fills.contains(inputs[i].name))
      refuse(fmt::format("--fill {}: the input has its values from {}", inputs[i].name, values[i]->source));
    auto shape = options.shapes.find(inputs[i].name);
    if (shape != options.shapes.end() && shape->second != values[i]->value.tensor.shape)
      refuse(fmt::format("--shape {}={}: {} has the shape {}", inputs[i].name, fmt::join(shape->second, "x"),
                         values[i]->source, io::shape_text(values[i]->value.tensor.shape)));
    check_sizes(inputs[i], values[i]->value.tensor, values[i]->source, symbols);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    auto shape = options.shapes.find(inputs[i].name);
    if (values[i] || shape == options.shapes.end() || !inputs[i].type.dims) continue;
    for (size_t d = 0; d < std::min(shape->second.size(), inputs[i].type.dims->size()); ++d)
      if (const Dim& dim = (*inputs[i].type.dims)[d]; dim.symbolic())
        symbols.emplace(dim.symbol,
                        std::pair(shape->second[d], fmt::format("--shape of \"{}\"", inputs[i].name)));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!values[i] && i >= needed.size()) continue;
    if (!values[i])
      values[i] =
          InputValue{inputs[i].name, make_random(inputs[i], options, symbols, prepared.notes), "random"};
    prepared.values.push_back(std::move(*values[i]));
  }
  return prepared;
}

} // namespace tolk::run
