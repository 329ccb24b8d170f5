// --env: every setting with its present value.
#pragma once

#include <string>

namespace tolk::run {

std::string environment_text();
std::string environment_json();

} // namespace tolk::run
