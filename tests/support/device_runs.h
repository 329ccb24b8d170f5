// Runs a test's body once per device that computes: the CPU plugin and the reference interpreter, or those
// that TOLK_TEST_DEVICES names, as in XDEV,XDEV:1.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tolk/base/config.h"

// The default device of this thread until the end of the scope.
class DeviceScope {
public:
  explicit DeviceScope(const std::string& device) : scope_(with(device)) {}

private:
  static tolk::Config with(const std::string& device) {
    tolk::Config config = tolk::Config::current();
    config.device = device;
    return config;
  }
  tolk::ScopedConfig scope_;
};

inline std::vector<std::string> devices_to_test() {
  std::string text = tolk::environment("TOLK_TEST_DEVICES");
  if (text.empty()) return {"CPU", "INTERP"};
  std::vector<std::string> names;
  for (size_t at = 0; at <= text.size();) {
    size_t end = std::min(text.find(',', at), text.size());
    names.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

inline void on_each_device(const std::function<void(const std::string&)>& body) {
  for (const std::string& device : devices_to_test()) {
    DeviceScope scope(device);
    body(device);
  }
}
