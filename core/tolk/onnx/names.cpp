#include "tolk/onnx/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "tolk/io/place.h"

namespace tolk::onnx {
namespace {

using Names = std::unordered_set<std::string_view>;

// The names visible in a graph: its own and those of the graphs around it.
struct Scope {
  const Scope* outer = nullptr;
  Names names;

  bool sees(std::string_view name) const {
    for (const Scope* s = this; s; s = s->outer)
      if (s->names.contains(name)) return true;
    return false;
  }
};

class Settler {
public:
  explicit Settler(const std::string& path) : root_{nullptr, path} {}

  // `where` names the graph or function in errors.
  void settle(std::vector<Node>& nodes, Scope& scope, const std::string& where) {
    order(nodes, scope, where);
    for (Node& node : nodes) {
      check_reads(node, scope);
      settle_bodies(node, scope);
      for (const std::string& output : node.outputs) {
        if (output.empty()) continue;
        if (!scope.names.insert(output).second)
          fail(node, fmt::format("\"{}\" is defined before already", output));
      }
    }
  }

  void settle(Graph& graph, const Scope* outer, const std::string& where) {
    Scope scope;
    scope.outer = outer;
    for (const ValueInfo& input : graph.inputs)
      if (!scope.names.insert(input.name).second)
        fail(where, fmt::format("two inputs have the name \"{}\"", input.name));
    for (const auto& [name, tensor] : graph.initializers) scope.names.insert(name);
    settle(graph.nodes, scope, where);
    for (const ValueInfo& output : graph.outputs)
      if (!scope.sees(output.name))
        fail(where, fmt::format("nothing defines the output \"{}\"", output.name));
  }

  [[noreturn]] void fail(const std::string& where, const std::string& what) const {
    io::fail_at(root_.at(where), what);
  }

private:
  [[noreturn]] void fail(const Node& node, const std::string& what) const { fail(node.describe(), what); }

  void check_reads(const Node& node, const Scope& scope) const {
    for (const std::string& input : node.inputs)
      if (!input.empty() && !scope.sees(input))
        fail(node, fmt::format("nothing defines the input \"{}\"", input));
  }

  void settle_bodies(Node& node, const Scope& scope) {
    for (Attribute& attribute : node.attributes) {
      std::string where = fmt::format("{} {}", node.describe(), attribute.name);
      if (auto* body = std::get_if<std::shared_ptr<const Graph>>(&attribute.data))
        settle_body(*body, scope, where);
      if (auto* bodies = std::get_if<Attribute::Graphs>(&attribute.data))
        for (auto& body : *bodies) settle_body(body, scope, where);
    }
  }

  // The graph was read a moment ago and is not shared yet.
  void settle_body(std::shared_ptr<const Graph>& body, const Scope& scope, const std::string& where) {
    settle(const_cast<Graph&>(*body), &scope, where);
  }

  // Names that a node reads, its bodies' included, as far as they come from outside.
  static void reads(const Node& node, std::vector<std::string_view>& into) {
    for (const std::string& input : node.inputs) into.push_back(input);
    for (const Attribute& attribute : node.attributes) {
      if (auto* body = std::get_if<std::shared_ptr<const Graph>>(&attribute.data)) body_reads(**body, into);
      if (auto* bodies = std::get_if<Attribute::Graphs>(&attribute.data))
        for (const auto& body : *bodies) body_reads(*body, into);
    }
  }

  static void body_reads(const Graph& body, std::vector<std::string_view>& into) {
    size_t start = into.size();
    Names own;
    for (const ValueInfo& input : body.inputs) own.insert(input.name);
    for (const auto& [name, tensor] : body.initializers) own.insert(name);
    for (const Node& inner : body.nodes) {
      own.insert(inner.outputs.begin(), inner.outputs.end());
      reads(inner, into);
    }
    for (const ValueInfo& output : body.outputs) into.push_back(output.name);
    auto first = into.begin() + static_cast<std::ptrdiff_t>(start);
    into.erase(std::remove_if(first, into.end(), [&](std::string_view name) { return own.contains(name); }),
               into.end());
  }

  // Sorts the nodes when one of them reads what a later one defines.
  void order(std::vector<Node>& nodes, const Scope& scope, const std::string& where) const {
    std::unordered_map<std::string_view, size_t> maker;
    for (size_t i = 0; i < nodes.size(); ++i)
      for (const std::string& output : nodes[i].outputs)
        if (!output.empty() && !scope.names.contains(output)) maker.emplace(output, i);

    std::vector<std::vector<size_t>> users(nodes.size());
    std::vector<size_t> waits(nodes.size(), 0);
    bool sorted = true;
    std::vector<std::string_view> wanted;
    for (size_t i = 0; i < nodes.size(); ++i) {
      wanted.clear();
      reads(nodes[i], wanted);
      for (std::string_view name : wanted) {
        auto it = maker.find(name);
        if (it == maker.end() || it->second == i) continue;
        users[it->second].push_back(i);
        ++waits[i];
        sorted = sorted && it->second < i;
      }
    }
    if (sorted) return;

    std::deque<size_t> ready;
    for (size_t i = 0; i < nodes.size(); ++i)
      if (waits[i] == 0) ready.push_back(i);
    std::vector<size_t> sequence;
    while (!ready.empty()) {
      size_t i = ready.front();
      ready.pop_front();
      sequence.push_back(i);
      for (size_t user : users[i])
        if (--waits[user] == 0) ready.push_back(user);
    }
    if (sequence.size() != nodes.size()) {
      auto stuck = std::ranges::find_if(waits, [](size_t n) { return n > 0; });
      fail(nodes[static_cast<size_t>(stuck - waits.begin())],
           fmt::format("the node waits for its own result (a cycle in {})", where));
    }
    std::vector<Node> arranged;
    arranged.reserve(nodes.size());
    for (size_t i : sequence) arranged.push_back(std::move(nodes[i]));
    nodes = std::move(arranged);
  }

  io::Place root_;
};

} // namespace

void settle_names(ModelFile& model) {
  Settler settler(model.path);
  settler.settle(model.graph, nullptr, "graph");
  for (size_t i = 0; i < model.functions.size(); ++i) {
    Function& function = model.functions[i];
    std::string where = fmt::format("functions[{}] \"{}\"", i, function.name);
    Scope scope;
    for (const std::string& input : function.inputs) scope.names.insert(input);
    settler.settle(function.nodes, scope, where);
    for (const std::string& output : function.outputs)
      if (!scope.sees(output)) settler.fail(where, fmt::format("nothing defines the output \"{}\"", output));
  }
}

} // namespace tolk::onnx
