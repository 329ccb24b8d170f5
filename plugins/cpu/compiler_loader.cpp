#include "compiler_loader.h"

#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <mutex>

namespace tolk_cpu {
namespace {

std::string folder_of_this_library() {
  static const char anchor = 0;
  Dl_info info;
  if (!dladdr(&anchor, &info) || !info.dli_fname) return {};
  std::unique_ptr<char, decltype(&std::free)> real(realpath(info.dli_fname, nullptr), &std::free);
  std::string path = real ? real.get() : "";
  return path.substr(0, path.rfind('/') + 1);
}

} // namespace

const tolk_cpu_compiler* open_compiler(std::string& error) {
  static std::mutex lock;
  static const tolk_cpu_compiler* compiler = nullptr;
  std::lock_guard guard(lock);
  if (compiler) return compiler;
  std::string folder = folder_of_this_library();
  if (folder.empty()) {
    error = "the folder of the CPU plugin is not known";
    return nullptr;
  }
  std::string path = folder + "cpu/libtolk-cpu-compiler.so";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    error = dlerror();
    return nullptr;
  }
  auto entry = reinterpret_cast<tolk_cpu_compiler_fn>(dlsym(library, TOLK_CPU_COMPILER_SYMBOL));
  const tolk_cpu_compiler* found = entry ? entry() : nullptr;
  if (!found || found->version != TOLK_CPU_COMPILER_VERSION) {
    error = path + " belongs to another build of the CPU plugin";
    return nullptr;
  }
  compiler = found;
  return compiler;
}

} // namespace tolk_cpu
