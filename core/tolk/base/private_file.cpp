#include "tolk/base/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tolk {

std::ofstream private_file(const std::string& path) {
  const int made = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, S_IRUSR | S_IWUSR);
  std::ofstream file;
  if (made < 0) {
    file.setstate(std::ios::failbit);
    return file;
  }
  file.open(path, std::ios::binary | std::ios::out | std::ios::trunc);
  ::close(made);
  return file;
}

} // namespace tolk
