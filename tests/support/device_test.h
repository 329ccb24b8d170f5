// Shared by the device layer's tests: temporary folders, and where the test plugins are.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "thrown.h"
#include "tolk/base/config.h"
#include "tolk/device/registry.h"

namespace tolk::test {

inline std::string plugin_folder(const std::string& name) {
  return std::string(TOLK_TEST_PLUGINS) + "/" + name;
}
inline std::string plugin_file(const std::string& name) {
  return plugin_folder(name) + "/libtolk-backend-" + name + ".so";
}
inline std::string null_plugin_file() { return std::string(TOLK_PLUGIN_FOLDER) + "/libtolk-backend-null.so"; }

// A folder that goes away with the object.
class TemporaryFolder {
public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tolk-device-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

private:
  std::string path_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// Whether TOLK_TEST_SCATTER turns reuse off and makes blocks larger than what was asked for.
inline bool scattered() {
  std::string text = environment("TOLK_TEST_SCATTER");
  return !text.empty() && text != "0";
}

// Settings that look for plugins in these folders and, beside libtolk, nowhere else.
inline Config search_in(const std::string& plugin_path) {
  Config config;
  config.layers = Config::from_environment().layers; // TOLK_LAYERS=validate looks at these tests too
  config.plugin_path = plugin_path;
  config.no_user_plugins = 1;
  return config;
}

// Devices of the plugins that compute: INTERP, and CPU where it is built.
inline std::vector<Device*> computing_devices() {
  ScopedConfig scoped(search_in(TOLK_PLUGIN_FOLDER));
  std::vector<Device*> devices{&device("INTERP")};
#ifdef TOLK_TEST_HAS_CPU
  devices.push_back(&device("CPU"));
#endif
  return devices;
}

} // namespace tolk::test
