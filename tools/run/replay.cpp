#include "replay.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "run_model.h"
#include "tolk/device/registry.h"
#include "tolk/device/replay.h"

namespace tolk::run {

ReplayOutcome replay_file(const Options& options) {
  set_up_devices(options);
  Device& on = device(options.device.empty() ? default_device() : options.device);
  const Replay replay = replay_recording(options.model, on, {.incomplete = true});
  ReplayOutcome outcome;
  outcome.same = replay.different == 0;
  if (options.json) {
    nlohmann::ordered_json json = {
        {"recording", options.model},    {"device", on.name()},
        {"calls", replay.calls},         {"compared", replay.compared},
        {"different", replay.different}, {"first_difference", replay.first_difference},
        {"missing", replay.missing}};
    outcome.text = json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    return outcome;
  }
  outcome.text = fmt::format("{} on {}: {} calls repeated, {} comparisons, {} different\n", options.model,
                             on.name(), replay.calls, replay.compared, replay.different);
  if (!outcome.same) outcome.text += fmt::format("first difference: {}\n", replay.first_difference);
  if (!replay.missing.empty()) outcome.text += fmt::format("note: {}\n", replay.missing);
  return outcome;
}

} // namespace tolk::run
