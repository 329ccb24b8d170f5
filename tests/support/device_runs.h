// Runs a test's body once per device that computes: the CPU plugin and the reference interpreter.
#pragma once

#include <functional>
#include <string>

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

inline void on_each_device(const std::function<void(const std::string&)>& body) {
  for (const char* device : {"CPU", "INTERP"}) {
    DeviceScope scope(device);
    body(device);
  }
}
