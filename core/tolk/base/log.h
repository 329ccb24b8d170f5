// All output of the library goes through here, to standard error. Warnings and errors are always on; the rest
// is cumulative with DEBUG: 1 devices and plugin choices, 2 a line per kernel, 3 opts and planner, 4 source,
// 5 kernel IR, 6 graphs after each pass, 7 every rewrite.
#pragma once

#include <string_view>

#include "tolk/base/api.h"

namespace tolk::log {

TOLK_API void error(std::string_view text);
TOLK_API void warning(std::string_view text);
// Each distinct text once per process.
TOLK_API void warning_once(std::string_view text);
// A line of TOLK_LAYERS=trace; always printed.
TOLK_API void trace(std::string_view text);
// Printed when DEBUG >= level; ask `enabled` before building an expensive text.
TOLK_API void debug(int level, std::string_view text);
TOLK_API bool enabled(int level);
TOLK_API void flush();

} // namespace tolk::log
