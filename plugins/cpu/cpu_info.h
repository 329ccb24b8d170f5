// What this processor is, without asking LLVM: for the device's caps, and for an identity that keeps compiled
// kernels of one machine from being loaded on another.
#pragma once

#include <cstdint>
#include <string>

namespace tolk_cpu {

struct CpuInfo {
  std::string model;  // "AMD EPYC", from the system
  std::string arch;   // "x86-64-v3", "aarch64"
  const char* triple; // as LLVM spells it
  uint64_t identity;  // digest of everything that decides which instructions exist
  uint32_t vector_bytes, vector_registers, fma_ports;
  bool half_conversion;                    // f16 to f32 and back in hardware
  uint32_t cores;                          // that this process may use
  uint64_t l1d_bytes, l2_bytes, llc_bytes; // 0 unknown
  uint64_t memory_bytes;
};

// Read once per process; thread-safe.
const CpuInfo& cpu_info();

} // namespace tolk_cpu
