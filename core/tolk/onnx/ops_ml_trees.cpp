// ai.onnx.ml: tree ensembles, in the form of version 5 and as lists of nodes. All trees are walked side by side, one
// level a step.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "tolk/base/error.h"
#include "tolk/io/tensor_proto.h"
#include "tolk/onnx/importer.h"
#include "tolk/onnx/ops_ml.h"

namespace tolk::onnx {
namespace {

using Values = std::vector<GraphValue>;

enum class Compare : int64_t { AtMost, Less, AtLeast, Greater, Equal, NotEqual, Member };
enum class Aggregate : int64_t { Average, Sum, Min, Max };

constexpr double kInf = std::numeric_limits<double>::infinity();

// Nodes that branch, and leaves behind them: leaf k is node `nodes + k`.
struct Forest {
  std::vector<int64_t> feature, mode, yes, no, missing_is_yes, roots;
  std::vector<double> split;
  std::vector<std::vector<double>> members; // per node
  struct Weight {
    int64_t leaf, target;
    double value;
  };
  std::vector<Weight> weights;
  int64_t nodes = 0, leaves = 0, depth = 0, targets = 1;
};

// What both forms need: references that exist, features of the input, and trees that end.
void check_forest(OpCall& op, Forest& f, const Tensor& x) {
  if (f.roots.empty()) op.fail("there are no trees");
  auto require_node = [&](int64_t id) {
    if (id < 0 || id >= f.nodes + f.leaves)
      op.fail("a node refers to number " + std::to_string(id) + ", which does not exist");
  };
  for (int64_t root : f.roots) require_node(root);
  for (size_t i = 0; i < size_t(f.nodes); ++i) {
    require_node(f.yes[i]), require_node(f.no[i]);
    if (f.mode[i] < 0 || f.mode[i] > int64_t(Compare::Member))
      op.fail("node " + std::to_string(i) + " has the mode " + std::to_string(f.mode[i]) +
              ", which is not known");
    if (f.feature[i] < 0 || f.feature[i] >= x.size(1).max())
      op.fail("node " + std::to_string(i) + " looks at feature " + std::to_string(f.feature[i]) +
              ", the input has " + to_string(x.size(1)));
  }
  for (const Forest::Weight& w : f.weights)
    if (w.target < 0 || w.target >= f.targets)
      op.fail("a leaf has the target " + std::to_string(w.target) + ", there are " +
              std::to_string(f.targets));
  std::vector<int64_t> level = f.roots;
  std::erase_if(level, [&](int64_t i) { return i >= f.nodes; });
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
}

void check_lengths(OpCall& op, size_t count, std::initializer_list<std::pair<const char*, size_t>> lists) {
  for (const auto& [name, size] : lists)
    if (size != count)
      op.fail(std::string(name) + " has " + std::to_string(size) + " entries for " + std::to_string(count) +
              " nodes");
}

// TreeEnsemble: branches and leaves in lists of their own.
Forest forest_of_tensors(OpCall& op, const Tensor& x) {
  const Node& n = op.node;
  Forest f;
  f.feature = n.require_integers("nodes_featureids"), f.nodes = int64_t(f.feature.size());
  std::vector<int64_t> targets = n.require_integers("leaf_targetids");
  f.leaves = int64_t(targets.size()), f.targets = n.integer("n_targets", 1);
  f.roots = n.require_integers("tree_roots");
  const io::HostTensor &modes = n.require_tensor("nodes_modes"), &splits = n.require_tensor("nodes_splits"),
                       &weights = n.require_tensor("leaf_weights");
  std::vector<int64_t> yes = n.require_integers("nodes_truenodeids"),
                       no = n.require_integers("nodes_falsenodeids"),
                       yes_leaf = n.require_integers("nodes_trueleafs"),
                       no_leaf = n.require_integers("nodes_falseleafs");
  f.missing_is_yes = n.integers("nodes_missing_value_tracks_true");
  auto count = size_t(f.nodes);
  if (f.missing_is_yes.empty()) f.missing_is_yes.assign(count, 0);
  check_lengths(op, count,
                {{"nodes_modes", modes.count()},
                 {"nodes_splits", splits.count()},
                 {"nodes_truenodeids", yes.size()},
                 {"nodes_falsenodeids", no.size()},
                 {"nodes_trueleafs", yes_leaf.size()},
                 {"nodes_falseleafs", no_leaf.size()},
                 {"nodes_missing_value_tracks_true", f.missing_is_yes.size()}});
  if (weights.count() != targets.size()) op.fail("leaf_weights and leaf_targetids have different lengths");
  auto target = [&](int64_t id, int64_t leaf) {
    return id < 0 ? id : leaf ? f.nodes + id : id < f.nodes ? id : -1;
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
  for (size_t k = 0; k < targets.size(); ++k)
    f.weights.push_back({int64_t(k), targets[k], io::element_double(weights, k)});
  check_forest(op, f, x);
  return f;
}

// A list of floats, or of doubles as a tensor.
std::vector<double> reals(OpCall& op, const std::string& name) {
  std::vector<double> out;
  if (const io::HostTensor* t = op.node.tensor(name + "_as_tensor")) {
    if (t->is_string()) op.fail("the attribute " + name + "_as_tensor must be a tensor of numbers");
    for (uint64_t i = 0; i < t->count(); ++i) out.push_back(io::element_double(*t, i));
    return out;
  }
  for (float v : op.node.numbers(name)) out.push_back(v);
  return out;
}

Compare mode_named(OpCall& op, const std::string& name) {
  constexpr const char* kNames[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                    "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (name == kNames[i]) return Compare(i);
  op.fail("a node has the mode \"" + name + "\", which is not known");
}

// TreeEnsembleClassifier and TreeEnsembleRegressor: one list of nodes, leaves among them, which (tree, node) pairs
// name; `what` is "class" or "target".
Forest forest_of_lists(OpCall& op, const Tensor& x, const std::string& what, int64_t targets) {
  const Node& n = op.node;
  std::vector<int64_t> trees = n.integers("nodes_treeids"), ids = n.integers("nodes_nodeids"),
                       features = n.integers("nodes_featureids"), yes = n.integers("nodes_truenodeids"),
                       no = n.integers("nodes_falsenodeids"),
                       missing = n.integers("nodes_missing_value_tracks_true");
  std::vector<std::string> modes = n.texts("nodes_modes");
  std::vector<double> splits = reals(op, "nodes_values");
  size_t count = ids.size();
  if (missing.empty()) missing.assign(count, 0);
  check_lengths(op, count,
                {{"nodes_treeids", trees.size()},
                 {"nodes_featureids", features.size()},
                 {"nodes_truenodeids", yes.size()},
                 {"nodes_falsenodeids", no.size()},
                 {"nodes_missing_value_tracks_true", missing.size()},
                 {"nodes_modes", modes.size()},
                 {"nodes_values", splits.size()}});
  Forest f;
  f.targets = targets;
  std::map<std::pair<int64_t, int64_t>, size_t> listed; // (tree, node): place in the lists
  std::vector<int64_t> number(count);
  for (size_t i = 0; i < count; ++i) {
    if (!listed.emplace(std::pair(trees[i], ids[i]), i).second)
      op.fail("node " + std::to_string(ids[i]) + " of tree " + std::to_string(trees[i]) + " is there twice");
    number[i] = modes[i] == "LEAF" ? f.leaves++ : f.nodes++;
  }
  auto place = [&](int64_t tree, int64_t id) {
    auto it = listed.find({tree, id});
    if (it == listed.end())
      op.fail("there is no node " + std::to_string(id) + " in tree " + std::to_string(tree));
    return it->second;
  };
  auto numbered = [&](size_t i) { return modes[i] == "LEAF" ? f.nodes + number[i] : number[i]; };
  std::vector<bool> is_child(count, false);
  for (size_t i = 0; i < count; ++i) {
    if (modes[i] == "LEAF") continue;
    size_t to_yes = place(trees[i], yes[i]), to_no = place(trees[i], no[i]);
    is_child[to_yes] = is_child[to_no] = true;
    f.feature.push_back(features[i]), f.mode.push_back(int64_t(mode_named(op, modes[i])));
    f.split.push_back(splits[i]), f.missing_is_yes.push_back(missing[i]);
    f.yes.push_back(numbered(to_yes)), f.no.push_back(numbered(to_no));
  }
  f.members.resize(size_t(f.nodes));
  std::map<int64_t, size_t> roots;
  for (size_t i = 0; i < count; ++i) {
    if (is_child[i]) continue;
    if (!roots.emplace(trees[i], i).second) op.fail("tree " + std::to_string(trees[i]) + " has two roots");
    f.roots.push_back(numbered(i));
  }
  std::vector<int64_t> of_tree = n.integers(what + "_treeids"), of_node = n.integers(what + "_nodeids"),
                       target = n.integers(what + "_ids");
  std::vector<double> weight = reals(op, what + "_weights");
  if (of_tree.size() != weight.size() || of_node.size() != weight.size() || target.size() != weight.size())
    op.fail("the lists " + what + "_treeids, _nodeids, _ids and _weights have different lengths");
  for (size_t k = 0; k < weight.size(); ++k) {
    size_t at = place(of_tree[k], of_node[k]);
    // Some exporters give branches a weight, which nothing reaches.
    if (modes[at] == "LEAF") f.weights.push_back({number[at], target[k], weight[k]});
  }
  check_forest(op, f, x);
  return f;
}

// The leaf in which each row of x (N, features) ends, for every tree: (N, trees).
Tensor leaves_reached(OpCall& op, const Forest& f, const Tensor& x) {
  const std::string& device = op.importer.device();
  auto trees = int64_t(f.roots.size());
  auto table = [&](const std::vector<int64_t>& v) { return Tensor::from(v, {int64_t(v.size())}, device); };
  Tensor at = table(f.roots).reshape({1, trees}).expand({x.size(0), trees});
  if (f.depth == 0) return at - f.nodes;
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
  // Most forests compare in one way, which needs no choice at run time.
  bool uniform = std::ranges::all_of(f.mode, [&](int64_t m) { return m == f.mode[0]; });
  for (int64_t level = 0; level < f.depth; ++level) {
    Tensor arrived = at >= f.nodes, node = arrived.where(Tensor::constant(DType::I64, 0), at);
    Tensor v = x.gather_elements(feature.gather(node, 0), 1), s = split.gather(node, 0), holds;
    auto test = [&](Compare c) {
      switch (c) {
      case Compare::AtMost:
        return v <= s;
      case Compare::Less:
        return v < s;
      case Compare::AtLeast:
        return v >= s;
      case Compare::Greater:
        return v > s;
      case Compare::Equal:
        return equal(v, s);
      case Compare::NotEqual:
        return not_equal(v, s);
      case Compare::Member:
        break;
      }
      return largest ? equal(v.unsqueeze(-1), sets.gather(node, 0)).any({-1})
                     : Tensor::constant(DType::BOOL, 0, v.shape());
    };
    if (uniform) {
      holds = test(Compare(f.mode[0]));
    } else {
      Tensor m = mode.gather(node, 0);
      for (int64_t c = 0; c <= int64_t(Compare::Member); ++c) {
        Tensor here = equal(m, c) & test(Compare(c));
        holds = holds.defined() ? holds | here : here;
      }
    }
    holds = holds | (v.isnan() & not_equal(missing.gather(node, 0), 0));
    at = arrived.where(at, holds.where(yes.gather(node, 0), no.gather(node, 0))).contiguous();
  }
  return at - f.nodes;
}

// Scores (N, targets): the weights of the leaves that are reached, combined over the trees.
Tensor scores_of(OpCall& op, const Forest& f, const Tensor& x, Aggregate how) {
  double none = how == Aggregate::Min ? kInf : how == Aggregate::Max ? -kInf : 0;
  op.check_table(double(f.leaves) * double(f.targets), "a table of leaves");
  std::vector<double> weights(size_t(f.leaves * f.targets), none);
  for (const Forest::Weight& w : f.weights) {
    double& at = weights[size_t(w.leaf * f.targets + w.target)];
    at = at == none              ? w.value
         : how == Aggregate::Min ? std::min(at, w.value)
         : how == Aggregate::Max ? std::max(at, w.value)
                                 : at + w.value;
  }
  Tensor rows = Tensor::from(weights, {f.leaves, f.targets}, op.importer.device())
                    .cast(x.dtype())
                    .gather(leaves_reached(op, f, x), 0); // (N, trees, targets)
  // A target that no leaf on the way votes for has the score 0.
  auto voted = [&](const Tensor& y) { return equal(y, none).where(like(y, 0), y); };
  switch (how) {
  case Aggregate::Average:
    return rows.sum({1}) / double(f.roots.size());
  case Aggregate::Min:
    return voted(rows.min({1}));
  case Aggregate::Max:
    return voted(rows.max({1}));
  case Aggregate::Sum:
    break;
  }
  return rows.sum({1});
}

// x (N, features) in a float type.
Tensor matrix(OpCall& op) {
  const Tensor& x = op.in(0);
  if (x.rank() != 2) op.fail("the input must be (samples, features), its shape is " + to_string(x.shape()));
  return x.dtype() == DType::F64 || is_float(x.dtype()) ? x : x.cast(DType::F32);
}

Values tree_ensemble(OpCall& op) {
  Tensor x = matrix(op);
  Tensor y = scores_of(op, forest_of_tensors(op, x), x, Aggregate(op.node.integer("aggregate_function", 1)));
  constexpr const char* kTransforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  return {post_transformed(y, kTransforms[op.node.integer("post_transform", 0)])};
}

// `base_values`, one for each target or one for all, added to the scores.
Tensor with_base(OpCall& op, const Tensor& scores) {
  std::vector<double> base = reals(op, "base_values");
  if (base.empty()) return scores;
  if (base.size() != 1 && !(scores.size(1) == int64_t(base.size())))
    op.fail("base_values has " + std::to_string(base.size()) + " entries for " + to_string(scores.size(1)) +
            " targets");
  return scores + Tensor::from(base, {int64_t(base.size())}, op.importer.device()).cast(scores.dtype());
}

Values tree_ensemble_regressor(OpCall& op) {
  Tensor x = matrix(op);
  std::string name = op.node.text("aggregate_function", "SUM");
  Aggregate how = name == "AVERAGE" ? Aggregate::Average
                  : name == "MIN"   ? Aggregate::Min
                  : name == "MAX"   ? Aggregate::Max
                                    : Aggregate::Sum;
  Forest f = forest_of_lists(op, x, "target", op.node.integer("n_targets", 1));
  return {post_transformed(op, with_base(op, scores_of(op, f, x, how))).cast(DType::F32)};
}

// Two classes of which the leaves vote for one alone have one score: a probability when no weight is negative, and
// above 1/2 the second class's; else above 0. Other forests have a score a class.
Values tree_ensemble_classifier(OpCall& op) {
  Tensor x = matrix(op);
  Labels labels = labels_of(op, "classlabels_int64s", "classlabels_strings");
  auto classes = int64_t(labels.count());
  Forest f = forest_of_lists(op, x, "class", classes);
  bool single = classes <= 2 && !f.weights.empty();
  for (const Forest::Weight& w : f.weights) single &= w.target == f.weights[0].target;
  if (!single) {
    Tensor scores = with_base(op, scores_of(op, f, x, Aggregate::Sum));
    return {labels_at(op, labels, scores.argmax(1)), post_transformed(op, scores).cast(DType::F32)};
  }
  bool positive = std::ranges::all_of(f.weights, [](const Forest::Weight& w) { return w.value >= 0; });
  for (Forest::Weight& w : f.weights) w.target = 0;
  f.targets = 1;
  Tensor score = scores_of(op, f, x, Aggregate::Sum);
  std::vector<double> base = reals(op, "base_values");
  if (!base.empty()) score = score + base.back();
  Tensor second = (score.squeeze(1) > (positive ? 0.5 : 0.0)).cast(DType::I64);
  if (classes == 1) second = like(second, 0).expand(second.shape());
  return {labels_at(op, labels, second), both_scores(op, score, positive).cast(DType::F32)};
}

constexpr OpRow kRows[] = {
    {"ai.onnx.ml", "TreeEnsemble", 5, tree_ensemble},
    {"ai.onnx.ml", "TreeEnsembleClassifier", 1, tree_ensemble_classifier},
    {"ai.onnx.ml", "TreeEnsembleRegressor", 1, tree_ensemble_regressor},
};

} // namespace

std::span<const OpRow> ml_tree_ops() { return kRows; }

} // namespace tolk::onnx
