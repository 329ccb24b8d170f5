#include "list_devices.h"

#include "run_model.h"
#include "tolk/device/registry.h"
#include "tolk/device/report.h"

namespace tolk::run {

std::string device_list(const Options& options) {
  set_up_devices(options);
  PluginReport report = discover();
  std::string text = options.json ? format_report_json(report) : format_report(report, options.verbose);
  // Being asked about one device, its absence is an error with all reasons; otherwise an empty list is an
  // answer.
  if (!options.device.empty()) (void)device(options.device);
  return text;
}

} // namespace tolk::run
