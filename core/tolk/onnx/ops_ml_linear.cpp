// ai.onnx.ml: linear models, support vectors, and the transformations of features around them.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "tolk/base/error.h"
#include "tolk/io/tensor_proto.h"
#include "tolk/onnx/importer.h"
#include "tolk/onnx/ops_ml.h"

namespace tolk::onnx {

Labels labels_of(OpCall& op, const char* numbers, const char* texts) {
  Labels labels{op.node.integers(numbers), op.node.texts(texts)};
  if (labels.numbers.empty() == labels.texts.empty())
    op.fail(std::string("exactly one of the attributes ") + numbers + " and " + texts + " is needed");
  return labels;
}

GraphValue labels_at(OpCall& op, const Labels& labels, const Tensor& place) {
  if (labels.texts.empty())
    return Tensor::from(labels.numbers, {int64_t(labels.numbers.size())}, op.importer.device())
        .gather(place, 0);
  std::vector<std::string> texts;
  for (int64_t p : op.importer.ints(place)) texts.push_back(labels.texts.at(size_t(p)));
  io::Shape shape{int64_t(texts.size())};
  return GraphValue(io::string_tensor(shape, std::move(texts)));
}

Tensor post_transformed(const Tensor& y, const std::string& how) {
  if (how == "SOFTMAX") return y.softmax(-1);
  if (how == "LOGISTIC") return y.sigmoid();
  if (how == "SOFTMAX_ZERO") {
    // Softmax of what is not 0.
    Tensor zero = equal(y, 0.0), e = zero.where(like(y, 0), (y - y.max({-1}, true)).exp());
    return e / e.sum({-1}, true).maximum(like(y, std::numeric_limits<float>::min()));
  }
  if (how == "PROBIT") {
    // sqrt(2) erfinv(2y - 1), the inverse by Winitzki's formula ("A handy approximation for the error function and
    // its inverse", 2008) with a = 0.147, as ONNX Runtime has it.
    constexpr double a = 0.147, pi = 3.14159265358979323846;
    Tensor x = y * 2.0 - 1.0, log = ((like(x, 1) - x) * (x + 1.0)).log(), v = log * 0.5 + 2 / (pi * a);
    Tensor size = ((v * v - log / a).sqrt() - v).sqrt() * std::sqrt(2.0);
    return (x < 0).where(size.neg(), size);
  }
  return y;
}
Tensor post_transformed(OpCall& op, const Tensor& scores) {
  return post_transformed(scores, op.node.text("post_transform", "NONE"));
}

Tensor both_scores(OpCall& op, const Tensor& score, bool probabilities) {
  if (probabilities) return Tensor::concat({like(score, 1) - score, score}, 1);
  Tensor both = Tensor::concat({score.neg(), score}, 1);
  return op.node.text("post_transform", "NONE") == "LOGISTIC" ? both.sigmoid() : both;
}

Tensor feature_matrix(OpCall& op) {
  const Tensor& x = op.in(0);
  if (x.rank() < 1 || x.rank() > 2)
    op.fail("the input must be (rows, features) or (features), its shape is " + to_string(x.shape()));
  Tensor f = x.cast(DType::F32);
  return x.rank() == 1 ? f.unsqueeze(0) : f;
}

namespace {

using Values = std::vector<GraphValue>;

Tensor table(OpCall& op, const std::vector<float>& v, const Shape& shape) {
  return Tensor::from(v, shape, op.importer.device());
}

// A list of one number for all features or one for each, as a tensor that meets the features.
Tensor per_feature(OpCall& op, const std::vector<float>& v, const char* name, const SInt& features) {
  if (v.size() != 1 && !(features == int64_t(v.size())))
    op.fail(std::string(name) + " has " + std::to_string(v.size()) + " entries for " + to_string(features) +
            " features");
  return table(op, v, {int64_t(v.size())});
}

// ---- transformations of features

Values scaler(OpCall& op) {
  const Tensor& x = op.in(0);
  if (x.rank() < 1) op.fail("the input has no features");
  Tensor y = x.cast(DType::F32);
  std::vector<float> offset = op.node.numbers("offset"), scale = op.node.numbers("scale");
  if (!offset.empty()) y = y - per_feature(op, offset, "offset", x.size(-1));
  if (!scale.empty()) y = y * per_feature(op, scale, "scale", x.size(-1));
  return {y};
}

// Rows by their norm; those whose norm is 0 stay.
Values normalizer(OpCall& op) {
  Tensor x = feature_matrix(op);
  std::string kind = op.node.text("norm", "MAX");
  Tensor norm = kind == "MAX"  ? x.max({-1}, true)
                : kind == "L1" ? x.abs().sum({-1}, true)
                               : (x * x).sum({-1}, true).sqrt();
  return {equal(norm, 0.0).where(x, x / norm).reshape(op.in(0).shape())};
}

Values imputer(OpCall& op) {
  const Tensor& x = op.in(0);
  if (x.rank() < 1) op.fail("the input has no features");
  if (is_float(x.dtype())) {
    double missing = op.node.number("replaced_value_float", 0);
    Tensor hit = std::isnan(missing) ? x.isnan() : equal(x, missing);
    Tensor value =
        per_feature(op, op.node.numbers("imputed_value_floats"), "imputed_value_floats", x.size(-1));
    return {hit.where(value.cast(x.dtype()), x)};
  }
  std::vector<int64_t> values = op.node.integers("imputed_value_int64s");
  if (values.empty() || (values.size() != 1 && !(x.size(-1) == int64_t(values.size()))))
    op.fail("imputed_value_int64s has " + std::to_string(values.size()) + " entries for " +
            to_string(x.size(-1)) + " features");
  Tensor value = Tensor::from(values, {int64_t(values.size())}, op.importer.device()).cast(x.dtype());
  return {equal(x, op.node.integer("replaced_value_int64", 0)).where(value, x)};
}

Values one_hot_encoder(OpCall& op) {
  Labels cats = labels_of(op, "cats_int64s", "cats_strings");
  const GraphValue& x = op.value(0);
  auto count = int64_t(cats.count());
  Tensor hit;
  if (x.is_string() != cats.numbers.empty()) op.fail("the categories' type does not fit the input's");
  if (x.is_string()) {
    Shape shape(x.host->shape.begin(), x.host->shape.end());
    Tensor place = x.host->count() ? Tensor::from(places_of_strings(x.host->strings, cats.texts), shape,
                                                  op.importer.device())
                                   : Tensor::zeros(shape, DType::I64);
    hit = equal(place.unsqueeze(-1), Tensor::arange(count));
  } else {
    hit = equal(op.in(0).cast(DType::I64).unsqueeze(-1),
                Tensor::from(cats.numbers, {count}, op.importer.device()));
  }
  // Without `zeros` an element of no category is a mistake in the data.
  if (!op.node.integer("zeros", 1))
    for (int64_t known : op.importer.ints(hit.any({-1}).cast(DType::I64)))
      if (!known) op.fail("an element is none of the categories, and zeros is 0");
  return {hit.cast(DType::F32)};
}

Values feature_vectorizer(OpCall& op) {
  std::vector<int64_t> sizes = op.node.integers("inputdimensions");
  std::vector<Tensor> parts;
  for (size_t i = 0; i < op.count(); ++i) {
    Tensor x = op.in(i).cast(DType::F32);
    if (x.rank() == 1) x = x.unsqueeze(0); // one row
    if (x.rank() != 2 || (i < sizes.size() && !(x.size(1) == sizes[i])))
      op.fail("input " + std::to_string(i) + " " + to_string(op.in(i).shape()) +
              " does not fit inputdimensions");
    parts.push_back(x);
  }
  return {Tensor::concat(parts, 1)};
}

// ---- linear models

// x (N, features) times the coefficients of `rows` targets, plus intercepts.
Tensor linear_scores(OpCall& op, const Tensor& x, int64_t rows) {
  std::vector<float> coefficients = op.node.numbers("coefficients"),
                     intercepts = op.node.numbers("intercepts");
  int64_t features = x.size(1).value("a linear model");
  if (rows < 1 || int64_t(coefficients.size()) != rows * features ||
      (!intercepts.empty() && int64_t(intercepts.size()) != rows))
    op.fail("coefficients (" + std::to_string(coefficients.size()) + ") and intercepts (" +
            std::to_string(intercepts.size()) + ") do not fit " + std::to_string(rows) + " targets of " +
            std::to_string(features) + " features");
  Tensor y = x.matmul(table(op, coefficients, {rows, features}).transpose(0, 1));
  return intercepts.empty() ? y : y + table(op, intercepts, {rows});
}

Values linear_regressor(OpCall& op) {
  return {post_transformed(op, linear_scores(op, feature_matrix(op), op.node.integer("targets", 1)))};
}

Values linear_classifier(OpCall& op) {
  Labels labels = labels_of(op, "classlabels_ints", "classlabels_strings");
  Tensor x = feature_matrix(op);
  auto classes = int64_t(labels.count());
  auto coefficients = int64_t(op.node.numbers("coefficients").size());
  int64_t rows = coefficients / std::max<int64_t>(1, x.size(1).value("LinearClassifier"));
  if (rows != classes && !(rows == 1 && classes == 2))
    op.fail("there are " + std::to_string(coefficients) + " coefficients for " + std::to_string(classes) +
            " classes of " + to_string(x.size(1)) + " features");
  Tensor scores = linear_scores(op, x, rows);
  if (rows == classes) return {labels_at(op, labels, scores.argmax(1)), post_transformed(op, scores)};
  // One row of two classes: the sign decides.
  Tensor second = (scores.squeeze(1) > 0).cast(DType::I64);
  bool logistic = op.node.text("post_transform", "NONE") == "LOGISTIC";
  return {labels_at(op, labels, second), both_scores(op, scores, !logistic)};
}

// ---- support vectors

// Values of the kernel function between the rows of x (N, F) and those of v (S, F): (N, S).
Tensor kernel_values(OpCall& op, const Tensor& x, const Tensor& v) {
  std::string kind = op.node.text("kernel_type", "LINEAR");
  std::vector<float> p = op.node.numbers("kernel_params");
  p.resize(3, 0); // gamma, coef0, degree
  if (kind == "RBF") {
    Tensor d = x.unsqueeze(1) - v.unsqueeze(0);
    return ((d * d).sum({2}) * double(-p[0])).exp();
  }
  Tensor dot = x.matmul(v.transpose(0, 1));
  if (kind == "LINEAR") return dot;
  Tensor shifted = dot * double(p[0]) + double(p[1]);
  return kind == "POLY" ? shifted.pow(like(shifted, p[2])) : shifted.tanh();
}

struct Vectors {
  Tensor x, kernel; // (N, F), (N, supports)
  std::vector<float> coefficients, rho;
  int64_t supports = 0;
};

Vectors vectors_of(OpCall& op, int64_t supports) {
  Vectors s;
  s.x = feature_matrix(op), s.supports = supports;
  s.coefficients = op.node.numbers("coefficients"), s.rho = op.node.numbers("rho");
  int64_t features = s.x.size(1).value("support vectors");
  std::vector<float> vectors = op.node.numbers("support_vectors");
  if (supports < 1 || int64_t(vectors.size()) != supports * features)
    op.fail("support_vectors has " + std::to_string(vectors.size()) + " entries for " +
            std::to_string(supports) + " vectors of " + std::to_string(features) + " features");
  s.kernel = kernel_values(op, s.x, table(op, vectors, {supports, features}));
  return s;
}

Values svm_regressor(OpCall& op) {
  int64_t supports = op.node.integer("n_supports", 0);
  Tensor y;
  std::vector<float> rho = op.node.numbers("rho");
  if (rho.size() != 1) op.fail("rho must be one number, it has " + std::to_string(rho.size()));
  std::vector<float> coefficients = op.node.numbers("coefficients");
  if (supports > 0) {
    Vectors s = vectors_of(op, supports);
    if (int64_t(coefficients.size()) != supports)
      op.fail("coefficients has " + std::to_string(coefficients.size()) + " entries for " +
              std::to_string(supports) + " vectors");
    y = s.kernel.matmul(table(op, coefficients, {supports, 1}));
  } else {
    Tensor x = feature_matrix(op);
    if (!(x.size(1) == int64_t(coefficients.size())))
      op.fail("coefficients has " + std::to_string(coefficients.size()) + " entries for " +
              to_string(x.size(1)) + " features");
    y = kernel_values(op, x, table(op, coefficients, {1, int64_t(coefficients.size())}));
  }
  y = y + double(rho[0]);
  if (op.node.integer("one_class", 0)) y = (y > 0).where(like(y, 1), like(y, -1));
  return {post_transformed(op, y)};
}

// Probabilities of n classes from those of pairs: r[i][j] of i against j, each (N, 1). The iteration of Wu, Lin and
// Weng ("Probability estimates for multi-class classification by pairwise coupling", 2004). A row is left alone once
// it meets libsvm's bound (0.005 / n, multiclass_probability in svm.cpp); the number of rounds is fixed, since a graph
// has no data-dependent end.
Tensor coupled(const std::vector<std::vector<Tensor>>& r) {
  size_t n = r.size();
  auto q = [&](size_t i, size_t j) { return (r[j][i] * r[i][j]).neg(); }; // off the diagonal
  std::vector<Tensor> diagonal(n), p(n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j)
      if (j != i) diagonal[i] = diagonal[i].defined() ? diagonal[i] + r[j][i] * r[j][i] : r[j][i] * r[j][i];
    p[i] = like(diagonal[i], 1.0 / double(n)).expand(diagonal[i].shape());
  }
  constexpr int kRounds = 12;
  // Q p, and p Q p behind it.
  auto products = [&] {
    std::vector<Tensor> qp(n + 1);
    for (size_t i = 0; i < n; ++i) {
      qp[i] = diagonal[i] * p[i];
      for (size_t j = 0; j < n; ++j)
        if (j != i) qp[i] = qp[i] + q(i, j) * p[j];
      Tensor part = p[i] * qp[i];
      qp[n] = qp[n].defined() ? qp[n] + part : part;
    }
    return qp;
  };
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Tensor> before = p, qp = products();
    Tensor error = (qp[0] - qp[n]).abs();
    for (size_t i = 1; i < n; ++i) error = error.maximum((qp[i] - qp[n]).abs());
    Tensor open = (error >= 0.005 / double(n)).contiguous();
    for (size_t t = 0; t < n; ++t) {
      if (t) qp = products();
      p[t] = p[t] + (qp[n] - qp[t]) / diagonal[t];
      Tensor sum = p[0];
      for (size_t i = 1; i < n; ++i) sum = sum + p[i];
      for (Tensor& v : p) v = (v / sum).contiguous();
    }
    for (size_t i = 0; i < n; ++i) p[i] = open.where(p[i], before[i]).contiguous();
  }
  return Tensor::concat(p, 1);
}

Values svm_classifier(OpCall& op) {
  Labels labels = labels_of(op, "classlabels_ints", "classlabels_strings");
  std::vector<int64_t> sizes = op.node.integers("vectors_per_class"), begin;
  auto classes = int64_t(labels.count());
  if (sizes.empty()) { // a row of coefficients for each class
    Tensor x = feature_matrix(op);
    std::vector<float> coefficients = op.node.numbers("coefficients"), rho = op.node.numbers("rho");
    int64_t features = x.size(1).value("SVMClassifier");
    if (int64_t(coefficients.size()) != classes * features || rho.empty())
      op.fail("coefficients has " + std::to_string(coefficients.size()) + " entries for " +
              std::to_string(classes) + " classes of " + std::to_string(features) + " features");
    Tensor scores = kernel_values(op, x, table(op, coefficients, {classes, features})) + double(rho[0]);
    return {labels_at(op, labels, scores.argmax(1)), post_transformed(op, scores)};
  }
  int64_t supports = 0, pairs = classes * (classes - 1) / 2;
  for (int64_t n : sizes) begin.push_back(supports), supports += n;
  if (int64_t(sizes.size()) != classes || classes < 2)
    op.fail("vectors_per_class has " + std::to_string(sizes.size()) + " entries for " +
            std::to_string(classes) + " classes");
  Vectors s = vectors_of(op, supports);
  std::vector<float> prob_a = op.node.numbers("prob_a"), prob_b = op.node.numbers("prob_b");
  if (int64_t(s.coefficients.size()) != (classes - 1) * supports || int64_t(s.rho.size()) != pairs ||
      prob_a.size() != prob_b.size() || (!prob_a.empty() && int64_t(prob_a.size()) != pairs))
    op.fail("coefficients, rho, prob_a or prob_b do not fit " + std::to_string(classes) + " classes and " +
            std::to_string(supports) + " vectors");
  Tensor coefficients = table(op, s.coefficients, {classes - 1, supports});
  auto part = [&](int64_t row, int64_t of) { // share of one class's vectors: (N, 1)
    Tensor c = coefficients.narrow(0, row, 1).narrow(1, begin[size_t(of)], sizes[size_t(of)]);
    return (s.kernel.narrow(1, begin[size_t(of)], sizes[size_t(of)]) * c).sum({1}, true);
  };
  std::vector<Tensor> scores, votes(static_cast<size_t>(classes));
  std::vector<std::vector<Tensor>> r(votes.size(), std::vector<Tensor>(votes.size()));
  size_t pair = 0;
  for (int64_t i = 0; i < classes; ++i)
    for (int64_t j = i + 1; j < classes; ++j, ++pair) {
      Tensor score = part(j - 1, i) + part(i, j) + double(s.rho[pair]);
      scores.push_back(score);
      Tensor first = (score > 0).cast(DType::F32), second = like(first, 1) - first;
      for (auto [of, vote] : {std::pair(size_t(i), first), std::pair(size_t(j), second)})
        votes[of] = votes[of].defined() ? votes[of] + vote : vote;
      if (prob_a.empty()) continue;
      // Platt's sigmoid, kept off 0 and 1 as libsvm does.
      Tensor p = (score * double(prob_a[pair]) + double(prob_b[pair]))
                     .neg()
                     .sigmoid()
                     .clip(like(score, 1e-7), like(score, 1 - 1e-7));
      r[size_t(i)][size_t(j)] = p, r[size_t(j)][size_t(i)] = like(p, 1) - p;
    }
  // The class that wins most pairs, also where probabilities are asked for, as scikit-learn's predict has it.
  GraphValue label = labels_at(op, labels, Tensor::concat(votes, 1).argmax(1));
  if (!prob_a.empty()) return {label, post_transformed(op, coupled(r))};
  Tensor all = Tensor::concat(scores, 1);
  // Of two classes the score stands in the second column, its negative in the first.
  if (classes == 2) return {label, both_scores(op, all, false)};
  return {label, post_transformed(op, all)};
}

// A map from labels to scores for each row.
Values zip_map(OpCall& op) {
  Labels labels = labels_of(op, "classlabels_int64s", "classlabels_strings");
  const Tensor x = feature_matrix(op);
  auto count = int64_t(labels.count());
  if (!(x.size(1) == count))
    op.fail("there are " + std::to_string(count) + " labels for rows of " + to_string(x.size(1)) + " scores");
  io::HostTensor keys = labels.texts.empty() ? io::tensor_of(DType::I64, {count}, labels.numbers)
                                             : io::string_tensor({count}, labels.texts);
  Values maps;
  for (int64_t row = 0; row < x.size(0).value("ZipMap"); ++row) {
    GraphValue map;
    map.kind = io::ValueKind::Map;
    map.items = {GraphValue(keys), GraphValue(x.narrow(0, row, 1).squeeze(0))};
    maps.push_back(std::move(map));
  }
  return {GraphValue::sequence(std::move(maps))};
}

constexpr OpRow kRows[] = {
    {"ai.onnx.ml", "Scaler", 1, scaler},
    {"ai.onnx.ml", "Normalizer", 1, normalizer},
    {"ai.onnx.ml", "Imputer", 1, imputer},
    {"ai.onnx.ml", "OneHotEncoder", 1, one_hot_encoder},
    {"ai.onnx.ml", "FeatureVectorizer", 1, feature_vectorizer},
    {"ai.onnx.ml", "LinearRegressor", 1, linear_regressor},
    {"ai.onnx.ml", "LinearClassifier", 1, linear_classifier},
    {"ai.onnx.ml", "SVMRegressor", 1, svm_regressor},
    {"ai.onnx.ml", "SVMClassifier", 1, svm_classifier},
    {"ai.onnx.ml", "ZipMap", 1, zip_map},
};

} // namespace

std::span<const OpRow> ml_linear_ops() { return kRows; }

} // namespace tolk::onnx
