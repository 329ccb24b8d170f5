// Shared by the classifiers and encoders of ai.onnx.ml.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tolk/onnx/importer.h"

namespace tolk::onnx {

// The classes of a classifier or the keys of a map: numbers or strings, as one of the two attributes gives them.
struct Labels {
  std::vector<int64_t> numbers;
  std::vector<std::string> texts;

  size_t count() const { return std::max(numbers.size(), texts.size()); }
};
// Throws ImportError unless exactly one of the attributes is there.
Labels labels_of(OpCall& op, const char* numbers, const char* texts);
// The labels at `place` (N), integers below their count; strings read the places back.
GraphValue labels_at(OpCall& op, const Labels& labels, const Tensor& place);

// Scores along the last axis after a post_transform: NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT.
Tensor post_transformed(const Tensor& scores, const std::string& how);
// The same with the node's attribute.
Tensor post_transformed(OpCall& op, const Tensor& scores);

// Scores (N, 1) of a classifier with two classes and one score, the second one's, as scores of both: 1 - s and s
// when they are probabilities, else -s and s; under LOGISTIC the logistic function of the latter. As ONNX Runtime
// has it.
Tensor both_scores(OpCall& op, const Tensor& score, bool probabilities);

// x as the f32 matrix (N, features) that these operators work on; one row for a single axis.
Tensor feature_matrix(OpCall& op);

// Where each string stands among the keys; their number when nowhere.
std::vector<int64_t> places_of_strings(const std::vector<std::string>& x,
                                       const std::vector<std::string>& keys);

} // namespace tolk::onnx
