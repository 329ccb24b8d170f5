// Computing tensor nodes: schedule, compile, run, and remember the results.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/engine/run/run_linear.h"
#include "tolk/schedule/schedule.h"
#include "tolk/uop/uop.h"

namespace tolk::engine {

// A schedule that is compiled but not run. `results[i]` denotes the value of root i once it ran; run it again
// after the inputs' storage got new contents. One run at a time.
struct TOLK_API Prepared {
  UOp linear;
  VarVals vars;
  std::shared_ptr<BufferBinding> binding; // storage of the temporaries, and the prepared form
  std::vector<UOp> results;
  double schedule_ms = 0, compile_ms = 0;

  void run() const;
  size_t kernel_count() const { return linear ? count_kernels(linear) : 0; }
};
// `device` is where values without a device (constants) are stored; empty means the default one.
TOLK_API Prepared prepare(std::span<const UOp> roots, const std::string& device = {},
                          const Progress& progress = {});

// Schedules the roots with the settings in force. While this thread captures (engine/capture/capture.h), the
// capturer gets the schedule, without a memory plan, and the one returned has no calls.
TOLK_API schedule::Schedule create_schedule(std::span<const UOp> roots, const std::string& device = {});

// Prepares and runs, or only records while this thread captures. Every root remembers its result
// (schedule::Realized), so graphs built on it later do not compute it again. Gives the results: movement
// chains over storage as of its version. Every BUFFER that is written gets the number of its write
// (uop/state.h).
//
// `current`: storage below the roots is named with its version, a BUFFER alone being version 0; throws
// InvalidArgument "was assigned to after" when it was written since, unless a capture keeps that version.
// Otherwise names of storage mean what it holds.
TOLK_API std::vector<UOp> realize(std::span<const UOp> roots, const std::string& device = {},
                                  bool current = false);

// Row-major bytes of a realised node with contiguous storage, of a replica those on its first device; waits
// for the device.
TOLK_API std::vector<std::byte> read_bytes(const UOp& result);

} // namespace tolk::engine
