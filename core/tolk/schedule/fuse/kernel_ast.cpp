#include "tolk/schedule/fuse/kernel_ast.h"

#include <unordered_map>
#include <vector>

#include "tolk/uop/build.h"

namespace tolk::schedule {

std::vector<UOp> KernelAst::kernel_call(const UOp& target, const UOp& index, const UOp& value,
                                        std::span<const UOp> loops) {
  std::vector<UOp> arguments{{}};
  std::unordered_map<const UOpNode*, UOp> params, axes;
  auto param = [&](const UOp& storage) {
    UOp& known = params[storage.node()];
    if (!known) {
      known = param_node(int64_t(arguments.size()) - 1, storage.dtype(), elements_of(storage));
      arguments.push_back(storage);
    }
    return known;
  };
  auto axis = [&](const UOp& loop) {
    UOp& known = axes[loop.node()];
    if (!known) known = range_node(loop.src(0), int64_t(axes.size()) - 1, axis_type(loop));
    return known;
  };
  // A REDUCE names its loops before its value does: outer loops come before inner ones.
  auto enter = [&](const UOp& u) -> UOp {
    if (u.is(ops::Storage)) return param(u);
    if (u.is(Op::RANGE)) return axis(u);
    if (u.is(Op::REDUCE))
      for (size_t i = 1; i < u.nsrc(); ++i) axis(u.src(i));
    return {};
  };
  rebuilder_.start();
  UOp out = param(target);
  std::vector<UOp> result_loops;
  for (const UOp& loop : loops) result_loops.push_back(axis(loop));
  UOp at = rebuilder_.run(index, enter), stored = rebuilder_.run(value, enter);
  UOp effect = end(store(out, at, stored), result_loops);
  arguments[0] = kernel_sink(std::span(&effect, 1));
  return arguments;
}

} // namespace tolk::schedule
