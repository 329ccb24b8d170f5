// Loaded programs: each binary is loaded once for a device and kept for the process.
#pragma once

#include <cstdint>

#include "tolk/base/api.h"
#include "tolk/device/program.h"
#include "tolk/engine/compile/program_table.h"
#include "tolk/uop/uop.h"

namespace tolk::engine {

// The program loaded on a device, found by content and device. With `cache` false it is loaded again and not
// kept, for tuning. Throws InvalidArgument "PROGRAM is missing its compiled binary", DeviceError,
// FormatError.
TOLK_API ProgramRef get_runtime(Device& device, const UOp& program, bool cache = true);

// Loads a program that was just compiled or read from a cache, and keeps it; throws FormatError for a damaged
// binary.
void load_runtime(Device& device, const UOp& program);

// What the plugin's compiler and loader take for an entry; borrows from it.
TOLK_API KernelSource kernel_source(const ProgramEntry& entry);

struct RuntimeStats {
  uint64_t hits = 0, misses = 0;
};
RuntimeStats runtime_stats();
// Drops all loaded programs and zeroes the statistics. Those still held elsewhere stay usable.
void clear_runtimes();

} // namespace tolk::engine
