// Control flow. Conditions and counts are known while importing (see importer.h), so a taken branch becomes
// part of the graph and a loop is unrolled.
#include <limits>
#include <tuple>

#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/onnx/importer.h"

namespace tolk::onnx {
namespace {

using Values = std::vector<GraphValue>;

// Loops are unrolled: one that never ends would fill the memory.
constexpr int64_t kMostIterations = 1000000;

Values if_branch(OpCall& op) {
  const char* branch = op.importer.truth(op.value(0)) ? "then_branch" : "else_branch";
  return op.importer.run_body(op.node.require_graph(branch), {});
}

GraphValue scalar(int64_t v, DType dtype) { return GraphValue(Tensor::constant(dtype, v)); }

void check_body(OpCall& op, const Graph& body, size_t inputs, size_t least_outputs) {
  if (body.inputs.size() < inputs || body.outputs.size() < least_outputs)
    op.fail("its body takes " + std::to_string(body.inputs.size()) + " inputs and gives " +
            std::to_string(body.outputs.size()) + " outputs; " + std::to_string(inputs) + " and at least " +
            std::to_string(least_outputs) + " are needed");
}

// What a body's output looks like when no iteration makes one: as declared, and for what is not declared as an
// import of the body has it. Sizes that neither knows are 0.
Tensor absent_slice(OpCall& op, const Graph& body, size_t output, const Values& arguments) {
  const Type& declared = body.outputs[output].type;
  bool known = declared.dtype && declared.dims;
  if (known)
    for (const Dim& d : *declared.dims) known &= d.known();
  if (!known) {
    try {
      Values results = op.importer.run_body(body, arguments);
      if (results[output].tensor.defined())
        return Tensor::zeros(results[output].tensor.shape(), results[output].tensor.dtype());
    } catch (const Error& e) { // the body need not make sense for values that it never meets
      log::debug(2, std::string("a body that runs no iteration: ") + e.what());
    }
    if (!declared.dtype)
      op.fail("its body declares no type for output " + std::to_string(output) +
              ", and no iteration makes one");
  }
  Shape shape;
  if (declared.dims)
    for (const Dim& d : *declared.dims) shape.emplace_back(d.value.value_or(0));
  return Tensor::zeros(shape, carrier_of(*declared.dtype));
}

// Slices joined along a new axis, which has size 0 when there are none.
Tensor scan_result(OpCall& op, const std::vector<Tensor>& slices, int64_t axis, const Graph& body,
                   size_t output, const Values& arguments) {
  if (!slices.empty()) return Tensor::stack(slices, axis);
  Tensor slice = absent_slice(op, body, output, arguments);
  Shape shape = slice.shape();
  int64_t rank = int64_t(shape.size()) + 1;
  if (axis < -rank || axis >= rank) op.fail("there is no axis " + std::to_string(axis) + " to join along");
  shape.insert(shape.begin() + (axis < 0 ? axis + rank : axis), SInt(0));
  return Tensor::zeros(shape, slice.dtype());
}

const Tensor& slice_of(OpCall& op, const Values& results, size_t output) {
  if (!results[output].tensor.defined())
    op.fail("output " + std::to_string(output) +
            " of its body is joined over the iterations and must be a tensor of "
            "numbers");
  return results[output].tensor;
}

Values loop(OpCall& op) {
  const Graph& body = op.node.require_graph("body");
  int64_t most = op.has(0) ? op.int_at(0) : std::numeric_limits<int64_t>::max();
  bool go = op.has(1) ? op.importer.truth(op.value(1)) : true;
  Values carried;
  for (size_t i = 2; i < op.count(); ++i) carried.push_back(op.has(i) ? op.value(i) : GraphValue());
  size_t states = carried.size();
  check_body(op, body, 2 + states, 1 + states);
  size_t scans = body.outputs.size() - 1 - states;
  std::vector<std::vector<Tensor>> collected(scans);
  auto arguments = [&](int64_t i) {
    Values inputs{scalar(i, DType::I64), scalar(1, DType::BOOL)};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    return inputs;
  };
  for (int64_t i = 0; i < most && go; ++i) {
    if (i >= kMostIterations)
      op.fail("more than " + std::to_string(kMostIterations) + " iterations are not supported");
    Values results = op.importer.run_body(body, arguments(i));
    // The condition is not asked for after the last iteration, so a count alone needs no data.
    for (size_t k = 0; k < states; ++k) carried[k] = results[1 + k];
    for (size_t k = 0; k < scans; ++k) collected[k].push_back(slice_of(op, results, 1 + states + k));
    if (i + 1 < most) go = op.importer.truth(results[0]);
  }
  for (size_t k = 0; k < states; ++k)
    if (const GraphValue& v = carried[k]; v.kind == io::ValueKind::Tensor && !v.tensor.defined() && !v.host)
      op.fail("input " + std::to_string(2 + k) + " is left out, and no iteration gives output " +
              std::to_string(k) + " a value");
  Values first = arguments(0);
  for (size_t k = 0; k < scans; ++k)
    carried.emplace_back(scan_result(op, collected[k], 0, body, 1 + states + k, first));
  return carried;
}

Values scan(OpCall& op) {
  const Graph& body = op.node.require_graph("body");
  auto scanned = size_t(op.node.require_integer("num_scan_inputs"));
  // Version 8 had an optional sequence length first and a batch axis in front of everything.
  bool batched = op.opset < 9;
  size_t first = batched ? 1 : 0;
  if (op.count() < first + scanned)
    op.fail("num_scan_inputs is " + std::to_string(scanned) + ", there are " + std::to_string(op.count()) +
            " inputs");
  size_t states = op.count() - first - scanned;
  check_body(op, body, states + scanned, states);
  std::vector<int64_t> in_axes = op.node.integers("scan_input_axes"),
                       out_axes = op.node.integers("scan_output_axes");
  std::vector<int64_t> in_ways = op.node.integers(batched ? "directions" : "scan_input_directions"),
                       out_ways = op.node.integers("scan_output_directions");
  size_t outputs = body.outputs.size() - states;
  for (const auto& [list, wanted, name] : {std::tuple(&in_axes, scanned, "scan_input_axes"),
                                           std::tuple(&in_ways, scanned, "scan_input_directions"),
                                           std::tuple(&out_axes, outputs, "scan_output_axes"),
                                           std::tuple(&out_ways, outputs, "scan_output_directions")})
    if (!list->empty() && list->size() != wanted)
      op.fail(std::string(name) + " has " + std::to_string(list->size()) + " entries, " +
              std::to_string(wanted) + " are needed");
  in_axes.resize(scanned, 0), in_ways.resize(scanned, 0), out_axes.resize(outputs, 0),
      out_ways.resize(outputs, 0);
  if (batched && op.has(0)) op.fail("sequence lengths are not supported");

  auto run = [&](Values state, const std::vector<Tensor>& inputs) {
    int64_t steps = inputs[0].size(in_axes[0]).value("Scan");
    for (size_t k = 0; k < scanned; ++k)
      if (!(inputs[k].size(in_axes[k]) == steps))
        op.fail("its inputs have " + std::to_string(steps) + " and " + to_string(inputs[k].size(in_axes[k])) +
                " slices");
    std::vector<std::vector<Tensor>> collected(outputs);
    for (int64_t t = 0; t < steps; ++t) {
      Values arguments = state;
      for (size_t k = 0; k < scanned; ++k)
        arguments.emplace_back(
            inputs[k].narrow(in_axes[k], in_ways[k] ? steps - 1 - t : t, 1).squeeze(in_axes[k]));
      Values results = op.importer.run_body(body, arguments);
      for (size_t k = 0; k < states; ++k) state[k] = results[k];
      for (size_t k = 0; k < outputs; ++k) {
        const Tensor& slice = slice_of(op, results, states + k);
        if (out_ways[k])
          collected[k].insert(collected[k].begin(), slice);
        else
          collected[k].push_back(slice);
      }
    }
    Values first_arguments = state;
    for (size_t k = 0; k < scanned && steps == 0; ++k) {
      Shape slice = inputs[k].shape();
      slice.erase(slice.begin() + (in_axes[k] < 0 ? in_axes[k] + inputs[k].rank() : in_axes[k]));
      first_arguments.emplace_back(Tensor::zeros(slice, inputs[k].dtype()));
    }
    for (size_t k = 0; k < outputs; ++k)
      state.emplace_back(scan_result(op, collected[k], out_axes[k], body, states + k, first_arguments));
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
