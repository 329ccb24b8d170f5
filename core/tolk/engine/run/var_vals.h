// Values of symbolic variables by name, for one run.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace tolk::engine {

using VarVals = std::map<std::string, int64_t>;

} // namespace tolk::engine
