#include "tolk/uop/spec.h"

#include <algorithm>
#include <unordered_set>

#include "tolk/base/error.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"
#include "tolk/uop/spec_internal.h"
#include "tolk/uop/traverse.h"

namespace tolk {
namespace {

using namespace spec;

constexpr OpSet kIndexLeaves(Op::CONST, Op::VAR, Op::BIND);
constexpr OpSet kCallBodies(Op::SINK, Op::PROGRAM, Op::COPY, Op::SLICE, Op::LINEAR, Op::CUSTOM_FUNCTION);

void check_rules(const UOp& u, const std::vector<spec::Rule>& rules, Stage stage) {
  for (const spec::Rule& rule : rules)
    if (rule.ops.has(u.op()) && !rule.check(u)) broken(stage, rule.name, rule.message, u);
}

const std::vector<spec::Rule>& own_rules(Stage stage) {
  switch (stage) {
  case Stage::TensorGraph:
    return tensor_rules();
  case Stage::KernelGraph:
    return kernel_graph_rules();
  case Stage::Kernel:
    return kernel_rules();
  case Stage::Lowered:
    break;
  }
  return lowered_rules();
}

// Every node once, calls first: a call with a wrong argument is a better report than the argument. Bodies of
// calls are graphs of their own.
std::vector<UOp> outside_bodies(const UOp& root) {
  struct Frame {
    UOp node;
    size_t next;
  };
  auto first = [](const UOp& u) { return size_t(u.is(Op::CALL)); };
  std::vector<UOp> order;
  std::unordered_set<const UOpNode*> seen{root.node()};
  std::vector<Frame> stack{{root, first(root)}};
  while (!stack.empty()) {
    Frame& top = stack.back();
    if (top.next == top.node.nsrc()) {
      order.push_back(std::move(top.node));
      stack.pop_back();
    } else if (UOp s = top.node.src(top.next++); seen.insert(s.node()).second) {
      stack.push_back({s, first(s)});
    }
  }
  std::ranges::stable_partition(order, [](const UOp& u) { return u.is(Op::CALL); });
  return order;
}

} // namespace

const char* name(Stage stage) {
  static constexpr const char* names[] = {"tensor graph", "kernel graph", "kernel", "lowered kernel"};
  return names[int(stage)];
}

namespace spec {

void broken(Stage stage, const char* rule, const char* message, const UOp& node) {
  throw InternalError(std::string(name(stage)) + " breaks the rule " + rule + ": " + message + "; found " +
                      print_line(node));
}

OpSet admitted(Stage stage) {
  OpSet structure(Op::SINK, Op::CALL, Op::LINEAR, Op::PROGRAM, Op::CUSTOM_FUNCTION, Op::COPY);
  switch (stage) {
  case Stage::TensorGraph:
    return kIndexLeaves | ops::Elementwise | ops::Movement | structure |
           OpSet(Op::BUFFER, Op::PARAM, Op::SLICE, Op::IOTA, Op::GATHER, Op::REDUCE_AXIS, Op::STORE,
                 Op::AFTER) |
           OpSet(Op::CONTIGUOUS, Op::DETACH, Op::CONTIGUOUS_BACKWARD, Op::FUNCTION, Op::MULTI, Op::MSELECT,
                 Op::MSTACK, Op::ALLREDUCE);
  case Stage::KernelGraph:
    return kIndexLeaves | structure |
           OpSet(Op::BUFFER, Op::PARAM, Op::SLICE, Op::MSELECT, Op::MSTACK, Op::CAST) | ops::Elementwise;
  case Stage::Kernel:
    return ops::Elementwise |
           OpSet(Op::CONST, Op::VAR, Op::RANGE, Op::SPECIAL, Op::PARAM, Op::DEFINE_LOCAL, Op::DEFINE_REG) |
           OpSet(Op::LOAD, Op::STORE, Op::REDUCE, Op::END, Op::SINK, Op::AFTER, Op::BARRIER);
  case Stage::Lowered:
    break;
  }
  return ops::Elementwise |
         OpSet(Op::CONST, Op::VAR, Op::RANGE, Op::SPECIAL, Op::PARAM, Op::DEFINE_LOCAL, Op::DEFINE_REG) |
         OpSet(Op::LOAD, Op::STORE, Op::END, Op::SINK, Op::AFTER, Op::BARRIER, Op::SPLAT, Op::STACK,
               Op::EXTRACT);
}

} // namespace spec

void verify(const UOp& root, Stage stage) {
  TOLK_CHECK(root, "there is no graph to verify");
  bool kernel = stage == Stage::Kernel || stage == Stage::Lowered;
  std::vector<UOp> order = kernel ? toposort(root) : outside_bodies(root);
  OpSet allowed = admitted(stage);
  std::vector<UOp> bodies;
  std::unordered_set<const UOpNode*> seen_bodies;
  for (const UOp& u : order) {
    if (!allowed.has(u.op())) broken(stage, "admitted_ops", "this op does not occur at this stage", u);
    check_rules(u, shared_rules(), stage);
    check_rules(u, own_rules(stage), stage);
    if (!u.is(Op::CALL)) continue;
    if (!kCallBodies.has(u.src(0).op()))
      broken(stage, "call_body", "a body is SINK, PROGRAM, COPY, SLICE, LINEAR or CUSTOM_FUNCTION", u);
    if (u.src(0).is(Op::SINK) && seen_bodies.insert(u.src(0).node()).second) bodies.push_back(u.src(0));
  }
  if (stage == Stage::KernelGraph && !root.is(Op::LINEAR)) broken(stage, "root", "the root is LINEAR", root);
  if (kernel && !root.is(Op::SINK)) broken(stage, "root", "the root is SINK", root);
  if (kernel) verify_loops(order, stage);
  // In a graph of tensors a body may be one, too.
  for (const UOp& body : bodies)
    verify(body, stage == Stage::TensorGraph && body.arg() == Arg() ? stage : Stage::Kernel);
}

} // namespace tolk
