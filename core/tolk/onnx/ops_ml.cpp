// ai.onnx.ml: the operators that are tables and comparisons.

#include "tolk/onnx/ops_ml.h"
#include "tolk/base/error.h"
#include "tolk/io/tensor_proto.h"
#include "tolk/onnx/importer.h"

namespace tolk::onnx {

std::vector<int64_t> places_of_strings(const std::vector<std::string>& x,
                                       const std::vector<std::string>& keys) {
  std::map<std::string_view, int64_t> place;
  for (size_t i = 0; i < keys.size(); ++i) place.emplace(keys[i], int64_t(i));
  std::vector<int64_t> out;
  for (const std::string& s : x) {
    auto it = place.find(s);
    out.push_back(it == place.end() ? int64_t(keys.size()) : it->second);
  }
  return out;
}

namespace {

using Values = std::vector<GraphValue>;

Values array_feature_extractor(OpCall& op) {
  const Tensor& x = op.in(0);
  Tensor y = x.gather(op.in(1).flatten(), -1);
  return {x.rank() == 1 ? y.unsqueeze(0) : y};
}

Values binarizer(OpCall& op) {
  const Tensor& x = op.in(0);
  return {(x > like(x, op.node.number("threshold", 0))).cast(x.dtype())};
}

// ---- LabelEncoder: a table from keys to values, either side strings or numbers

// A list given as keys_strings, values_int64s, ... or as the tensor keys_tensor.
io::HostTensor listed(OpCall& op, const std::string& side) {
  const Node& n = op.node;
  auto named = [&](const char* kind) { return side + "_" + kind; };
  if (const io::HostTensor* t = n.tensor(named("tensor"))) return *t;
  if (n.find(named("strings"))) {
    std::vector<std::string> v = n.texts(named("strings"));
    io::Shape shape{int64_t(v.size())};
    return io::string_tensor(shape, std::move(v));
  }
  if (n.find(named("int64s"))) {
    std::vector<int64_t> v = n.integers(named("int64s"));
    return io::tensor_of(DType::I64, {int64_t(v.size())}, v);
  }
  if (n.find(named("floats"))) {
    std::vector<float> v = n.numbers(named("floats"));
    return io::tensor_of(DType::F32, {int64_t(v.size())}, v);
  }
  op.fail("the " + side + " are missing");
}

io::HostTensor missing_value(OpCall& op, const io::HostTensor& values) {
  const Node& n = op.node;
  if (const io::HostTensor* t = n.tensor("default_tensor")) return *t;
  if (values.is_string()) return io::string_tensor({1}, {n.text("default_string", "_Unused")});
  if (is_float(values.dtype))
    return io::tensor_of(DType::F32, {1}, std::vector<float>{n.number("default_float", -0.0f)});
  return io::tensor_of(DType::I64, {1}, std::vector<int64_t>{n.integer("default_int64", -1)});
}

Values label_encoder(OpCall& op) {
  io::HostTensor keys = listed(op, "keys"), values = listed(op, "values"),
                 missing = missing_value(op, values);
  if (keys.count() != values.count()) op.fail("keys and values have different lengths");
  if (missing.count() != 1 || missing.is_string() != values.is_string())
    op.fail("the default does not fit the values");
  const GraphValue& x = op.value(0);
  if (x.is_string() != keys.is_string()) op.fail("the keys' type does not fit the input's");
  const std::string& device = op.importer.device();
  int64_t count = int64_t(keys.count());
  Tensor place;
  Shape shape;
  if (x.is_string()) {
    shape.assign(x.host->shape.begin(), x.host->shape.end());
    std::vector<int64_t> places = places_of_strings(x.host->strings, keys.strings);
    place = places.empty() ? Tensor::zeros(shape, DType::I64) : Tensor::from(places, shape, device);
  } else {
    // The first key that equals; a NaN equals a NaN.
    const Tensor& t = x.tensor;
    shape = t.shape();
    Tensor table = tensor_from(keys, device).cast(t.dtype()), column = t.unsqueeze(-1);
    Tensor hit = equal(column, table) | (column.isnan() & table.isnan());
    place = hit.where(Tensor::arange(count), Tensor::constant(DType::I64, count)).min({-1});
  }
  if (!values.is_string()) {
    Tensor table = Tensor::concat(
        {tensor_from(values, device), tensor_from(missing, device).reshape({1}).cast(values.dtype)}, 0);
    return {table.gather(place, 0)};
  }
  std::vector<std::string> out;
  io::Shape sizes;
  for (int64_t p : op.importer.ints(place))
    out.push_back(p < count ? values.strings[size_t(p)] : missing.strings.at(0));
  for (const SInt& s : shape) sizes.push_back(s.value("LabelEncoder"));
  return {GraphValue(io::string_tensor(sizes, std::move(out)))};
}

constexpr OpRow kRows[] = {
    {"ai.onnx.ml", "ArrayFeatureExtractor", 1, array_feature_extractor},
    {"ai.onnx.ml", "Binarizer", 1, binarizer},
    {"ai.onnx.ml", "LabelEncoder", 2, label_encoder},
};

} // namespace

std::span<const OpRow> ml_ops() { return kRows; }

} // namespace tolk::onnx
