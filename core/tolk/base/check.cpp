#include "tolk/base/check.h"

#include <string>

#include "tolk/base/error.h"

namespace tolk::detail {

void check_failed(const char* expression, const char* file, int line, const char* text) {
  std::string name = file;
  if (auto slash = name.rfind('/'); slash != std::string::npos) name = name.substr(slash + 1);
  throw InternalError(std::string(text) + " (" + expression + " failed at " + name + ":" +
                      std::to_string(line) + ")");
}

} // namespace tolk::detail
