#include "tolk/schedule/fuse/fusion_graph.h"

#include <algorithm>

#include "tolk/base/error.h"
#include "tolk/schedule/fuse/cost.h"
#include "tolk/schedule/tensor/placement.h"
#include "tolk/schedule/tensor/views.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"
#include "tolk/uop/traverse.h"

namespace tolk::schedule {
namespace {

constexpr OpSet kShuffles(Op::RESHAPE, Op::PERMUTE, Op::FLIP, Op::EXPAND);

Kind kind_of(const UOp& u) {
  if (u.is(ops::Storage)) return Kind::Storage;
  if (u.is(Op::CONST) || u.dtype() == DType::Index) return Kind::Constant;
  if (u.is(ops::Elementwise)) return Kind::Elementwise;
  if (u.is(ops::Movement)) return Kind::Movement;
  switch (u.op()) {
  case Op::IOTA:
    return Kind::Iota;
  case Op::GATHER:
    return Kind::Gather;
  case Op::REDUCE_AXIS:
    return Kind::Reduce;
  case Op::AFTER:
    return Kind::After;
  case Op::STORE:
    return Kind::Store;
  case Op::CONTIGUOUS:
    return Kind::Contiguous;
  case Op::COPY:
    return Kind::Copy;
  case Op::MSELECT:
    return Kind::Select;
  case Op::MSTACK:
    return Kind::Stack;
  default:
    throw InvalidArgument("cannot schedule " + describe(u) + ": not an operation of the tensor graph");
  }
}

// Sources that hold data, as opposed to sizes.
std::span<const UOp> data_of(const UOp& u, Kind kind) {
  switch (kind) {
  case Kind::Storage:
  case Kind::Constant:
  case Kind::Iota:
    return {};
  case Kind::Movement:
    return u.src().first(1);
  default:
    return u.src();
  }
}

class Builder {
public:
  explicit Builder(const Canonical& canonical) : canonical_(canonical), stored_(canonical.stored) {}

  Graph run() {
    for (const UOp& root : canonical_.roots)
      if (!viewed_storage(root) && max_numel(shape_of(root)) > 0) stored_.insert(base_of(root));
    for (const UOp& root : canonical_.roots) walk(root);
    for (const UOp& root : canonical_.roots) add_root(root);
    list_users();
    return std::move(graph_);
  }

private:
  // What is stored for a computed root: the value below views that any reader can apply.
  UOp base_of(const UOp& root) const {
    UOp base = root;
    while (base.is(kShuffles) && !canonical_.stored.contains(base)) base = base.src(0);
    return base;
  }

  void walk(const UOp& root) {
    struct Frame {
      UOp u;
      uint32_t next = 0;
    };
    std::vector<Frame> stack;
    auto visit = [&](const UOp& u) {
      if (seen_.find(u)) return;
      seen_.set(u, 1);
      stack.push_back({u});
    };
    visit(root);
    while (!stack.empty()) {
      UOp u = stack.back().u;
      std::span<const UOp> data = data_of(u, kind_of(u));
      uint32_t& next = stack.back().next;
      if (next < data.size()) {
        const UOp& s = data[next++];
        if (s.dtype() != DType::Index) visit(s);
        continue;
      }
      stack.pop_back();
      add(u);
    }
  }

  void add(const UOp& u) {
    Node node;
    node.u = u;
    node.kind = kind_of(u);
    node.first = uint32_t(graph_.sources.size());
    for (const UOp& s : data_of(u, node.kind))
      if (s.dtype() != DType::Index) graph_.sources.push_back(*number_.find(s) - 1);
    node.count = uint32_t(graph_.sources.size()) - node.first;
    node.numel = u.dtype() == DType::Void ? max_numel(shape_of(u.src(0))) : max_numel(shape_of(u));
    node.stored = node.kind == Kind::Contiguous || node.kind == Kind::Copy || is_alias(node.kind) ||
                  stored_.contains(u);
    place(node);
    std::span<const int> sources{graph_.sources.data() + node.first, node.count};
    node.reads = node.kind == Kind::Storage;
    for (int s : sources) node.reads |= graph_.nodes[size_t(s)].reads;
    node.cost = element_cost(node, sources, graph_.nodes);
    node.contraction = node.kind == Kind::Reduce && is_contraction(u);
    node.contractions = node.contraction;
    for (int s : sources)
      if (const Node& source = graph_.nodes[size_t(s)]; !source.stored)
        node.contractions = std::min(node.contractions + source.contractions, 1000);
    graph_.nodes.push_back(std::move(node));
    number_.set(u, int(graph_.nodes.size()));
  }

  // The node's device, from its text or its sources, which must agree.
  void place(Node& node) {
    const std::string* own = nullptr;
    if (node.u.is(OpSet(Op::BUFFER, Op::PARAM, Op::COPY))) own = &device_text(node.u);
    if (node.u.is(Op::SLICE)) own = &device_text(node.u.src(0));
    if (is_alias(node.kind)) {
      node.device = device_number(alias_device(node));
      return;
    }
    int from = -1;
    const Node* first = nullptr;
    for (uint32_t i = 0; i < node.count; ++i) {
      const Node& source = graph_.nodes[size_t(graph_.sources[node.first + i])];
      int d = source.device;
      if (d < 0) continue;
      if (from >= 0 && from != d)
        refuse_devices(node.u, first->u, graph_.devices[size_t(from)], source.u, graph_.devices[size_t(d)]);
      from = d, first = &source;
    }
    node.device = own ? device_number(*own) : from;
    if (node.kind == Kind::Copy && from < 0) node.kind = Kind::Contiguous; // computed on the destination
  }

  // Of one position of the source's devices, or of all sources' together.
  std::string alias_device(const Node& node) const {
    std::vector<std::string> names;
    for (uint32_t i = 0; i < node.count; ++i) {
      int d = graph_.nodes[size_t(graph_.sources[node.first + i])].device;
      TOLK_CHECK(d >= 0, "what is selected or stacked has a device");
      names.push_back(graph_.devices[size_t(d)]);
    }
    if (node.kind == Kind::Select) {
      names = split_devices(names[0]);
      names = {names.at(size_t(position_of(node.u)))};
    }
    return join_devices(names);
  }

  int device_number(const std::string& name) {
    for (size_t i = 0; i < graph_.devices.size(); ++i)
      if (graph_.devices[i] == name) return int(i);
    graph_.devices.push_back(name);
    return int(graph_.devices.size()) - 1;
  }

  void add_root(const UOp& root) {
    Root out;
    if (max_numel(shape_of(root)) == 0) {
      out.view = root;
      out.empty = true;
    } else if (viewed_storage(root)) {
      out.view = plain_view(root);
    } else {
      UOp base = base_of(root);
      for (UOp at = root; at != base; at = at.src(0)) out.chain.push_back(at);
      std::reverse(out.chain.begin(), out.chain.end());
      out.node = *number_.find(base) - 1;
      if (Node& node = graph_.nodes[size_t(out.node)]; node.output < 0) {
        node.output = int(graph_.outputs.size());
        graph_.outputs.push_back(out.node);
      }
    }
    graph_.roots.push_back(std::move(out));
  }

  void list_users() {
    size_t n = graph_.nodes.size();
    graph_.first_user.assign(n + 1, 0);
    for (int s : graph_.sources) ++graph_.first_user[size_t(s) + 1];
    for (size_t i = 0; i < n; ++i) graph_.first_user[i + 1] += graph_.first_user[i];
    graph_.users.resize(graph_.sources.size());
    std::vector<uint32_t> at(graph_.first_user.begin(), graph_.first_user.end() - 1);
    for (size_t i = 0; i < n; ++i)
      for (int s : graph_.sources_of(int(i))) graph_.users[at[size_t(s)]++] = int(i);
    // A value that depends on no storage is computed where its first user needs it.
    for (size_t i = n; i-- > 0;)
      for (int u : graph_.users_of(int(i)))
        if (Node& node = graph_.nodes[i]; node.device < 0) node.device = graph_.nodes[size_t(u)].device;
  }

  const Canonical& canonical_;
  UOpSet stored_;
  Graph graph_;
  Memo<char> seen_;
  Memo<int> number_; // plus one
};

} // namespace

Graph build_graph(const Canonical& canonical) { return Builder(canonical).run(); }

} // namespace tolk::schedule
