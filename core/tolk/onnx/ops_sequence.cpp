// Sequences and optional values: they exist while importing only.
#include "tolk/base/error.h"
#include "tolk/onnx/importer.h"

namespace tolk::onnx {
namespace {

using Values = std::vector<GraphValue>;

const std::vector<GraphValue>& items(OpCall& op, size_t i) {
  const GraphValue* v = &op.value(i);
  if (v->kind == io::ValueKind::Optional && v->items.size() == 1) v = &v->items[0];
  if (v->kind != io::ValueKind::Sequence) op.fail("input " + std::to_string(i) + " must be a sequence");
  return v->items;
}

GraphValue integer(int64_t v) { return GraphValue(Tensor::constant(DType::I64, v)); }
GraphValue boolean(bool v) { return GraphValue(Tensor::constant(DType::BOOL, v ? 1 : 0)); }

// A position that may count from the end; `count` itself is allowed when inserting.
size_t position(OpCall& op, size_t input, size_t count, bool inserting) {
  int64_t at = op.int_at(input), n = int64_t(count);
  if (at < 0) at += n;
  if (at < 0 || at > n || (at == n && !inserting))
    op.fail("position " + std::to_string(at) + " is outside a sequence of " + std::to_string(n));
  return size_t(at);
}

Values construct(OpCall& op) {
  Values all;
  for (size_t i = 0; i < op.count(); ++i) all.push_back(op.value(i));
  return {GraphValue::sequence(std::move(all))};
}
Values empty(OpCall&) { return {GraphValue::sequence({})}; }
Values at(OpCall& op) {
  const Values& s = items(op, 0);
  return {s[position(op, 1, s.size(), false)]};
}
Values insert(OpCall& op) {
  Values s = items(op, 0);
  size_t where = op.has(2) ? position(op, 2, s.size(), true) : s.size();
  s.insert(s.begin() + int64_t(where), op.value(1));
  return {GraphValue::sequence(std::move(s))};
}
Values erase(OpCall& op) {
  Values s = items(op, 0);
  if (s.empty()) op.fail("the sequence is empty");
  s.erase(s.begin() + int64_t(op.has(1) ? position(op, 1, s.size(), false) : s.size() - 1));
  return {GraphValue::sequence(std::move(s))};
}
Values length(OpCall& op) { return {integer(int64_t(items(op, 0).size()))}; }

Values concat_from(OpCall& op) {
  std::vector<Tensor> parts;
  for (const GraphValue& v : items(op, 0)) {
    if (!v.tensor.defined()) op.fail("only tensors of numbers can be joined");
    parts.push_back(v.tensor);
  }
  if (parts.empty()) op.fail("there is nothing to join: the sequence is empty");
  int64_t axis = op.node.require_integer("axis");
  return {op.node.integer("new_axis", 0) ? Tensor::stack(parts, axis) : Tensor::concat(parts, axis)};
}

Values split_to(OpCall& op) {
  const Tensor& x = op.in(0);
  int64_t axis = op.axis("axis", 0, x.rank()), n = x.size(axis).value("SplitToSequence");
  std::vector<int64_t> sizes;
  bool keep = true;
  if (op.has(1)) {
    std::vector<int64_t> given = op.ints(1);
    if (op.in(1).rank() == 0) {
      if (given[0] < 1) op.fail("the split size must be positive");
      op.check_table(double(n) / double(given[0]), "a sequence");
      for (int64_t at = 0; at < n; at += given[0]) sizes.push_back(std::min(given[0], n - at));
    } else {
      op.shape(given, "split");
      sizes = given;
    }
  } else {
    sizes.assign(size_t(n), 1);
    keep = op.node.integer("keepdims", 1) != 0;
  }
  Values all;
  for (const Tensor& t : x.split(sizes, axis)) all.emplace_back(keep ? t : t.squeeze(axis));
  return {GraphValue::sequence(std::move(all))};
}

Values map(OpCall& op) {
  const Graph& body = op.node.require_graph("body");
  const Values& first = items(op, 0);
  std::vector<Values> results(body.outputs.size());
  for (size_t i = 0; i < first.size(); ++i) {
    Values arguments;
    for (size_t k = 0; k < op.count(); ++k) {
      const GraphValue& v = op.value(k);
      if (v.kind == io::ValueKind::Sequence) {
        if (i >= v.items.size()) op.fail("the sequences have different lengths");
        arguments.push_back(v.items[i]);
      } else {
        arguments.push_back(v);
      }
    }
    Values out = op.importer.run_body(body, arguments);
    for (size_t k = 0; k < out.size(); ++k) results[k].push_back(out[k]);
  }
  Values all;
  for (Values& r : results) all.push_back(GraphValue::sequence(std::move(r)));
  return all;
}

Values optional(OpCall& op) {
  if (!op.has(0)) return {GraphValue::optional({})};
  return {GraphValue::optional({op.value(0)})};
}
Values get_element(OpCall& op) {
  const GraphValue& v = op.value(0);
  if (v.kind != io::ValueKind::Optional) return {v};
  if (v.items.empty()) op.fail("the optional value is empty");
  return {v.items[0]};
}
Values has_element(OpCall& op) {
  if (!op.has(0)) return {boolean(false)};
  const GraphValue& v = op.value(0);
  return {boolean(v.kind != io::ValueKind::Optional || !v.items.empty())};
}

constexpr OpRow kRows[] = {
    {"", "SequenceConstruct", 11, construct},
    {"", "SequenceEmpty", 11, empty},
    {"", "SequenceAt", 11, at},
    {"", "SequenceInsert", 11, insert},
    {"", "SequenceErase", 11, erase},
    {"", "SequenceLength", 11, length},
    {"", "ConcatFromSequence", 11, concat_from},
    {"", "SplitToSequence", 11, split_to},
    {"", "SequenceMap", 17, map},
    {"", "Optional", 15, optional},
    {"", "OptionalGetElement", 15, get_element},
    {"", "OptionalHasElement", 15, has_element},
};

} // namespace

std::span<const OpRow> sequence_ops() { return kRows; }

} // namespace tolk::onnx
