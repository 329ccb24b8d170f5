// What discover() found, for people and for programs.
#pragma once

#include <string>

#include "tolk/base/api.h"
#include "tolk/device/registry.h"

namespace tolk {

// The text of --list-devices: a line per device; `verbose` adds every folder and every candidate with its reason.
TOLK_API std::string format_report(const PluginReport& report, bool verbose);
// The same as one JSON object, always with everything.
TOLK_API std::string format_report_json(const PluginReport& report);

} // namespace tolk
