// TOLK_CHECK tests internal invariants and throws InternalError; it stays on in release builds.
// For a mistake of the caller, throw InvalidArgument with a message instead.
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
