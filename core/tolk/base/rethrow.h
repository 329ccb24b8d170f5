// Adds context to an exception where more is known: the file, the node, an assumption.
#pragma once

#include <string>

#include "tolk/base/api.h"

namespace tolk {

// Call in a catch block: rethrows a tolk::Error as the same class with `before` and `after` around its message;
// rethrows any other exception unchanged.
[[noreturn]] TOLK_API void rethrow_with(const std::string& before, const std::string& after = {});

} // namespace tolk
