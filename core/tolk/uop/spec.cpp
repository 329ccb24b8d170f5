#include "tolk/uop/spec.h"

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
  // Bodies of calls are graphs of their own.
  auto enter = [stage](const UOp& u) {
    return stage == Stage::Kernel || stage == Stage::Lowered || !u.is(Op::CALL);
  };
  std::vector<UOp> order = toposort(root, enter);
  std::vector<UOp> arguments;
  for (const UOp& u : order)
    if (u.is(Op::CALL) && !enter(u)) arguments.insert(arguments.end(), u.src().begin() + 1, u.src().end());
  for (UOp& u : toposort(arguments)) order.push_back(std::move(u));
  OpSet allowed = admitted(stage);
  std::vector<UOp> bodies;
  for (const UOp& u : order) {
    if (!allowed.has(u.op())) broken(stage, "admitted_ops", "this op does not occur at this stage", u);
    check_rules(u, shared_rules(), stage);
    check_rules(u, own_rules(stage), stage);
    if (!u.is(Op::CALL)) continue;
    if (!kCallBodies.has(u.src(0).op()))
      broken(stage, "call_body", "a body is SINK, PROGRAM, COPY, SLICE, LINEAR or CUSTOM_FUNCTION", u);
    if (u.src(0).is(Op::SINK)) bodies.push_back(u.src(0));
  }
  if (stage == Stage::KernelGraph && !root.is(Op::LINEAR)) broken(stage, "root", "the root is LINEAR", root);
  if ((stage == Stage::Kernel || stage == Stage::Lowered) && !root.is(Op::SINK))
    broken(stage, "root", "the root is SINK", root);
  if (stage == Stage::Kernel || stage == Stage::Lowered) verify_loops(order, stage);
  for (const UOp& body : bodies) verify(body, Stage::Kernel);
}

} // namespace tolk
