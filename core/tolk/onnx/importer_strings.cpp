// Operators that move elements, on strings: each string stands as its rank among all of the node's, the operator moves
// the ranks, and the results are read back. Ranks keep order and equality, and the empty string, which padding and
// masking leave behind, has rank 0.
#include <algorithm>
#include <map>
#include <set>

#include "tolk/base/error.h"
#include "tolk/onnx/ops_text.h"

namespace tolk::onnx {
namespace {

using Values = std::vector<GraphValue>;

// Operators that move elements: the inputs with elements ("*": all), and the results that hold them.
enum class Moved { First, All, None };
struct Mover {
  std::string_view inputs;
  Moved results;
  bool takes(size_t input) const {
    return inputs == "*" || inputs.find(char('0' + input)) != std::string_view::npos;
  }
};
const std::map<std::string_view, Mover>& movers() {
  static const std::map<std::string_view, Mover> names = {
      {"ArrayFeatureExtractor", {"0", Moved::First}},
      {"CenterCropPad", {"0", Moved::First}},
      {"Compress", {"0", Moved::First}},
      {"Concat", {"*", Moved::First}},
      {"ConcatFromSequence", {"0", Moved::First}},
      {"DepthToSpace", {"0", Moved::First}},
      {"Expand", {"0", Moved::First}},
      {"Flatten", {"0", Moved::First}},
      {"Gather", {"0", Moved::First}},
      {"GatherElements", {"0", Moved::First}},
      {"GatherND", {"0", Moved::First}},
      {"NonZero", {"0", Moved::None}},
      {"OneHot", {"2", Moved::First}},
      {"Pad", {"02", Moved::First}},
      {"Reshape", {"0", Moved::First}},
      {"ReverseSequence", {"0", Moved::First}},
      {"Scatter", {"02", Moved::First}},
      {"ScatterElements", {"02", Moved::First}},
      {"ScatterND", {"02", Moved::First}},
      {"Slice", {"0", Moved::First}},
      {"SpaceToDepth", {"0", Moved::First}},
      {"Split", {"0", Moved::All}},
      {"SplitToSequence", {"0", Moved::First}},
      {"Squeeze", {"0", Moved::First}},
      {"Tile", {"0", Moved::First}},
      {"Transpose", {"0", Moved::First}},
      {"Trilu", {"0", Moved::First}},
      {"Unique", {"0", Moved::First}},
      {"Unsqueeze", {"0", Moved::First}},
      {"Where", {"12", Moved::First}},
  };
  return names;
}

bool holds_text(const GraphValue& v) { return v.is_string() || std::ranges::any_of(v.items, holds_text); }

void collect(const GraphValue& v, std::set<std::string>& all) {
  if (v.is_string()) all.insert(v.host->strings.begin(), v.host->strings.end());
  for (const GraphValue& item : v.items) collect(item, all);
}

GraphValue ranks_of(const GraphValue& v, const std::vector<std::string>& sorted, const std::string& device) {
  GraphValue out = v;
  for (GraphValue& item : out.items) item = ranks_of(item, sorted, device);
  if (!v.is_string()) return out;
  std::vector<int64_t> ranks;
  for (const std::string& s : v.host->strings)
    ranks.push_back(std::ranges::lower_bound(sorted, s) - sorted.begin());
  io::HostTensor numbers = io::tensor_of(DType::I64, v.host->shape, ranks);
  out = GraphValue(io::HostTensor(numbers));
  out.tensor = tensor_from(numbers, device);
  return out;
}

GraphValue text_of_ranks(OpCall& op, const GraphValue& v, const std::vector<std::string>& sorted) {
  GraphValue out = v;
  for (GraphValue& item : out.items) item = text_of_ranks(op, item, sorted);
  if (!v.tensor.defined()) return out;
  io::Shape shape;
  for (const SInt& n : v.tensor.shape()) shape.push_back(n.value("a tensor of strings"));
  std::vector<std::string> strings;
  if (io::element_count(shape).value_or(0) > 0)
    for (int64_t rank : op.importer.ints(v.tensor)) strings.push_back(sorted.at(size_t(rank)));
  return GraphValue(io::string_tensor(shape, std::move(strings)));
}

} // namespace

bool moves_text(const OpCall& op) {
  auto mover = movers().find(op.node.op_type);
  if (mover == movers().end()) return false;
  for (size_t i = 0; i < op.count(); ++i)
    if (mover->second.takes(i) && op.has(i) && holds_text(op.value(i))) return true;
  return false;
}

Values moved_text(OpCall& op, OpFunction function) {
  if (op.node.text("reduction", "none") != "none") op.fail("strings have no reduction");
  const Mover& mover = movers().at(op.node.op_type);
  auto moved = [&](size_t i) { return mover.takes(i) && op.has(i); };
  std::set<std::string> all{""};
  for (size_t i = 0; i < op.count(); ++i)
    if (moved(i)) collect(op.value(i), all);
  std::vector<std::string> sorted(all.begin(), all.end());
  Values ranks(op.count());
  std::vector<const GraphValue*> inputs(op.count(), nullptr);
  for (size_t i = 0; i < op.count(); ++i) {
    if (moved(i)) ranks[i] = ranks_of(op.value(i), sorted, op.importer.device());
    if (op.has(i)) inputs[i] = moved(i) ? &ranks[i] : &op.value(i);
  }
  OpCall call(op.importer, op.node, op.opset, std::move(inputs));
  Values results = function(call);
  for (size_t i = 0; i < results.size(); ++i)
    if (mover.results == Moved::All || (mover.results == Moved::First && i == 0))
      results[i] = text_of_ranks(op, results[i], sorted);
  return results;
}

} // namespace tolk::onnx
