// The dispatch interface of launches outside of programs, and copies between devices as one of them. The COPY
// calls of a LINEAR run so.
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

// The work of one launch, for statistics.
struct Estimates {
  double ops = 0; // arithmetic operations
  double lds = 0; // bytes loaded and stored, upper bound
  double mem = 0; // bytes of memory touched, each once
};

struct Runner {
  std::string display_name; // in DEBUG=2 and profiles
  Device* device = nullptr;
  Estimates estimates;
  bool first_run = true; // until run_linear ran it
  // Submits the work. With `wait`, waits for it and returns the seconds it took.
  std::function<std::optional<double>(std::span<const BufferRef> buffers, const VarVals& var_vals, bool wait,
                                      std::optional<int> timeout_ms)>
      call;
  // Submits without waiting.
  std::optional<double> exec(std::span<const BufferRef> buffers, const VarVals& var_vals = {}) {
    return call(buffers, var_vals, false, {});
  }
};

// Copies `total_bytes` to `device`. Its buffers are (destination, source). A call throws InvalidArgument
// "expected exactly two buffers" and "size or dtype mismatch", both before it allocates anything. Between
// devices of one plugin that can, the plugin copies; else the bytes pass through host memory, in pieces of at
// most TOLK_STAGING_BYTES. Overlapping ranges of one buffer are copied as with memmove.
TOLK_API Runner buffer_copy(Device& device, int64_t total_bytes, const std::string& dest_device,
                            const std::string& src_device);

// The checks that a call makes of its buffers.
TOLK_API void check_copy(std::span<const BufferRef> buffers);

} // namespace tolk::engine
