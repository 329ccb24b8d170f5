// All output of the library; it goes to standard error. Errors and warnings are always printed. DEBUG levels are
// cumulative: 1 devices and plugins, 2 a line per kernel, 3 opts and memory planner, 4 source code, 5 kernel IR,
// 6 graphs after each pass, 7 every rewrite.
#pragma once

#include <string_view>

#include "tolk/base/api.h"

namespace tolk::log {

TOLK_API void error(std::string_view text);
TOLK_API void warning(std::string_view text);
// Prints each distinct message once per process.
TOLK_API void warning_once(std::string_view text);
// Prints a line of TOLK_LAYERS=trace, at any DEBUG level.
TOLK_API void trace(std::string_view text);
// Prints if DEBUG >= level; check `enabled` before building an expensive message.
TOLK_API void debug(int level, std::string_view text);
TOLK_API bool enabled(int level);
TOLK_API void flush();

} // namespace tolk::log
