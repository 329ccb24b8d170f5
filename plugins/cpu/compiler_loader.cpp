#include "compiler_loader.h"

#include <dlfcn.h>

#include <mutex>
#include <optional>

#include <tolk/plugin/trusted_library.hpp>

namespace tolk_cpu {
namespace {

// The file of this plugin.
tolk::PinnedLibrary this_library() {
  static const char anchor = 0;
  Dl_info info;
  const bool known = dladdr(&anchor, &info) && info.dli_fname;
  return tolk::PinnedLibrary(known ? info.dli_fname : "", tolk::Trust::Unchecked);
}

} // namespace

const tolk_cpu_compiler* open_compiler(std::string& error) {
  static std::mutex lock;
  static const tolk_cpu_compiler* compiler = nullptr;
  std::lock_guard guard(lock);
  if (compiler) return compiler;
  static std::optional<tolk::PinnedLibrary> pinned; // for as long as the library is loaded
  const tolk::PinnedLibrary self = this_library();
  if (!self.problem().empty()) {
    error = "the folder of the CPU plugin is not known: " + self.problem();
    return nullptr;
  }
  const std::string path = self.path().substr(0, self.path().rfind('/') + 1) + "cpu/libtolk-cpu-compiler.so";
  // Whoever owns the plugin can run code here already.
  pinned.emplace(path, tolk::Trust::Checked, self.status().st_uid, "the CPU plugin");
  if (!pinned->problem().empty()) {
    error = path + ": " + pinned->problem();
    return nullptr;
  }
  void* library = dlopen(pinned->loader_path().c_str(), RTLD_NOW | RTLD_LOCAL);
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
