#include "tolk/schedule/schedule.h"

#include "tolk/base/config.h"
#include "tolk/schedule/lower.h"
#include "tolk/schedule/resolve.h"
#include "tolk/schedule/tensor/parametrize.h"
#include "tolk/uop/arena.h"

namespace tolk::schedule {

Schedule create_schedule(std::span<const UOp> roots, const Options& given) {
  Options options = given;
  const Config& config = Config::current();
  options.memory_plan &= config.no_memory_planner == 0;
  options.cache &= config.schedule_cache != 0;
  Arena arena;
  Parametrized call;
  std::shared_ptr<const Template> shared;
  {
    ArenaScope scope(&arena);
    call = parametrize(roots);
    shared = lower_sink_to_linear(call.body, options);
  }
  ArenaScope global(nullptr);
  return resolve(*shared, call);
}

} // namespace tolk::schedule
