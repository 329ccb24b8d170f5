// Files with the data that a program computes on: recordings, traces, profiles.
#pragma once

#include <fstream>
#include <string>

#include "tolk/base/api.h"

namespace tolk {

// The file, empty and open for writing bytes. One that did not exist is readable by its owner only, whatever the umask; one
// that did keeps its mode. The stream is not good() when that fails.
TOLK_API std::ofstream private_file(const std::string& path);

} // namespace tolk
