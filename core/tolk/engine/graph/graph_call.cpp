#include "tolk/engine/graph/graph_call.h"

#include "tolk/base/error.h"
#include "tolk/uop/build.h"

namespace tolk::engine {
namespace {

const std::string kGraph = "graph";

} // namespace

GraphCall::~GraphCall() = default;

bool is_graph_call(const UOp& call) {
  return call.is(Op::CALL) && call.src(0).is(Op::CUSTOM_FUNCTION) && call.src(0).nsrc() == 1 &&
         call.src(0).src(0).is(Op::LINEAR) && call.src(0).arg().text() == kGraph;
}

UOp graph_call(std::span<const UOp> calls, std::span<const UOp> params) {
  UOp body = make(Op::CUSTOM_FUNCTION, DType::Void, {linear(calls)}, Arg({}, {kGraph}));
  return call(body, params);
}

const UOp& graph_linear(const UOp& call) {
  TOLK_CHECK(is_graph_call(call), "only a graph call has a LINEAR inside");
  return call.src(0).src(0);
}

} // namespace tolk::engine
