// The device table: facts and limits.
#include <sys/sysinfo.h>

#include <cstring>

#include "cpu_info.h"
#include "stream.h"

namespace tolk_cpu {
namespace {

constexpr uint64_t bit(int dtype) { return uint64_t{1} << dtype; }
constexpr uint64_t kStorage = (bit(TOLK_DTYPE_F8E8M0) << 1) - 1; // bool to f8e8m0; narrower types are packed
// bf16 and the f8 kinds have no arithmetic worth using; f16 rounds after each operation.
constexpr uint64_t kArithmetic = ((bit(TOLK_DTYPE_F64) << 1) - 1) & ~bit(TOLK_DTYPE_BF16);
constexpr uint64_t kCacheFallback = 32 << 20;

tolk_target make_target() {
  tolk_target target{};
  target.struct_size = sizeof target;
  target.kind = TOLK_TARGET_LLVM_IR;
  target.version_min = target.version_max = 19;
  target.features = TOLK_FEATURE_MULACC | TOLK_FEATURE_SQRT | TOLK_FEATURE_TRUNC;
  target.dialect = cpu_info().triple;
  target.arch = cpu_info().arch.c_str();
  target.arch_features = "";
  target.data_layout = "";
  return target;
}

const tolk_caps& device_caps() {
  static const tolk_target target = make_target();
  static const tolk_caps caps = [] {
    const CpuInfo& cpu = cpu_info();
    tolk_caps c{};
    c.struct_size = sizeof c;
    c.target_count = 1;
    c.targets = &target;
    c.dtype_storage = kStorage;
    c.dtype_alu = kArithmetic;
    c.flags = TOLK_CAP_DENORMALS_F16 | TOLK_CAP_DENORMALS_F32 | TOLK_CAP_NO_CONTRACTION |
              TOLK_CAP_SCALAR_SLOTS_64 | TOLK_CAP_NODE_TIMING;
    c.vector_bytes = cpu.vector_bytes;
    c.vector_widths = 0x7f; // 1 to 64 elements; LLVM splits what is wider than a register
    c.grid_max[0] = UINT32_MAX;
    c.grid_max[1] = c.grid_max[2] = 1;
    c.local_max[0] = c.local_max[1] = c.local_max[2] = 1;
    c.local_product_max = 1;
    c.shared_bytes = uint64_t{64} << 20; // scratch of each thread, ordinary memory
    c.register_bytes_hint = uint64_t{cpu.vector_registers} * cpu.vector_bytes;
    c.buffer_align = 64;
    c.offset_align = c.copy_align = c.import_align = 1;
    c.map_align = 64;
    c.max_total_bytes = cpu.memory_bytes;
    c.buffer_kinds = c.kernel_kinds = 1u << TOLK_BUFFER_DEVICE | 1u << TOLK_BUFFER_STAGING |
                                      1u << TOLK_BUFFER_UNIFIED | 1u << TOLK_BUFFER_DEVICE_WRITABLE;
    c.compute_units = cpu.cores;
    c.streams_max = has_streams() ? 64 : 0;
    c.copy_engines = has_streams() ? 1 : 0;
    c.graph = (has_streams() ? uint32_t{TOLK_GRAPH_UPDATE_MAY_BLOCK} : 0u) | TOLK_GRAPH_KERNELS |
              TOLK_GRAPH_COPIES | TOLK_GRAPH_FILLS | TOLK_GRAPH_CROSS_DEVICE | TOLK_GRAPH_UPDATE_BUFFERS |
              TOLK_GRAPH_UPDATE_VALUES | TOLK_GRAPH_UPDATE_SIZES;
    c.vector_registers = cpu.vector_registers;
    c.fma_ports = cpu.fma_ports;
    c.cores = thread_count();
    c.l1d_bytes = cpu.l1d_bytes;
    c.l2_bytes = cpu.l2_bytes;
    c.llc_bytes = cpu.llc_bytes;
    return c;
  }();
  return caps;
}

void close(tolk_device* device) { delete device; }

tolk_status caps(tolk_device*, const tolk_caps** out) {
  return guarded([&] {
    *out = &device_caps();
    return TOLK_OK;
  });
}

tolk_status memory(tolk_device*, tolk_memory* out) {
  tolk_memory m{};
  m.struct_size = sizeof m;
  m.total_bytes = cpu_info().memory_bytes;
  struct sysinfo info;
  if (sysinfo(&info) == 0) m.free_bytes = (uint64_t{info.freeram} + info.bufferram) * info.mem_unit;
  m.used_bytes = memory_use.bytes;
  m.peak_bytes = memory_use.peak;
  m.buffer_count = memory_use.buffers;
  tolk_write_out(out, &m, sizeof m);
  return TOLK_OK;
}

tolk_status synchronize(tolk_device* device, uint64_t timeout_ns) {
  return guarded([&] {
    std::vector<Point> ends;
    {
      std::lock_guard lock(device->mutex);
      for (tolk_stream* stream : device->streams) ends.push_back(stream->end());
    }
    for (const Point& end : ends)
      if (!end.wait(timeout_ns)) return TOLK_TIMEOUT;
    return TOLK_OK; // what failed is said by the stream
  });
}

tolk_status peer(tolk_device*, tolk_device*, uint32_t* flags) {
  *flags = TOLK_PEER_COPY | TOLK_PEER_MAP | TOLK_PEER_ATOMICS;
  return TOLK_OK;
}

tolk_status clock(tolk_device*, uint64_t* device_ns, uint64_t* host_ns) {
  *device_ns = *host_ns = host->clock_ns(host->ctx);
  return TOLK_OK;
}

// Writes twice the last cache's size, so that nothing else is left in it.
tolk_status flush_caches(tolk_device*) {
  return guarded([] {
    uint64_t size = 2 * (cpu_info().llc_bytes ? cpu_info().llc_bytes : kCacheFallback);
    std::vector<uint8_t> junk(size, 1);
    volatile uint8_t sink = junk[size / 2];
    (void)sink;
    return TOLK_OK;
  });
}

} // namespace

const tolk_device_info& device_info() {
  static const tolk_device_info info = [] {
    tolk_device_info i{};
    i.struct_size = sizeof i;
    i.kind = TOLK_KIND_CPU;
    i.flags = TOLK_DEVICE_UNIFIED_MEMORY | TOLK_DEVICE_REOPENABLE | TOLK_DEVICE_DETERMINISTIC;
    i.numa_node = -1;
    i.memory_bytes = cpu_info().memory_bytes;
    i.name = cpu_info().model.c_str();
    static const std::string description =
        std::to_string(cpu_info().cores) + " cores, LLVM " TOLK_CPU_LLVM_VERSION;
    i.description = description.c_str();
    i.arch = cpu_info().arch.c_str();
    i.driver_version = "";
    i.dlpack_type = 1; // kDLCPU
    return i;
  }();
  return info;
}

const tolk_device_vt device_table = {
    .struct_size = sizeof(tolk_device_vt),
    .reserved = 0,
    .close = close,
    .caps = caps,
    .memory = memory,
    .trim = nullptr,
    .synchronize = synchronize,
    .peer = peer,
    .clock = clock,
    .flush_caches = flush_caches,
    .lost_reason = nullptr,
};

} // namespace tolk_cpu
