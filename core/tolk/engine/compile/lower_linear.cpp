#include "tolk/engine/compile/lower_linear.h"

#include "tolk/engine/compile/view_limits.h"
#include "tolk/engine/graph/batch_graphs.h"
#include "tolk/engine/run/calls.h"
#include "tolk/schedule/memory/memory_plan.h"

namespace tolk::engine {

Lowered lower_linear(Device& ambient, const UOp& scheduled, const LowerOptions& options) {
  UOp linear = compile_linear(ambient, options.to_program, scheduled, options.beam, options.progress,
                              options.compiled);
  if (options.prune) linear = options.prune(linear);
  if (options.parametrize) linear = options.parametrize(linear);
  if (options.held) {
    std::vector<std::string> devices = devices_of(linear);
    linear =
        schedule::plan_memory(linear, options.held(), nullptr, view_limits({devices.begin(), devices.end()}));
  }
  return {linear, options.batch ? batch_graphs(ambient, linear) : linear};
}

} // namespace tolk::engine
