// TOLK_CHECK guards invariants of ours and throws InternalError; it stays on in release builds.
// A caller's mistake is reported with a sentence of its own: throw InvalidArgument(...) directly.
#pragma once

#include "tolk/base/api.h"

namespace tolk::detail {
[[noreturn]] TOLK_API void check_failed(const char* expression, const char* file, int line, const char* text);
} // namespace tolk::detail

#define TOLK_CHECK(condition, text)                                                                          \
  do {                                                                                                       \
    if (!(condition)) [[unlikely]]                                                                           \
      ::tolk::detail::check_failed(#condition, __FILE__, __LINE__, text);                                    \
  } while (false)

#define TOLK_UNREACHABLE(text) ::tolk::detail::check_failed("unreachable", __FILE__, __LINE__, text)
