// HOST: plain host memory behind the same tables as every plugin, so that uploads and mapped weights are
// ordinary buffers. It has no targets and runs nothing.
#pragma once

#include <tolk/plugin/tolk_plugin.h>

namespace tolk {

const tolk_plugin* host_backend_table();

} // namespace tolk
