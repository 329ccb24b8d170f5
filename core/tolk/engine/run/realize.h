// Computes tensor nodes: schedules, compiles, runs, and links the nodes to their results.
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

// A compiled schedule. `results[i]` is the value of root i after a run; it may run again after the inputs'
// storage was written. One run at a time.
struct TOLK_API Prepared {
  UOp linear;
  VarVals vars;
  std::shared_ptr<BufferBinding> binding; // storage of temporaries and run state; null when nothing runs
  std::vector<UOp> results;
  double schedule_ms = 0, compile_ms = 0;

  void run() const;
  size_t kernel_count() const { return linear ? count_kernels(linear) : 0; }
};
// `device` stores values that name no device (constants); empty means the default one.
TOLK_API Prepared prepare(std::span<const UOp> roots, const std::string& device = {},
                          const Progress& progress = {});

// Schedules the roots with the settings in force. While this thread captures (engine/capture/capture_scope.h), the
// capturer gets the schedule, without a memory plan, and the one returned has no calls.
TOLK_API schedule::Schedule create_schedule(std::span<const UOp> roots, const std::string& device = {});

// Compiles and runs, or only records while this thread captures. Returns the results: views over storage, as
// of its version. Every root is linked to its result (schedule::Realized), so later graphs do not compute it
// again, and every written BUFFER records the number of its write (uop/state.h).
//
// With `current`, storage below the roots is read as of the version that it names, a BUFFER alone being
// version 0; throws InvalidArgument "was assigned to after" when it was written since, unless a capture
// retains that version. Without, the present contents are read.
TOLK_API std::vector<UOp> realize(std::span<const UOp> roots, const std::string& device = {},
                                  bool current = false);

// The row-major bytes of a realised node with contiguous storage, of a replica those on its first device.
// Waits for the device.
TOLK_API std::vector<std::byte> read_bytes(const UOp& result);

} // namespace tolk::engine
