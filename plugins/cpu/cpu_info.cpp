#include "cpu_info.h"

#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace tolk_cpu {
namespace {

struct Digest {
  uint64_t value = 0xcbf29ce484222325;
  void add(uint64_t word) { value = (value ^ word) * 0x100000001b3; }
};

std::string first_line(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

void read_caches(CpuInfo& info) {
  for (int index = 0; index < 8; ++index) {
    std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    std::string level = first_line(folder + "level"), type = first_line(folder + "type");
    if (level.empty()) return;
    if (type == "Instruction") continue;
    unsigned long long size = 0;
    char unit = 0;
    if (std::sscanf(first_line(folder + "size").c_str(), "%llu%c", &size, &unit) < 1) continue;
    uint64_t bytes = unit == 'K' ? size << 10 : unit == 'M' ? size << 20 : size;
    if (level == "1") info.l1d_bytes = bytes;
    if (level == "2") info.l2_bytes = bytes;
    info.llc_bytes = bytes;
  }
}

std::string model_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

#if defined(__x86_64__)
void read_processor(CpuInfo& info) {
  uint32_t a = 0, b = 0, c = 0, d = 0, features1 = 0, features7 = 0;
  uint64_t enabled = 0;
  Digest digest;
  __cpuid(0, a, b, c, d);
  for (uint32_t word : {b, c, d}) digest.add(word);
  uint32_t last = a;
  __cpuid(1, a, b, c, d); // b names the core that asks
  for (uint32_t word : {a, c, d}) digest.add(word);
  features1 = c;
  if (features1 & bit_OSXSAVE) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    enabled = low | static_cast<uint64_t>(high) << 32;
    digest.add(enabled);
  }
  if (last >= 7) {
    __cpuid_count(7, 0, a, b, c, d);
    features7 = b;
    for (uint32_t word : {b, c, d}) digest.add(word);
    __cpuid_count(7, 1, a, b, c, d);
    for (uint32_t word : {a, b, d}) digest.add(word);
  }
  __cpuid(0x80000000, a, b, c, d);
  if (a >= 0x80000001) {
    __cpuid(0x80000001, a, b, c, d);
    for (uint32_t word : {c, d}) digest.add(word);
  }
  bool avx = (features1 & bit_AVX) && (enabled & 6) == 6;
  bool avx2 = avx && (features7 & bit_AVX2), fma = avx && (features1 & bit_FMA);
  bool avx512 = avx2 && (enabled & 0xe6) == 0xe6 && (features7 & bit_AVX512F) && (features7 & bit_AVX512VL) &&
                (features7 & bit_AVX512BW) && (features7 & bit_AVX512DQ);
  info.identity = digest.value;
  info.vector_bytes = avx512 ? 64 : avx2 ? 32 : 16;
  info.vector_registers = avx512 ? 32 : 16;
  info.fma_ports = fma ? 2 : 1;
  info.half_conversion = avx && (features1 & bit_F16C);
  info.arch = avx512                   ? "x86-64-v4"
              : avx2 && fma            ? "x86-64-v3"
              : features1 & bit_SSE4_2 ? "x86-64-v2"
                                       : "x86-64";
  info.triple = "x86_64-pc-linux-gnu";
}
#elif defined(__aarch64__)
void read_processor(CpuInfo& info) {
  Digest digest;
  digest.add(getauxval(AT_HWCAP));
  digest.add(getauxval(AT_HWCAP2));
  for (char c : first_line("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1"))
    digest.add(static_cast<unsigned char>(c));
  info.identity = digest.value;
  info.vector_bytes = 16;
  info.vector_registers = 32;
  info.fma_ports = 2;
  info.half_conversion = true;
  info.arch = "aarch64";
  info.triple = "aarch64-unknown-linux-gnu";
}
#else
#error "plugins/cpu knows x86-64 and aarch64"
#endif

CpuInfo read_all() {
  CpuInfo info{};
  read_processor(info);
  read_caches(info);
  info.model = model_name();
  cpu_set_t set;
  info.cores = sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<uint32_t>(CPU_COUNT(&set))
                                                           : std::thread::hardware_concurrency();
  if (info.cores == 0) info.cores = 1;
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) info.memory_bytes = static_cast<uint64_t>(pages) * static_cast<uint64_t>(page);
  return info;
}

} // namespace

const CpuInfo& cpu_info() {
  static const CpuInfo info = read_all();
  return info;
}

} // namespace tolk_cpu
