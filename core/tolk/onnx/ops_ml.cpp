// ai.onnx.ml: the operators that are tables and comparisons.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "tolk/base/error.h"
#include "tolk/io/tensor_proto.h"
#include "tolk/onnx/importer.h"

namespace tolk::onnx {
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

// Where each element of x stands among the keys, the number of keys when nowhere.
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

// ---- TreeEnsemble: all trees are walked side by side, one level a step

enum class Compare : int64_t { AtMost, Less, AtLeast, Greater, Equal, NotEqual, Member };

struct Forest {
  std::vector<int64_t> feature, mode, yes, no, missing_is_yes, roots; // leaf k is node `nodes + k`
  std::vector<double> split;
  std::vector<std::vector<double>> members; // per node
  int64_t nodes = 0, leaves = 0, depth = 0;
};

Forest forest_of(OpCall& op) {
  const Node& n = op.node;
  Forest f;
  f.feature = n.require_integers("nodes_featureids"), f.nodes = int64_t(f.feature.size());
  f.leaves = int64_t(n.require_integers("leaf_targetids").size());
  f.roots = n.require_integers("tree_roots");
  const io::HostTensor &modes = n.require_tensor("nodes_modes"), &splits = n.require_tensor("nodes_splits");
  std::vector<int64_t> yes = n.require_integers("nodes_truenodeids"),
                       no = n.require_integers("nodes_falsenodeids"),
                       yes_leaf = n.require_integers("nodes_trueleafs"),
                       no_leaf = n.require_integers("nodes_falseleafs");
  f.missing_is_yes = n.integers("nodes_missing_value_tracks_true");
  auto count = size_t(f.nodes);
  if (f.missing_is_yes.empty()) f.missing_is_yes.assign(count, 0);
  if (modes.count() != count || splits.count() != count || yes.size() != count || no.size() != count ||
      yes_leaf.size() != count || no_leaf.size() != count || f.missing_is_yes.size() != count)
    op.fail("the lists of nodes have different lengths");
  auto target = [&](int64_t id, int64_t leaf) {
    if (id < 0 || id >= (leaf ? f.leaves : f.nodes))
      op.fail("a node refers to number " + std::to_string(id) + ", which does not exist");
    return leaf ? f.nodes + id : id;
  };
  const io::HostTensor* members = n.tensor("membership_values");
  uint64_t next = 0;
  f.members.resize(count);
  for (size_t i = 0; i < count; ++i) {
    f.mode.push_back(int64_t(io::element_int(modes, i)));
    f.split.push_back(io::element_double(splits, i));
    f.yes.push_back(target(yes[i], yes_leaf[i])), f.no.push_back(target(no[i], no_leaf[i]));
    if (f.mode.back() != int64_t(Compare::Member)) continue;
    // Sets follow each other, each closed by a NaN.
    for (; members && next < members->count() && !std::isnan(io::element_double(*members, next)); ++next)
      f.members[i].push_back(io::element_double(*members, next));
    ++next;
  }
  // Depth, and a guard against nodes that lead back to themselves.
  std::vector<int64_t> level = f.roots;
  for (int64_t root : level) target(root, 0);
  while (!level.empty()) {
    if (++f.depth > f.nodes) op.fail("the nodes do not form trees");
    std::vector<int64_t> below;
    for (int64_t i : level)
      for (int64_t to : {f.yes[size_t(i)], f.no[size_t(i)]})
        if (to < f.nodes) below.push_back(to);
    std::sort(below.begin(), below.end());
    below.erase(std::unique(below.begin(), below.end()), below.end());
    level = std::move(below);
  }
  return f;
}

Tensor post_transformed(OpCall& op, const Tensor& y) {
  switch (op.node.integer("post_transform", 0)) {
  case 0:
    return y;
  case 1:
    return y.softmax(-1);
  case 2:
    return y.sigmoid();
  case 3: {
    // Softmax of what is not 0.
    Tensor zero = equal(y, 0.0), e = zero.where(like(y, 0), (y - y.max({-1}, true)).exp());
    return e / e.sum({-1}, true).maximum(like(y, std::numeric_limits<float>::min()));
  }
  default:
    op.fail("post_transform " + std::to_string(op.node.integer("post_transform", 0)) + " is not supported");
  }
}

Values tree_ensemble(OpCall& op) {
  const Tensor& x = op.in(0);
  if (x.rank() != 2) op.fail("the input must be (samples, features), its shape is " + to_string(x.shape()));
  Forest f = forest_of(op);
  const std::string& device = op.importer.device();
  int64_t trees = int64_t(f.roots.size()), targets = op.node.integer("n_targets", 1);
  if (trees == 0) op.fail("there are no trees");
  auto table = [&](const std::vector<int64_t>& v) { return Tensor::from(v, {int64_t(v.size())}, device); };
  Tensor feature = table(f.feature), mode = table(f.mode), yes = table(f.yes), no = table(f.no),
         missing = table(f.missing_is_yes);
  Tensor split = Tensor::from(f.split, {f.nodes}, device).cast(x.dtype());
  size_t largest = 0;
  for (const auto& m : f.members) largest = std::max(largest, m.size());
  Tensor sets;
  if (largest) {
    std::vector<double> padded;
    for (const auto& m : f.members)
      for (size_t k = 0; k < largest; ++k) padded.push_back(k < m.size() ? m[k] : std::nan(""));
    sets = Tensor::from(padded, {f.nodes, int64_t(largest)}, device).cast(x.dtype());
  }
  Tensor at = table(f.roots).reshape({1, trees}).expand({x.size(0), trees});
  for (int64_t level = 0; level < f.depth; ++level) {
    Tensor arrived = at >= f.nodes, node = arrived.where(Tensor::constant(DType::I64, 0), at);
    Tensor v = x.gather_elements(feature.gather(node, 0), 1), s = split.gather(node, 0),
           m = mode.gather(node, 0);
    auto is = [&](Compare c) { return equal(m, int64_t(c)); };
    Tensor same = equal(v, s);
    Tensor holds = (is(Compare::AtMost) & (v <= s)) | (is(Compare::Less) & (v < s)) |
                   (is(Compare::AtLeast) & (v >= s)) | (is(Compare::Greater) & (v > s)) |
                   (is(Compare::Equal) & same) | (is(Compare::NotEqual) & same.logical_not());
    if (largest)
      holds = holds | (is(Compare::Member) & equal(v.unsqueeze(-1), sets.gather(node, 0)).any({-1}));
    holds = holds | (v.isnan() & not_equal(missing.gather(node, 0), 0));
    at = arrived.where(at, holds.where(yes.gather(node, 0), no.gather(node, 0))).contiguous();
  }
  Tensor leaf = at - f.nodes;
  const io::HostTensor& weights = op.node.require_tensor("leaf_weights");
  if (int64_t(weights.count()) != f.leaves) op.fail("leaf_weights and leaf_targetids have different lengths");
  Tensor weight = tensor_from(weights, device)
                      .cast(x.dtype())
                      .reshape({f.leaves})
                      .gather(leaf, 0)
                      .unsqueeze(-1); // (N, trees, 1)
  Tensor hit = equal(table(op.node.require_integers("leaf_targetids")).gather(leaf, 0).unsqueeze(-1),
                     Tensor::arange(targets));
  Tensor sum = hit.where(weight, like(x, 0)).sum({1});
  constexpr double kMost = std::numeric_limits<double>::infinity();
  switch (op.node.integer("aggregate_function", 1)) {
  case 0:
    return {post_transformed(op, sum / double(trees))};
  case 1:
    return {post_transformed(op, sum)};
  case 2:
    return {post_transformed(op, hit.where(weight, like(x, kMost)).min({1}))};
  case 3:
    return {post_transformed(op, hit.where(weight, like(x, -kMost)).max({1}))};
  default:
    op.fail("aggregate_function " + std::to_string(op.node.integer("aggregate_function", 1)) +
            " is not known");
  }
}

constexpr OpRow kRows[] = {
    {"ai.onnx.ml", "ArrayFeatureExtractor", 1, array_feature_extractor},
    {"ai.onnx.ml", "Binarizer", 1, binarizer},
    {"ai.onnx.ml", "LabelEncoder", 2, label_encoder},
    {"ai.onnx.ml", "TreeEnsemble", 5, tree_ensemble},
};

} // namespace

std::span<const OpRow> ml_ops() { return kRows; }

} // namespace tolk::onnx
