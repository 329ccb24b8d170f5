// Context for an error at a border that knows more: a file, a node, what was assumed.
#pragma once

#include <string>

#include "tolk/base/api.h"

namespace tolk {

// Within a catch block: throws the leaf of Error that was caught with text before and after its own; anything
// else as it is.
[[noreturn]] TOLK_API void rethrow_with(const std::string& before, const std::string& after = {});

} // namespace tolk
