// The table of operators, put together from its parts.
#include <algorithm>
#include <map>

#include "tolk/onnx/importer.h"

namespace tolk::onnx {
namespace {

using Key = std::pair<std::string_view, std::string_view>;

const std::map<Key, std::vector<const OpRow*>>& table() {
  static const auto* rows = [] {
    auto* all = new std::map<Key, std::vector<const OpRow*>>;
    for (auto part :
         {math_ops,      shape_ops,     index_ops, reduce_ops,           nn_ops,        norm_ops,
          attention_ops, recurrent_ops, quant_ops, control_ops,          sequence_ops,  signal_ops,
          loss_ops,      image_ops,     ml_ops,    linear_attention_ops, resize_ops,    select_ops,
          random_ops,    training_ops,  text_ops,  quant_fused_ops,      ml_linear_ops, ml_tree_ops})
      for (const OpRow& row : part()) (*all)[{row.domain, row.name}].push_back(&row);
    for (auto& [key, list] : *all)
      std::sort(list.begin(), list.end(), [](const OpRow* a, const OpRow* b) { return a->since < b->since; });
    return all;
  }();
  return *rows;
}

struct Refusal {
  const char* domain;
  const char* name;
  const char* why;
};
constexpr Refusal kRefused[] = {
    {"", "ImageDecoder", "images are decoded before the model runs"},
    {"ai.onnx.preview.training", "Gradient", "it is for training"},
};

} // namespace

const OpRow* find_op(std::string_view domain, std::string_view name, int64_t version) {
  auto it = table().find({domain, name});
  if (it == table().end()) return nullptr;
  const OpRow* best = nullptr;
  for (const OpRow* row : it->second)
    if (row->since <= version) best = row;
  return best;
}

const char* refused_op(std::string_view domain, std::string_view name) {
  for (const Refusal& r : kRefused)
    if (domain == r.domain && name == r.name) return r.why;
  return nullptr;
}

} // namespace tolk::onnx
