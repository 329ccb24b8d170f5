// The one place where the launcher meets the engine.
#pragma once

#include "loaded_model.h"
#include "options.h"
#include "progress.h"

namespace tolk::run {

// Plugins and plugin options of the command line; before anything asks for a device. Throws PluginError,
// InvalidArgument.
void set_up_devices(const Options& options);

// Loads models through the engine, on the device of `options`. Both arguments must outlive the models. A list
// of devices, there or in DEVICE=, is refused.
Loader engine_loader(const Options& options, Progress& progress);

// Warns of environment variables that mean nothing, or nothing yet.
void warn_unknown_variables();

// Whether the device's kernels leave their outputs as they were.
bool computes_nothing(const std::string& device);

// Closes devices and plugins in order; before main returns.
void shut_down();

} // namespace tolk::run
