// Control flow. Conditions and counts are known while importing (see importer.h), so a taken branch becomes
// part of the graph and a loop is unrolled.
#include "tolk/base/error.h"
#include "tolk/onnx/importer.h"

namespace tolk::onnx {
namespace {

using Values = std::vector<GraphValue>;

constexpr int64_t kMostIterations = 100000;

Values if_branch(OpCall& op) {
  const char* branch = op.importer.truth(op.value(0)) ? "then_branch" : "else_branch";
  return op.importer.run_body(op.node.require_graph(branch), {});
}

GraphValue scalar(int64_t v, DType dtype) { return GraphValue(Tensor::constant(dtype, v)); }

// Slices joined along a new axis; an axis of size 0 when there are none.
Tensor scan_result(const std::vector<Tensor>& slices, int64_t axis) {
  if (slices.empty()) return Tensor::zeros({0});
  return Tensor::stack(slices, axis);
}

Values loop(OpCall& op) {
  const Graph& body = op.node.require_graph("body");
  int64_t most = op.has(0) ? op.int_at(0) : kMostIterations;
  bool go = op.has(1) ? op.importer.truth(op.value(1)) : true;
  Values carried;
  for (size_t i = 2; i < op.count(); ++i) carried.push_back(op.has(i) ? op.value(i) : GraphValue());
  size_t scans = body.outputs.size() - 1 - carried.size();
  std::vector<std::vector<Tensor>> collected(scans);
  for (int64_t i = 0; i < most && go; ++i) {
    if (i >= kMostIterations) op.fail("more than " + std::to_string(kMostIterations) + " iterations");
    Values inputs{scalar(i, DType::I64), scalar(1, DType::BOOL)};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    Values results = op.importer.run_body(body, inputs);
    // The condition is not asked for after the last iteration, so a count alone needs no data.
    for (size_t k = 0; k < carried.size(); ++k) carried[k] = results[1 + k];
    for (size_t k = 0; k < scans; ++k) collected[k].push_back(results[1 + carried.size() + k].tensor);
    if (i + 1 < most) go = op.importer.truth(results[0]);
  }
  for (const auto& slices : collected) carried.emplace_back(scan_result(slices, 0));
  return carried;
}

Values scan(OpCall& op) {
  const Graph& body = op.node.require_graph("body");
  auto scanned = size_t(op.node.require_integer("num_scan_inputs"));
  // Version 8 had an optional sequence length first and a batch axis in front of everything.
  bool batched = op.opset < 9;
  size_t first = batched ? 1 : 0;
  size_t states = op.count() - first - scanned;
  std::vector<int64_t> in_axes = op.node.integers("scan_input_axes"),
                       out_axes = op.node.integers("scan_output_axes");
  std::vector<int64_t> in_ways = op.node.integers(batched ? "directions" : "scan_input_directions"),
                       out_ways = op.node.integers("scan_output_directions");
  size_t outputs = body.outputs.size() - states;
  in_axes.resize(scanned, 0), in_ways.resize(scanned, 0), out_axes.resize(outputs, 0),
      out_ways.resize(outputs, 0);
  if (batched && op.has(0)) op.fail("sequence lengths are not supported");

  auto run = [&](Values state, const std::vector<Tensor>& inputs) {
    int64_t steps = inputs.empty() ? 0 : inputs[0].size(in_axes[0]).value("Scan");
    std::vector<std::vector<Tensor>> collected(outputs);
    for (int64_t t = 0; t < steps; ++t) {
      Values arguments = state;
      for (size_t k = 0; k < scanned; ++k)
        arguments.emplace_back(
            inputs[k].narrow(in_axes[k], in_ways[k] ? steps - 1 - t : t, 1).squeeze(in_axes[k]));
      Values results = op.importer.run_body(body, arguments);
      for (size_t k = 0; k < states; ++k) state[k] = results[k];
      for (size_t k = 0; k < outputs; ++k) {
        const Tensor& slice = results[states + k].tensor;
        if (out_ways[k])
          collected[k].insert(collected[k].begin(), slice);
        else
          collected[k].push_back(slice);
      }
    }
    for (size_t k = 0; k < outputs; ++k) state.emplace_back(scan_result(collected[k], out_axes[k]));
    return state;
  };

  Values state;
  std::vector<Tensor> inputs;
  for (size_t k = 0; k < states; ++k) state.push_back(op.value(first + k));
  for (size_t k = 0; k < scanned; ++k) inputs.push_back(op.in(first + states + k));
  if (!batched) return run(state, inputs);
  int64_t batch = state.empty() ? inputs[0].size(0).value("Scan") : state[0].tensor.size(0).value("Scan");
  std::vector<std::vector<Tensor>> parts(states + outputs);
  for (int64_t b = 0; b < batch; ++b) {
    Values one;
    std::vector<Tensor> rows;
    for (const GraphValue& s : state) one.emplace_back(s.tensor.narrow(0, b, 1).squeeze(0));
    for (const Tensor& t : inputs) rows.push_back(t.narrow(0, b, 1).squeeze(0));
    Values results = run(one, rows);
    for (size_t k = 0; k < results.size(); ++k) parts[k].push_back(results[k].tensor);
  }
  Values joined;
  for (const auto& p : parts) joined.emplace_back(Tensor::stack(p, 0));
  return joined;
}

constexpr OpRow kRows[] = {
    {"", "If", 1, if_branch},
    {"", "Loop", 1, loop},
    {"", "Scan", 8, scan},
};

} // namespace

std::span<const OpRow> control_ops() { return kRows; }

} // namespace tolk::onnx
