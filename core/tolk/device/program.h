// A loaded kernel and its launch.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tolk/plugin/tolk_plugin.h>

#include "tolk/base/api.h"
#include "tolk/device/buffer.h"
#include "tolk/device/device.h"

namespace tolk {

class TOLK_API Program {
public:
  Device& device() const { return device_; }
  const std::string& name() const { return name_; }
  const std::vector<tolk_param>& params() const { return params_; }

  // Submits the kernel. `buffers` and `values` are in parameter order; `grid` counts work-groups (tiles on a
  // CPU), and nothing runs when an axis is 0. Unallocated buffers are allocated. With `device_ns` the call
  // waits and stores how long the kernel ran (the host's wall time where the plugin does not say). Throws
  // InvalidArgument for a wrong number of arguments, a buffer of another device, one that is too small or not
  // writable, a value outside the range that the kernel was compiled for; DeviceError when the launch fails.
  // Any thread; buffers must stay alive until the device is synchronized or another blocking call on them
  // returned, which holding them to the end of the run ensures.
  void launch(std::span<Buffer* const> buffers, std::span<const int64_t> values, std::array<uint32_t, 3> grid,
              std::array<uint32_t, 3> local = {1, 1, 1}, uint64_t* device_ns = nullptr);

  // What the plugin knows about the compiled code; zero is unknown.
  tolk_kernel_info info() const;

  // --- for this layer and the graphs above it; null once the device was shut down
  tolk_kernel* kernel() const { return kernel_; }

  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

private:
  friend class Device;
  Program(Device& device, const KernelSource& source)
      : device_(device), name_(source.entry), params_(source.params) {}
  void unload();

  Device& device_;
  std::string name_;
  std::vector<tolk_param> params_;
  std::vector<uint64_t> min_bytes_; // per buffer parameter, 0 unknown
  tolk_program* program_ = nullptr;
  tolk_kernel* kernel_ = nullptr;
};

} // namespace tolk
