// Cases that need a process of their own, because of what a process reads only once.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>

namespace tolk::test {

// Runs a disabled case of this program in another process, with more variables of the environment in front,
// as in "TOLK_CPU_THREADS=8 DEVICE=CPU". Whether it passed.
inline bool passes_in_another_process(const std::string& test, const std::string& variables) {
  std::string command = variables + " " + std::filesystem::read_symlink("/proc/self/exe").string() +
                        " --color_output=no --run_test=" + test + " --logger=HRF,error,stdout";
  return std::system(command.c_str()) == 0;
}

inline size_t threads_of_this_process() {
  std::filesystem::directory_iterator tasks("/proc/self/task");
  return size_t(std::distance(begin(tasks), end(tasks)));
}

} // namespace tolk::test
