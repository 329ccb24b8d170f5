// --replay: repeats what TOLK_LAYERS=record=FILE wrote.
#pragma once

#include <string>

#include "options.h"

namespace tolk::run {

struct ReplayOutcome {
  std::string text; // what to print, or one JSON object with --json
  bool same = true; // every comparison gave the recorded bytes
};

// Repeats the recording options.model on the device of `options`, else on the default one. A recording that breaks off, as a
// crash leaves it, is repeated as far as it goes. Throws FormatError for a damaged file, InvalidArgument when it has no call
// of the device's plugin, DeviceError when a call fails that had succeeded.
ReplayOutcome replay_file(const Options& options);

} // namespace tolk::run
