// Opens the compiler library, which lies in the folder "cpu" beside the plugin.
#pragma once

#include <string>

#include "compiler_api.h"

namespace tolk_cpu {

// The library's table; opened at the first call and kept. nullptr with the reason in `error` when it cannot be opened, when
// others than root, the user and the plugin's owner could have written it, or when it belongs to another build; a later call
// tries again. Thread-safe.
const tolk_cpu_compiler* open_compiler(std::string& error);

} // namespace tolk_cpu
