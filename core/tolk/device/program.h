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
  // InvalidArgument for a wrong number of arguments, a buffer of another device, one that is too small, not
  // writable or a view at an offset that the device does not take, a value outside the range that the kernel
  // was compiled for; DeviceError when the launch fails. Any thread. Storage that is released while the
  // kernel runs is kept until that is done.
  void launch(std::span<Buffer* const> buffers, std::span<const int64_t> values, std::array<uint32_t, 3> grid,
              std::array<uint32_t, 3> local = {1, 1, 1}, uint64_t* device_ns = nullptr);

  // What the plugin knows about the compiled code; zero is unknown.
  tolk_kernel_info info() const;

  // --- for this layer: the checks of a launch, one argument at a time ---
  size_t buffer_count() const { return min_bytes_.size(); }
  size_t value_count() const { return params_.size() - min_bytes_.size(); }
  tolk_kernel* kernel() const { return kernel_; } // null once the device was shut down
  void check_counts(size_t buffers, size_t values) const;
  void check_buffer(size_t index, const Buffer& buffer) const {
    bool written = params_[index].access & TOLK_ACCESS_WRITE;
    if (&buffer.device() != &device_ || buffer.bytes() < min_bytes_[index] ||
        (written && !buffer.writable()) || (buffer.offset() & offset_mask_) != 0) [[unlikely]]
      refuse_buffer(index, buffer);
  }
  void check_value(size_t index, int64_t value) const {
    const tolk_param& p = params_[min_bytes_.size() + index];
    if ((p.min != 0 || p.max != 0) && (value < p.min || value > p.max)) [[unlikely]]
      refuse_value(index, value);
  }

  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

private:
  friend class Device;
  Program(Device& device, const KernelSource& source)
      : device_(device), name_(source.entry), params_(source.params),
        offset_mask_(device.caps().offset_align - 1) {}
  void unload();
  [[noreturn]] void refuse_buffer(size_t index, const Buffer& buffer) const;
  [[noreturn]] void refuse_value(size_t index, int64_t value) const;

  Device& device_;
  std::string name_;
  std::vector<tolk_param> params_;
  uint64_t offset_mask_;            // bits that offsets of arguments lack
  std::vector<uint64_t> min_bytes_; // per buffer parameter, 0 unknown
  tolk_program* program_ = nullptr;
  tolk_kernel* kernel_ = nullptr;
};

} // namespace tolk
