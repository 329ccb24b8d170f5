// Copies between devices, and the common form of things that can be dispatched.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "tolk/base/api.h"
#include "tolk/device/buffer.h"
#include "tolk/engine/run/var_vals.h"

namespace tolk::engine {

// What one launch does, for statistics.
struct Estimates {
  double ops = 0; // arithmetic operations
  double lds = 0; // bytes loaded and stored, upper bound
  double mem = 0; // bytes of memory touched, each once
};

struct Runner {
  std::string display_name;
  Device* device = nullptr;
  Estimates estimates;
  bool first_run = true;
  // Seconds, when it waited.
  std::function<std::optional<double>(std::span<const BufferRef> buffers, const VarVals& var_vals, bool wait,
                                      std::optional<int> timeout_ms)>
      call;
  // `call` without waiting.
  std::optional<double> exec(std::span<const BufferRef> buffers, const VarVals& var_vals = {}) {
    return call(buffers, var_vals, false, {});
  }
};

// Copies `total_bytes` from one device to another; its buffers are (destination, source). Calling it throws
// InvalidArgument "expected exactly two buffers" and "size or dtype mismatch", both before anything is
// allocated. Memory of one plugin moves by the plugin's own copy, else over host memory, in pieces of at most
// TOLK_STAGING_BYTES; overlapping ranges of one buffer have the result of a copy over the side.
TOLK_API Runner buffer_copy(Device& device, int64_t total_bytes, const std::string& dest_device,
                            const std::string& src_device);

// "copy <size>, <destination> <- <source>" with names cut to 7 characters.
TOLK_API std::string copy_name(int64_t total_bytes, const std::string& dest_device,
                               const std::string& src_device);
// The checks of a copy's buffers, (destination, source); touches nothing.
TOLK_API void check_copy(std::span<const BufferRef> buffers);

} // namespace tolk::engine
