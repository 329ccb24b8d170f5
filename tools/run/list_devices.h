// --list-devices: what plugins there are, and what they offer.
#pragma once

#include "options.h"

namespace tolk::run {

// The text or JSON of --list-devices. Throws DeviceError when --device names one that does not exist.
std::string device_list(const Options& options);

} // namespace tolk::run
